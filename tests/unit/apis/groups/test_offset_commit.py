"""OffsetCommit, OffsetFetch and OffsetDelete in all versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.creation import NewTopic
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import ZERO_UUID
from tests.cluster.groups import GroupCluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

UNKNOWN_ID = b"no topic has this"[:16]
IDS_FROM = 10
GROUPS_FROM = 8
TOP_ERROR_FROM = 2


@pytest.fixture
def wire() -> GroupCluster:
    wire = GroupCluster()
    wire.ask(FindCoordinatorRequest(key="g"), 3)
    wire.create("t", 3)
    return wire


def commit_request(
    offsets: Mapping[tuple[str | bytes, int], int],
    *,
    group: str = "g",
    member_id: str = "",
    generation: int = -1,
    retention_ms: int = -1,
    timestamp_ms: int = -1,
    metadata: str | None = "",
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_metadata=metadata,
                        commit_timestamp=timestamp_ms,
                    )
                ],
            )
            for (topic, index), offset in offsets.items()
        ],
    )


def codes(response: Any) -> list[int]:  # noqa: ANN401 - any response class
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def fetch_one(topics: Mapping[str, Sequence[int]] | None, group: str = "g") -> OffsetFetchRequest:
    """Make an OffsetFetch request of versions before 8."""
    return OffsetFetchRequest(
        group_id=group,
        topics=None
        if topics is None
        else [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=list(indexes))
            for name, indexes in topics.items()
        ],
    )


def fetch_group(
    topics: Mapping[str | bytes, Sequence[int]] | None, group: str = "g"
) -> OffsetFetchRequest.OffsetFetchRequestGroup:
    """Make an OffsetFetch request of versions since 8."""
    return OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id=group,
        topics=None
        if topics is None
        else [
            OffsetFetchRequest.OffsetFetchRequestTopics(
                name=name if isinstance(name, str) else "",
                topic_id=name if isinstance(name, bytes) else ZERO_UUID,
                partition_indexes=list(indexes),
            )
            for name, indexes in topics.items()
        ],
    )


def offsets_and_errors(topics: Any) -> dict[str, dict[int, tuple[int, int]]]:  # noqa: ANN401 - two classes
    """Return topic → partition → (offset, error)."""
    return {
        topic.name or topic.topic_id.hex(): {
            partition.partition_index: (partition.committed_offset, partition.error_code)
            for partition in topic.partitions
        }
        for topic in topics
    }


# OffsetCommit


@pytest.mark.parametrize("version", range(1, 11))
def test_existing_partitions_are_committed_and_unknown_ones_refused_in_order(
    wire: GroupCluster, version: int
) -> None:
    by_id = version >= IDS_FROM
    topic = wire.metadata.image.topics["t"].topic_id if by_id else "t"
    unknown_topic: str | bytes = UNKNOWN_ID if by_id else "unknown"
    answer = wire.ask(
        commit_request({(topic, 9): 1, (unknown_topic, 0): 2, (topic, 1): 3, (topic, -1): 4}),
        version,
    )
    no_topic = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    no_partition = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == [no_partition, no_topic, ErrorCode.NONE, no_partition]
    assert offsets_and_errors(wire.ask(fetch_one(None), 5).topics) == {"t": {1: (3, 0)}}


def test_a_commit_of_unknown_partitions_only_does_not_ask_the_coordinator() -> None:
    wire = GroupCluster()
    answer = wire.ask(commit_request({("t", 0): 1}), 8)
    assert codes(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    wire.create("t")
    answer = wire.ask(commit_request({("t", 0): 1, ("t", 5): 1}), 8)
    assert codes(answer) == [ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_retention_and_timestamp_of_early_versions_are_stored(wire: GroupCluster) -> None:
    wire.ask(commit_request({("t", 0): 1}, retention_ms=5_000), 4)
    wire.ask(commit_request({("t", 1): 1}, timestamp_ms=123_456), 1)
    now_ms = wire.clock.now_ms()
    shard = wire.groups.locate("g", 1)
    stored = {
        partition: stored for _, _, partition, stored in shard.machine.offsets.all_committed()
    }
    assert stored[0].expire_timestamp_ms == now_ms + 5_000
    assert (stored[0].commit_timestamp_ms, stored[1].commit_timestamp_ms) == (now_ms, 123_456)
    assert stored[1].expire_timestamp_ms is None


def test_the_group_with_an_empty_id_can_commit(wire: GroupCluster) -> None:
    assert codes(wire.ask(commit_request({("t", 0): 1}, group=""), 8)) == [ErrorCode.NONE]
    assert offsets_and_errors(wire.ask(fetch_one(None, ""), 5).topics) == {"t": {0: (1, 0)}}


# OffsetFetch


@pytest.mark.parametrize("version", range(8))
def test_a_single_group_is_answered_at_the_top_level(wire: GroupCluster, version: int) -> None:
    wire.ask(commit_request({("t", 0): 5}), 8)
    answer = wire.ask(fetch_one({"t": [0, 1], "unknown": [0]}), version)
    missing = ErrorCode.NONE if version else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets_and_errors(answer.topics) == {
        "t": {0: (5, 0), 1: (-1, missing)},
        "unknown": {0: (-1, missing)},
    }
    assert answer.error_code == 0


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_have_individual_results(wire: GroupCluster, version: int) -> None:
    wire.ask(commit_request({("t", 0): 5, ("t", 2): 6}), 8)
    groups = [fetch_group({"t": [2]}), fetch_group(None), fetch_group({"t": [0]}, "none")]
    answer = wire.ask(OffsetFetchRequest(groups=groups), version)
    assert [
        (group.group_id, group.error_code, offsets_and_errors(group.topics))
        for group in answer.groups
    ] == [
        ("g", 0, {"t": {2: (6, 0)}}),
        ("g", 0, {"t": {0: (5, 0), 2: (6, 0)}}),
        ("none", 0, {"t": {0: (-1, 0)}}),
    ]


def test_since_version_10_topics_have_ids_instead_of_names(wire: GroupCluster) -> None:
    wire.ask(commit_request({("t", 0): 5}), 8)
    topic_id = wire.metadata.image.topics["t"].topic_id
    groups = [fetch_group({topic_id: [0, 1], UNKNOWN_ID: [0]}), fetch_group(None)]
    some, everything = wire.ask(OffsetFetchRequest(groups=groups), 10).groups
    assert offsets_and_errors(some.topics) == {
        topic_id.hex(): {0: (5, 0), 1: (-1, 0)},
        UNKNOWN_ID.hex(): {0: (-1, ErrorCode.UNKNOWN_TOPIC_ID)},
    }
    assert offsets_and_errors(everything.topics) == {topic_id.hex(): {0: (5, 0)}}


def test_topics_by_name_are_in_the_order_of_the_request(wire: GroupCluster) -> None:
    wire.ask(commit_request({("t", 0): 5}), 8)
    groups = [fetch_group({"unknown": [0], "t": [0]})]
    (group,) = wire.ask(OffsetFetchRequest(groups=groups), 9).groups
    assert [topic.name for topic in group.topics] == ["unknown", "t"]


def test_offsets_of_a_deleted_topic_with_the_same_name_are_not_returned(wire: GroupCluster) -> None:
    wire.ask(commit_request({("t", 0): 5}), 8)
    shard = wire.groups.locate("g", 1)
    old = wire.metadata.image.topics["t"].topic_id
    offset_of = shard.machine.offsets.offsets_to_fetch("g", None, -1)["t"][0]
    assert offset_of.topic_id == old
    wire.metadata.delete_topics([old])
    assert offsets_and_errors(wire.ask(fetch_one(None), 5).topics) == {}
    wire.metadata.create_topics([NewTopic(name="t", partitions=1, replication_factor=1)])
    assert offsets_and_errors(wire.ask(fetch_one({"t": [0]}), 5).topics) == {"t": {0: (-1, 0)}}


@pytest.mark.parametrize("version", range(11))
def test_not_coordinator_is_returned_in_the_error_field_of_the_version(
    version: int,
) -> None:
    wire = GroupCluster()
    if version < GROUPS_FROM:
        answer = wire.ask(fetch_one({"t": [0]}), version)
        if version < TOP_ERROR_FROM:
            assert offsets_and_errors(answer.topics) == {"t": {0: (-1, ErrorCode.NOT_COORDINATOR)}}
        else:
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
            assert answer.topics == []
        return
    (group,) = wire.ask(OffsetFetchRequest(groups=[fetch_group({"t": [0]})]), version).groups
    assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, [])


# OffsetDelete


def delete_request(
    partitions: Mapping[str, Sequence[int]], group: str = "g"
) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=index)
                    for index in indexes
                ],
            )
            for name, indexes in partitions.items()
        ],
    )


def test_offset_delete_has_a_result_per_partition(wire: GroupCluster) -> None:
    wire.ask(commit_request({("t", 0): 5, ("t", 1): 6}), 8)
    answer = wire.ask(delete_request({"unknown": [0], "t": [0, 2, 7]}), 0)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_code == 0
    assert codes(answer) == [missing, 0, 0, missing]
    assert offsets_and_errors(wire.ask(fetch_one(None), 5).topics) == {"t": {1: (6, 0)}}


@pytest.mark.parametrize(
    ("group", "code"), [("", ErrorCode.INVALID_GROUP_ID), ("none", ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_offset_delete_of_a_missing_group_has_a_top_level_error(
    wire: GroupCluster, group: str, code: ErrorCode
) -> None:
    for partitions in ({"t": [0]}, {"unknown": [0]}):
        answer = wire.ask(delete_request(partitions, group), 0)
        assert (answer.error_code, answer.topics) == (code, [])
