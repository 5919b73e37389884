"""ListOffsets and OffsetForLeaderEpoch: offsets by timestamp and by leader epoch."""

# ruff: noqa: ANN401 - requests are made of the fields that a test names

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.data.list_offsets import (
    APIS,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
)
from kafkalite.metadata.creation import NewTopic
from kafkalite.protocol._generated.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafkalite.protocol._generated.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.rows import refusal
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, BatchView
from kafkalite.storage.crc import crc32c
from tests.cluster.cluster import TestCluster
from tests.unit.data_plane import DataPlane, batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH = APIS


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    plane = DataPlane(tmp_path)
    plane.create(replicas=(0, 1))
    return plane


def append(plane: DataPlane, *timestamps: int) -> None:
    for timestamp in timestamps:
        batch = BatchView(batch_of(b"v", timestamp=timestamp))
        plane.partition().append(batch, plane.clock.now_ms())


def request_of(timestamp: int, *, epoch: int = -1, **fields: Any) -> ListOffsetsRequest:
    partition = ListOffsetsRequest.ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=epoch
    )
    fields.setdefault("replica_id", -1)
    return ListOffsetsRequest(
        topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[partition])], **fields
    )


def ask(
    plane: DataPlane, timestamp: int, *, version: int = 11, node_id: int = 0, **fields: Any
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    response = plane.ask(LIST_OFFSETS, request_of(timestamp, **fields), version, node_id=node_id)
    answer = response.topics[0].partitions[0]
    assert isinstance(answer, ListOffsetsResponse.ListOffsetsPartitionResponse)
    return answer


def found_offset(plane: DataPlane, timestamp: int, **fields: Any) -> tuple[int, int, int]:
    answer = ask(plane, timestamp, **fields)
    assert answer.error_code == 0
    return answer.timestamp, answer.offset, answer.leader_epoch


def test_an_unreadable_batch_hides_its_timestamps(plane: DataPlane) -> None:
    garbage = bytearray(batch_of(b"v", timestamp=100))
    garbage[61:] = b"\xff" * (len(garbage) - 61)
    garbage[17:21] = crc32c(bytes(garbage[21:]), 0).to_bytes(4, "big")
    plane.partition().append(BatchView(garbage), plane.clock.now_ms())
    for timestamp in (50, MAX_TIMESTAMP):
        assert ask(plane, timestamp).error_code == ErrorCode.INVALID_RECORD
    assert found_offset(plane, 101) == (-1, -1, -1)
    assert found_offset(plane, LATEST)[1] == 1


def test_read_committed_ends_at_an_open_transaction(plane: DataPlane) -> None:
    append(plane, 1)
    batch = batch_of(b"v", timestamp=7, attributes=TRANSACTIONAL, producer=BatchProducer(1, 0, 0))
    plane.partition().append(BatchView(batch), plane.clock.now_ms(), is_verified=True)
    assert found_offset(plane, LATEST, isolation_level=1) == (-1, 1, 0)
    assert found_offset(plane, LATEST) == (-1, 2, 0)
    assert found_offset(plane, LATEST, isolation_level=1, replica_id=-2) == (-1, 2, 0)
    assert found_offset(plane, 7, isolation_level=1) == (-1, -1, -1)
    assert found_offset(plane, 7) == (7, 1, 0)
    assert found_offset(plane, MAX_TIMESTAMP, isolation_level=1) == (-1, -1, -1)


def test_a_follower_answers_consumers_for_debugging(plane: DataPlane) -> None:
    plane.lead("t", 1, 3)
    assert ask(plane, LATEST, replica_id=-2).error_code == 0


def test_a_repeated_partition_is_refused_once(plane: DataPlane) -> None:
    request = request_of(LATEST)
    request.topics[0].partitions *= 2
    request.topics.append(
        ListOffsetsRequest.ListOffsetsTopic(
            name="missing",
            partitions=[ListOffsetsRequest.ListOffsetsPartition(timestamp=LATEST)],
        )
    )
    response = plane.ask(LIST_OFFSETS, request, 11)
    assert [answer.error_code for topic in response.topics for answer in topic.partitions] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_refusal_lists_every_partition() -> None:
    response = refusal(
        ApiKey.LIST_OFFSETS, request_of(LATEST), ErrorCode.UNKNOWN_SERVER_ERROR, None
    )
    answer = response.topics[0].partitions[0]
    assert (answer.error_code, answer.offset, answer.timestamp) == (-1, -1, -1)


# --- OffsetForLeaderEpoch ------------------------------------------------------------------------


def epoch_request(leader_epoch: int, current: int = -1, name: str = "t") -> Any:
    partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=0, leader_epoch=leader_epoch, current_leader_epoch=current
    )
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name, partitions=[partition])
    return OffsetForLeaderEpochRequest(topics=[topic])


def end_of(
    plane: DataPlane, leader_epoch: int, current: int = -1, name: str = "t"
) -> tuple[int, int, int]:
    request = epoch_request(leader_epoch, current, name)
    answer = plane.ask(OFFSET_FOR_LEADER_EPOCH, request, 4).topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


def test_an_epoch_ends_where_the_next_begins(plane: DataPlane) -> None:
    append(plane, 1, 2)
    plane.lead("t", 0, 3)
    append(plane, 3)
    plane.lead("t", 0, 5)
    expected = {
        -1: (0, -1, -1), 0: (0, 0, 2), 1: (0, 0, 2), 3: (0, 3, 3), 4: (0, 3, 3), 5: (0, 5, 3),
        6: (0, -1, -1),
    }  # fmt: skip
    assert {epoch: end_of(plane, epoch) for epoch in expected} == expected
    plane.restart()
    assert {epoch: end_of(plane, epoch) for epoch in expected} == expected


def test_an_epoch_older_than_the_log_ends_at_its_start(plane: DataPlane) -> None:
    plane.lead("t", 0, 4)
    append(plane, 1)
    assert end_of(plane, 2) == (0, 2, 0)


def test_an_offline_log_is_an_error(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path)
    plane.create_offline()
    assert ask(plane, EARLIEST).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    answer = plane.ask(OFFSET_FOR_LEADER_EPOCH, epoch_request(0))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_an_epoch_refusal_lists_every_partition() -> None:
    response = refusal(
        ApiKey.OFFSET_FOR_LEADER_EPOCH, epoch_request(1), ErrorCode.UNKNOWN_SERVER_ERROR, None
    )
    answer = response.topics[0].partitions[0]
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (-1, -1, -1)


# --- a new leader that does not know the high watermark of the previous one (KIP-207) -----------


@pytest.fixture
def lagging(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster whose new leader has two records; one of them is on all replicas."""
    wire = TestCluster(tmp_path, 3)
    topic = NewTopic("t", assignments=((0, (1, 2, 3)),))
    (creation,) = wire.cluster.metadata.create_topics([topic])
    assert creation.error is None
    hosted = wire.cluster.partitions.topic("t")
    assert hosted is not None
    for timestamp in (100, 200):
        hosted.partitions[0].append(BatchView(batch_of(b"v", timestamp=timestamp)), 0)
        wire.cluster.node_control.pause_replication(3)
    wire.cluster.node_control.stop(1)
    yield wire
    wire.end()


def ask_new_leader(
    wire: TestCluster, timestamp: int, *, version: int = 11, **fields: Any
) -> tuple[ErrorCode, int]:
    response = wire.ask(request_of(timestamp, **fields), version, node=2)
    answer = response.topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.offset


def test_new_leader_has_no_latest_offset_until_the_replicas_have_its_log(
    lagging: TestCluster,
) -> None:
    assert ask_new_leader(lagging, LATEST) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    lagging.cluster.node_control.resume_replication(3)
    assert ask_new_leader(lagging, LATEST) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (EARLIEST, (ErrorCode.NONE, 0)),
        (100, (ErrorCode.NONE, 0)),
        (101, (ErrorCode.OFFSET_NOT_AVAILABLE, -1)),
        (999, (ErrorCode.OFFSET_NOT_AVAILABLE, -1)),
        (MAX_TIMESTAMP, (ErrorCode.OFFSET_NOT_AVAILABLE, -1)),
    ],
)
def test_new_leader_finds_only_records_that_all_replicas_have(
    lagging: TestCluster, timestamp: int, expected: tuple[ErrorCode, int]
) -> None:
    assert ask_new_leader(lagging, timestamp) == expected


def test_old_versions_have_another_error_for_a_new_leader(lagging: TestCluster) -> None:
    for version, code in ((4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)):
        assert ask_new_leader(lagging, LATEST, version=version)[0] == code


def test_followers_and_debugging_consumers_see_the_whole_log(lagging: TestCluster) -> None:
    for replica_id in (3, -2):
        answer = ask_new_leader(lagging, LATEST, replica_id=replica_id)
        assert answer == (ErrorCode.NONE, 2)


def test_the_first_version_has_the_first_offsets_of_segments(plane: DataPlane) -> None:
    log = plane.partition().log
    for timestamp in (100, 200, 300):
        append(plane, timestamp)
        if timestamp < 300:
            log.roll(plane.clock.now_ms())
    assert len(log.segments) == 3

    def offsets(timestamp: int, maximum: int) -> list[int]:
        request = request_of(timestamp)
        request.topics[0].partitions[0].max_num_offsets = maximum
        return list(plane.ask(LIST_OFFSETS, request, 0).topics[0].partitions[0].old_style_offsets)

    assert offsets(LATEST, 9) == [3, 2, 1, 0]
    assert offsets(LATEST, 2) == [3, 2]
    assert offsets(EARLIEST, 9) == [0]
    assert offsets(0, 9) == []
    assert offsets(2**62, 3) == [3, 2, 1]
