"""Records of groups in `__consumer_offsets`: types, versions, contents and order."""

from __future__ import annotations

from struct import unpack_from
from typing import TYPE_CHECKING, Any

from kafkalite.coordinator.runtime import partition_of
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.offsets_topic_records import written_version
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from kafkalite.storage.batch import split_batches
from tests.conformance.scenarios.classic_groups import Classic, new_member, stable_group
from tests.conformance.scenarios.classic_rules import pair
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.consumer_groups import new_group
from tests.conformance.scenarios.fetching import fetch_from, partition_at
from tests.conformance.setup import create_topic, wait_for_group_coordinator
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
    )
    from kafkalite.protocol.message import Message
    from tests.conformance.normalization import Tree
    from tests.conformance.scenario_cluster import ScenarioCluster

_OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = int(COMMON_CONFIG["offsets.topic.num.partitions"])
_JOIN, _SYNC, _LEAVE, _FETCH = 9, 5, 5, 11
_TIMES = frozenset(
    (
        "commit_timestamp", "expire_timestamp", "current_state_timestamp",
        "assignment_timestamp", "timestamp", "version",
    )
)  # fmt: skip
"""Fields with a time, or with the version of a broker's metadata."""
_OURS = frozenset(
    (
        "revocation_epoch", "is_revocation_under_way", "is_join_confirmed",
        "active_task_revocation_epoch", "is_active_task_revocation_under_way",
    )
)  # fmt: skip
"""Fields that Kafka does not have; it ignores them as unknown tagged fields."""
_RANDOM = frozenset(("metadata_hash",))
"""Fields that are computed from ids, which differ between brokers."""


def note_records(cluster: ScenarioCluster, group: str) -> None:
    """Note every record that a group has written so far, in order."""
    serde = CoordinatorSerde(written_version)
    rows: list[Tree] = []
    for key, value in _written(cluster, partition_of(group, OFFSETS_PARTITIONS)):
        record = serde.decode(key, value)
        if record is None or key is None or group not in _group_of(record.key):
            continue
        rows.append(
            {
                "kind": type(record.key).__name__,
                "key": _shown(cluster, record.key),
                "value version": "none" if value is None else unpack_from(">h", value)[0],
                "value": None if record.value is None else _shown(cluster, record.value),
            }
        )
    cluster.record(f"the records of {group}", rows)


def _group_of(key: Any) -> tuple[str, ...]:  # noqa: ANN401 - any record key class
    return tuple(getattr(key, name) for name in ("group", "group_id") if hasattr(key, name))


def _shown(cluster: ScenarioCluster, message: Any) -> Tree:  # noqa: ANN401 - any record class
    return _without_times(cluster.tree(message))


def _without_times(tree: Tree) -> Tree:
    if isinstance(tree, list):
        return [_without_times(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    shown: dict[str, Tree] = {}
    for name, value in tree.items():
        if name in _OURS:
            continue
        if name in _TIMES or name in _RANDOM:
            shown[name] = "none" if value in {-1, 0} else "some"
        else:
            shown[name] = _without_times(value)
    return shown


def _written(
    cluster: ScenarioCluster, partition: int
) -> Iterator[tuple[bytes | None, bytes | None]]:
    offset = 0
    while True:
        request: Message = fetch_from(_OFFSETS_TOPIC, partition_at(partition, offset))
        answer = cluster.probe(request, _FETCH)
        (row,) = answer.responses[0].partitions
        assert row.error_code == 0, row
        batches = split_batches(bytes(row.records or b""))
        if not batches:
            return
        for view in batches:
            # Other scenarios end transactions on the same partition.
            if not view.is_control:
                yield from view.key_values()
        offset = batches[-1].last_offset + 1


def classic_groups_record_their_generations(cluster: ScenarioCluster) -> None:
    group = Classic(cluster.name)
    first, second = pair(cluster, group)
    cluster.send(group.sync(second.member_id, second.generation_id), _SYNC, on="second")
    all_members = (first.member_id, second.member_id)
    cluster.ask(group.sync(first.member_id, first.generation_id, *all_members), _SYNC)
    cluster.receive("second", title="the sync of the second")
    cluster.ask(group.leave(second.member_id), _LEAVE)
    cluster.ask(group.leave(first.member_id), _LEAVE)
    cluster.ask(DeleteGroupsRequest(groups_names=[cluster.name]), 2)
    note_records(cluster, cluster.name)


def refused_joins_leave_an_empty_group(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(Classic(cluster.name).join(kind=""), _JOIN)
    cluster.ask(Classic(cluster.name).join("unknown"), _JOIN)
    note_records(cluster, cluster.name)


def returning_static_members_are_recorded(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    first = cluster.ask(group.join(instance="i-1", session_timeout_ms=20_000), _JOIN)
    member, generation = first.member_id, first.generation_id
    cluster.ask(group.sync(member, generation, member, instance="i-1"), _SYNC)
    for version in (5, 9):
        cluster.ask(group.join(instance="i-1", session_timeout_ms=25_000), version)
    cluster.ask(group.leave("", instance="i-1"), _LEAVE)
    note_records(cluster, cluster.name)


def commits_are_recorded_by_their_kind(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name, partitions=2)
    wait_for_group_coordinator(cluster, cluster.name)
    for version in range(2, 11):
        request = commit(cluster.name, cluster.name, 0, topic_id=topic_id, offset=version)
        for retention_ms in (-1, 60_000):
            request.retention_time_ms = retention_ms
            request.topics[0].partitions[0].committed_leader_epoch = version - 4
            cluster.ask(request, version)
    cluster.ask(commit(cluster.name, cluster.name, 0, 1, metadata=None), 8)
    note_records(cluster, cluster.name)


def deleted_offsets_leave_tombstones(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=3)
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0), 8)
    cluster.ask(commit(cluster.name, cluster.name, 1), 8)
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name=cluster.name, partitions=[row(partition_index=index) for index in (0, 2)]
    )
    cluster.ask(OffsetDeleteRequest(group_id=cluster.name, topics=[topic]), 0)
    cluster.ask(DeleteGroupsRequest(groups_names=[cluster.name]), 2)
    note_records(cluster, cluster.name)


def groups_that_change_their_protocol_write_tombstones(cluster: ScenarioCluster) -> None:
    create_topic(cluster, f"{cluster.name}-topic")
    group, member, _generation = stable_group(cluster, cluster.name, f"{cluster.name}-topic")
    cluster.ask(group.leave(member), _LEAVE)
    consumers = new_group(cluster, partitions=1)
    cluster.ask(consumers.join("a"), 1)
    cluster.ask(consumers.heartbeat("a", -1), 1)
    new_member(cluster, group)
    note_records(cluster, cluster.name)


def consumer_groups_record_every_step(cluster: ScenarioCluster) -> None:
    group = new_group(cluster, partitions=2)
    first = cluster.ask(group.join("a", rack_id="r"), 1)
    cluster.ask(group.heartbeat("a", first.member_epoch, [0, 1]), 1)
    cluster.ask(group.join("b", instance_id="i-1"), 1)
    response = cluster.ask(group.heartbeat("a", first.member_epoch), 1)
    owned = [index for row in response.assignment.topic_partitions for index in row.partitions]
    second = cluster.ask(group.heartbeat("a", first.member_epoch, owned), 1)
    cluster.ask(group.heartbeat("b", second.member_epoch, instance_id="i-1"), 1)
    cluster.ask(group.heartbeat("b", -2, instance_id="i-1"), 1)
    cluster.ask(group.join("c", instance_id="i-1"), 1)
    cluster.ask(group.heartbeat("c", -1, instance_id="i-1"), 1)
    leaving: ConsumerGroupHeartbeatRequest = group.heartbeat("a", -1)
    cluster.ask(leaving, 1)
    cluster.ask(DeleteGroupsRequest(groups_names=[group.group]), 2)
    note_records(cluster, group.group)


SCENARIOS = (
    classic_groups_record_their_generations,
    refused_joins_leave_an_empty_group,
    returning_static_members_are_recorded,
    commits_are_recorded_by_their_kind,
    deleted_offsets_leave_tombstones,
    groups_that_change_their_protocol_write_tombstones,
    consumer_groups_record_every_step,
)
