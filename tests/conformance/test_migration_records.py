"""A migration writes the same records as in Kafka, in the same order.

Both brokers run the same scenarios. Then the logs of their groups are compared record by record.
Elements that Kafka writes in the order of a hash table are sorted by key first.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.coordinator.runtime import partition_of
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.offsets_topic_records import written_version
from kafkalite.ports.files import OsFiles
from kafkalite.protocol import codec
from kafkalite.protocol.message import Message
from kafkalite.storage.log import Log
from tests.conformance.compare import differences
from tests.conformance.normalization import Normaliser
from tests.conformance.scenario_cluster import Entry, ScenarioCluster
from tests.conformance.scenarios import migration
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conformance.normalization import Tree
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

SCENARIOS = (
    migration.a_consumer_upgrades_a_classic_group,
    migration.a_classic_member_changes_protocol_with_its_own_id,
    migration.static_members_change_their_protocol,
    migration.a_static_successor_may_subscribe_to_other_topics,
    migration.the_last_consumer_leaves_a_classic_group_behind,
)

NOT_COMPARED = frozenset(
    (
        # Timestamps, and hashes that are comparable only within one broker.
        "assignment_timestamp", "current_state_timestamp", "commit_timestamp", "metadata_hash",
        # The first element of a hash map is not the first that was added.
        "leader",
        # Fields that only kafkalite writes.
        "revocation_epoch", "is_revocation_under_way", "is_join_confirmed",
    )
)  # fmt: skip

_EMBEDDED = {
    "subscription": "consumer_protocol_subscription",
    "assignment": "consumer_protocol_assignment",
}


def _play(
    scenario: Callable[[ScenarioCluster], None], target: Target, name: str
) -> ScenarioCluster:
    cluster = ScenarioCluster(target.port, name)
    try:
        scenario(cluster)
    finally:
        cluster.close()
    return cluster


def _batches(target: Target, group: str, directory: Path) -> Iterator[list[tuple[object, object]]]:
    """Yield the group's records batch by batch, from a copy of the log."""
    partition = partition_of(group, int(COMMON_CONFIG["offsets.topic.num.partitions"]))
    copy = directory / target.name
    copy.mkdir()
    for segment in (target.data / f"__consumer_offsets-{partition}").glob("*.log"):
        shutil.copy(segment, copy)
    log = Log.open(OsFiles(), str(copy), LogConfig(), now_ms=0)
    serde = CoordinatorSerde(written_version)
    for view in log.batches():
        # Other tests end transactions on the same partition.
        records = [] if view.is_control else view.records()
        decoded = [serde.decode(record.key, record.value) for record in records]
        group_records = [
            record for record in decoded if record is not None and _group_of(record.key) == group
        ]
        if group_records:
            yield [(record.key, record.value) for record in group_records]
    log.close()


def _group_of(key: object) -> object:
    return getattr(key, "group_id", None) or getattr(key, "group", None)


def _entries(target: Target, cluster: ScenarioCluster, directory: Path) -> list[Entry]:
    names = Normaliser(NOT_COMPARED)
    entries = []
    for number, batch in enumerate(_batches(target, cluster.name, directory)):
        rows = sorted(
            (_tree(names, key, value) for key, value in batch), key=lambda row: repr(row["of"])
        )
        kinds: list[Tree] = list(dict.fromkeys(type(key).__name__ for key, _ in batch))
        entries.append(Entry(f"batch {number}", {"order": kinds, "records": list(rows)}))
    return entries


def _tree(names: Normaliser, key: object, value: object) -> dict[str, Tree]:
    assert isinstance(key, Message)
    key_values: dict[str, Tree] = {"kind": type(key).__name__, **names.tree(key)}
    if value is None:
        return {"of": key_values, "value": "tombstone"}
    assert isinstance(value, Message)
    tree = names.tree(value)
    for member in getattr(value, "members", ()):
        # In these bytes too, topics and partitions have the order of a hash map.
        for name, message_name in _EMBEDDED.items():
            data = getattr(member, name)
            if data:
                tree[f"{name} of {names.tree(member)['member_id']}"] = names.tree(
                    codec.decode_message(message_name, data)
                )
    return {"of": key_values, "value": tree}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_records_of_a_migration_equal_kafkas(
    scenario: Callable[[ScenarioCluster], None],
    real_kafka: Target,
    emulator: Target,
    tmp_path: Path,
    attempt: int,
) -> None:
    name = f"logged-{scenario.__name__.replace('_', '-')}-{attempt}"
    logs = []
    for target in (real_kafka, emulator):
        cluster = _play(scenario, target, name)
        logs.append(_entries(target, cluster, tmp_path))
    assert logs[0]
    lines = differences(*logs)
    assert not lines, "\n".join(lines)
