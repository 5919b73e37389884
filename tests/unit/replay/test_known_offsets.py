"""Where logs begin, end or were at some time, told in whichever way it is asked for."""

from __future__ import annotations

import pytest

from kafkalite.apis.list_offsets import EARLIEST, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkalite.replay.known_offsets import KnownOffsets
from kafkalite.replay.library import Library
from kafkalite.storage.batch import HEAD_SIZE, Producer
from tests.unit.replay.recorded import START_NS, Recording, batch

UNCOMMITTED, COMMITTED = 0, 1
VERSION, FETCH_VERSION = 7, 11
START_MS = START_NS // 1_000_000


def ask(
    timestamps: dict[int, int], level: int = UNCOMMITTED, name: str = "t"
) -> ListOffsetsRequest:
    rows = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        for index, timestamp in timestamps.items()
    ]
    topic = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=rows)
    return ListOffsetsRequest(isolation_level=level, topics=[topic])


def tell(offsets: dict[int, int], code: int = 0) -> ListOffsetsResponse:
    rows = [
        ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=index, offset=offset, error_code=code, leader_epoch=3
        )
        for index, offset in offsets.items()
    ]
    topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=rows)
    return ListOffsetsResponse(topics=[topic])


def fetched(recording: Recording, records: bytes, *, start: int, end: int) -> None:
    row = FetchResponse.PartitionData(
        partition_index=0, high_watermark=end, log_start_offset=start, records=records
    )
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[row])
    recording.say(FetchRequest(), FetchResponse(responses=[topic]), FETCH_VERSION)


class Known:
    """What a recording tells."""

    def __init__(self, recording: Recording) -> None:
        self.library = Library.of(recording.exchanges)
        self.offsets = KnownOffsets()
        for exchange in recording.exchanges:
            self.offsets.take(exchange)

    def answer(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        answer = self.offsets.answer(request, self.library)
        assert answer is not None
        return answer

    def rows(self, request: ListOffsetsRequest) -> dict[int, int]:
        (topic,) = self.answer(request).topics
        assert topic.name == "t"
        return {row.partition_index: row.offset for row in topic.partitions}


def asked_one_by_one() -> Recording:
    recording = Recording()
    for index, offset in enumerate((5, 6, 7)):
        recording.say(ask({index: EARLIEST}), tell({index: offset}), VERSION)
    return recording


def test_partitions_that_were_asked_for_apart_are_told_together() -> None:
    known = Known(asked_one_by_one())
    asked = ask(dict.fromkeys((2, 0, 1), EARLIEST), COMMITTED)

    assert known.rows(asked) == {2: 7, 0: 5, 1: 6}
    (topic,) = known.answer(asked).topics
    assert [row.old_style_offsets for row in topic.partitions] == [[7], [5], [6]]
    assert {row.leader_epoch for row in topic.partitions} == {3}


def test_each_question_has_its_own_answer_and_the_last_counts() -> None:
    recording = asked_one_by_one()
    recording.say(ask({0: LATEST}), tell({0: 20}), VERSION)
    recording.say(ask({0: LATEST}, COMMITTED), tell({0: 18}), VERSION)
    recording.say(ask({0: LATEST}), tell({0: 30}), VERSION)
    recording.say(ask({0: LATEST}), tell({0: -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER), VERSION)
    known = Known(recording)

    assert known.rows(ask({0: LATEST})) == {0: 30}
    assert known.rows(ask({0: LATEST}, COMMITTED)) == {0: 18}
    assert known.rows(ask({0: EARLIEST})) == {0: 5}


def test_what_nobody_asked_is_told_by_what_the_capture_shows() -> None:
    recording = Recording()
    open_one = batch("c", offset=6, producer=Producer(9, 0, 0), is_transactional=True)
    fetched(recording, batch("a", "b", offset=4) + open_one, start=4, end=7)
    known = Known(recording)

    assert known.rows(ask({0: EARLIEST})) == {0: 4}
    assert known.rows(ask({0: LATEST})) == {0: 7}
    assert known.rows(ask({0: LATEST}, COMMITTED)) == {0: 6}
    assert known.rows(ask({0: MAX_TIMESTAMP})) == {0: 4}
    assert known.rows(ask({0: START_MS})) == {0: 4}
    for timestamp in (START_MS + 1, LATEST_TIERED):
        (topic,) = known.answer(ask({0: timestamp})).topics
        assert (topic.partitions[0].offset, topic.partitions[0].old_style_offsets) == (-1, [])


def test_records_that_cannot_be_read_are_told_of() -> None:
    recording = Recording()
    whole = batch("a", "b")
    fetched(recording, whole[:HEAD_SIZE] + b"\xff" * (len(whole) - HEAD_SIZE), start=0, end=2)
    known = Known(recording)

    (topic,) = known.answer(ask({0: START_MS})).topics
    assert topic.partitions[0].error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("asked", [ask({9: EARLIEST}), ask({-1: EARLIEST}), ask({0: -2}, name="u")])
def test_a_partition_nobody_told_of_is_not_made_up(asked: ListOffsetsRequest) -> None:
    known = Known(asked_one_by_one())
    assert known.offsets.answer(asked, known.library) is None


def test_what_the_oldest_clients_were_told_is_told_to_others() -> None:
    recording = Recording()
    told = tell({0: -1})
    told.topics[0].partitions[0].old_style_offsets = [5]
    recording.say(ask({0: EARLIEST}), told, 0)
    assert Known(recording).rows(ask({0: EARLIEST})) == {0: 5}
