"""A migration leaves the records in the log that it leaves in Kafka's, and each in its place.

Both brokers play the same scenarios; then the logs of their groups are read, and compared record by
record. What Kafka's hash tables put in any order stands in the order of its keys here.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.coordinator.runtime import partition_of
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.records import written_version
from kafkalite.ports.files import OsFiles
from kafkalite.protocol import codec
from kafkalite.protocol.message import Message
from kafkalite.storage.log import Log
from tests.conformance.compare import differences
from tests.conformance.normal import Normaliser
from tests.conformance.scenarios import migration
from tests.conformance.world import Entry, World
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conformance.normal import Tree
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

SCENARIOS = (
    migration.a_consumer_upgrades_a_classic_group,
    migration.a_classic_member_goes_over_under_its_own_id,
    migration.static_members_change_their_protocol,
    migration.a_static_successor_may_want_other_topics,
    migration.the_last_consumer_leaves_a_classic_group_behind,
)

NOT_COMPARED = frozenset(
    (
        # Times, and hashes that are compared with their own kind alone.
        "assignment_timestamp", "current_state_timestamp", "commit_timestamp", "metadata_hash",
        # A hash table's first is not the first that came.
        "leader",
        # What only kafkalite writes.
        "revocation_epoch", "is_revocation_under_way",
    )
)  # fmt: skip

_EMBEDDED = {
    "subscription": "consumer_protocol_subscription",
    "assignment": "consumer_protocol_assignment",
}


def _play(scenario: Callable[[World], None], target: Target, name: str) -> World:
    world = World(target.port, name)
    try:
        scenario(world)
    finally:
        world.close()
    return world


def _batches(target: Target, group: str, directory: Path) -> Iterator[list[tuple[object, object]]]:
    """Yield what the group's log says of it, batch by batch, from a copy of the log."""
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
        mine = [each for each in decoded if each is not None and _group_of(each.key) == group]
        if mine:
            yield [(each.key, each.value) for each in mine]
    log.close()


def _group_of(key: object) -> object:
    return getattr(key, "group_id", None) or getattr(key, "group", None)


def _entries(target: Target, world: World, directory: Path) -> list[Entry]:
    names = Normaliser(NOT_COMPARED)
    entries = []
    for number, batch in enumerate(_batches(target, world.name, directory)):
        rows = sorted(
            (_tree(names, key, value) for key, value in batch), key=lambda row: repr(row["of"])
        )
        kinds: list[Tree] = list(dict.fromkeys(type(key).__name__ for key, _ in batch))
        entries.append(Entry(f"batch {number}", {"order": kinds, "records": list(rows)}))
    return entries


def _tree(names: Normaliser, key: object, value: object) -> dict[str, Tree]:
    assert isinstance(key, Message)
    of: dict[str, Tree] = {"kind": type(key).__name__, **names.tree(key)}
    if value is None:
        return {"of": of, "value": "tombstone"}
    assert isinstance(value, Message)
    said = names.tree(value)
    for member in getattr(value, "members", ()):
        # The order of topics and partitions in these bytes is a hash table's as well.
        for name, kind in _EMBEDDED.items():
            data = getattr(member, name)
            if data:
                said[f"{name} of {names.tree(member)['member_id']}"] = names.tree(
                    codec.decode_message(kind, data)
                )
    return {"of": of, "value": said}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_log_says_what_kafkas_says(
    scenario: Callable[[World], None], real_kafka: Target, accused: Target, tmp_path: Path
) -> None:
    name = f"logged-{scenario.__name__.replace('_', '-')}"
    logs = []
    for target in (real_kafka, accused):
        world = _play(scenario, target, name)
        logs.append(_entries(target, world, tmp_path))
    assert logs[0]
    found = differences(*logs)
    assert not found, "\n".join(found)
