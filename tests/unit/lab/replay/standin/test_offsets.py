"""Responses to ListOffsets, composed from recorded offsets."""

from __future__ import annotations

import pytest

from kafkalite.apis.data.list_offsets import EARLIEST, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from kafkalite.lab.replay.standin.offsets import RecordedOffsets
from kafkalite.lab.replay.standin.recorded_cluster import RecordedCluster
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import HEADER_SIZE, BatchProducer
from tests.unit.lab.replay.recording import START_NS, Recording, batch

UNCOMMITTED, COMMITTED = 0, 1
VERSION, FETCH_VERSION = 7, 11
START_MS = START_NS // 1_000_000


def list_offsets(
    timestamps: dict[int, int], level: int = UNCOMMITTED, name: str = "t"
) -> ListOffsetsRequest:
    rows = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        for index, timestamp in timestamps.items()
    ]
    topic = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=rows)
    return ListOffsetsRequest(isolation_level=level, topics=[topic])


def list_offsets_response(offsets: dict[int, int], code: int = 0) -> ListOffsetsResponse:
    rows = [
        ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=index, offset=offset, error_code=code, leader_epoch=3
        )
        for index, offset in offsets.items()
    ]
    topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=rows)
    return ListOffsetsResponse(topics=[topic])


def add_fetch(recording: Recording, records: bytes, *, start: int, end: int) -> None:
    row = FetchResponse.PartitionData(
        partition_index=0, high_watermark=end, log_start_offset=start, records=records
    )
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[row])
    recording.add(FetchRequest(), FetchResponse(responses=[topic]), FETCH_VERSION)


class RecordedState:
    """The recorded offsets and the recorded cluster of a recording."""

    def __init__(self, recording: Recording) -> None:
        self.recorded_cluster = RecordedCluster.from_exchanges(recording.exchanges)
        self.offsets = RecordedOffsets()
        for exchange in recording.exchanges:
            self.offsets.learn(exchange)

    def answer(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        answer = self.offsets.answer(request, self.recorded_cluster)
        assert answer is not None
        return answer

    def rows(self, request: ListOffsetsRequest) -> dict[int, int]:
        (topic,) = self.answer(request).topics
        assert topic.name == "t"
        return {row.partition_index: row.offset for row in topic.partitions}


def separate_requests() -> Recording:
    recording = Recording()
    for index, offset in enumerate((5, 6, 7)):
        recording.add(
            list_offsets({index: EARLIEST}), list_offsets_response({index: offset}), VERSION
        )
    return recording


def test_partitions_of_separate_requests_are_combined() -> None:
    state = RecordedState(separate_requests())
    request = list_offsets(dict.fromkeys((2, 0, 1), EARLIEST), COMMITTED)

    assert state.rows(request) == {2: 7, 0: 5, 1: 6}
    (topic,) = state.answer(request).topics
    assert [row.old_style_offsets for row in topic.partitions] == [[7], [5], [6]]
    assert {row.leader_epoch for row in topic.partitions} == {3}


def test_last_result_by_timestamp_and_isolation_level_is_returned() -> None:
    recording = separate_requests()
    recording.add(list_offsets({0: LATEST}), list_offsets_response({0: 20}), VERSION)
    recording.add(list_offsets({0: LATEST}, COMMITTED), list_offsets_response({0: 18}), VERSION)
    recording.add(list_offsets({0: LATEST}), list_offsets_response({0: 30}), VERSION)
    recording.add(
        list_offsets({0: LATEST}),
        list_offsets_response({0: -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        VERSION,
    )
    state = RecordedState(recording)

    assert state.rows(list_offsets({0: LATEST})) == {0: 30}
    assert state.rows(list_offsets({0: LATEST}, COMMITTED)) == {0: 18}
    assert state.rows(list_offsets({0: EARLIEST})) == {0: 5}


def test_unrecorded_timestamp_is_looked_up_in_recorded_batches() -> None:
    recording = Recording()
    open_one = batch("c", offset=6, producer=BatchProducer(9, 0, 0), is_transactional=True)
    add_fetch(recording, batch("a", "b", offset=4) + open_one, start=4, end=7)
    state = RecordedState(recording)

    assert state.rows(list_offsets({0: EARLIEST})) == {0: 4}
    assert state.rows(list_offsets({0: LATEST})) == {0: 7}
    assert state.rows(list_offsets({0: LATEST}, COMMITTED)) == {0: 6}
    assert state.rows(list_offsets({0: MAX_TIMESTAMP})) == {0: 4}
    assert state.rows(list_offsets({0: START_MS})) == {0: 4}
    for timestamp in (START_MS + 1, LATEST_TIERED):
        (topic,) = state.answer(list_offsets({0: timestamp})).topics
        assert (topic.partitions[0].offset, topic.partitions[0].old_style_offsets) == (-1, [])


def test_undecodable_records_are_an_error() -> None:
    recording = Recording()
    complete = batch("a", "b")
    add_fetch(
        recording, complete[:HEADER_SIZE] + b"\xff" * (len(complete) - HEADER_SIZE), start=0, end=2
    )
    state = RecordedState(recording)

    (topic,) = state.answer(list_offsets({0: START_MS})).topics
    assert topic.partitions[0].error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "unknown",
    [list_offsets({9: EARLIEST}), list_offsets({-1: EARLIEST}), list_offsets({0: -2}, name="u")],
)
def test_unknown_partition_has_no_answer(unknown: ListOffsetsRequest) -> None:
    state = RecordedState(separate_requests())
    assert state.offsets.answer(unknown, state.recorded_cluster) is None


def test_version_0_result_is_returned_in_later_versions() -> None:
    recording = Recording()
    response = list_offsets_response({0: -1})
    response.topics[0].partitions[0].old_style_offsets = [5]
    recording.add(list_offsets({0: EARLIEST}), response, 0)
    assert RecordedState(recording).rows(list_offsets({0: EARLIEST})) == {0: 5}
