"""Requests with the target's meaning in them, record batches included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.model import Direction
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from kafkalite.replay.mapping import Kind, Mapping, Scope
from kafkalite.replay.rewriting import Rewriting, frame_of
from kafkalite.replay.shapes import shape_of
from kafkalite.storage.batch import Producer, build_batch, split_batches
from kafkalite.storage.records import NewRecord
from tests.unit.replay.made import exchange

if TYPE_CHECKING:
    from kafkalite.replay.shapes import Shape

BEAT: Shape = shape_of(12, 4, Direction.REQUEST)


@pytest.fixture
def meaning() -> Mapping:
    known = Mapping()
    known.tell(Kind.MEMBER, "a-1", "a-2")
    known.meet(Kind.GROUP_EPOCH, Scope(group="g"), 7, 1, teaches=True)
    known.tell(Kind.PRODUCER_ID, 1000, 5)
    known.meet(Kind.PRODUCER_EPOCH, Scope(producer=1000), 3, 0, teaches=True)
    return known


def test_nothing_is_looked_at_where_nothing_means_anything_else(meaning: Mapping) -> None:
    assert not Rewriting(Mapping()).concerns(BEAT)
    assert Rewriting(meaning).concerns(BEAT)
    assert not Rewriting(meaning).concerns(shape_of(3, 12, Direction.REQUEST))
    assert Rewriting(meaning).concerns(shape_of(0, 9, Direction.REQUEST))


def test_members_and_generations_are_the_targets(meaning: Mapping) -> None:
    beat = HeartbeatRequest(group_id="g", generation_id=8, member_id="a-1")
    assert Rewriting(meaning).rewrite(BEAT, beat)
    assert (beat.member_id, beat.generation_id) == ("a-2", 2)
    stranger = HeartbeatRequest(group_id="h", generation_id=8, member_id="b")
    assert not Rewriting(meaning).rewrite(BEAT, stranger)


def test_offsets_and_sessions_of_a_fetch_are_the_targets(meaning: Mapping) -> None:
    meaning.tell(Kind.SESSION, 77, 99)
    meaning.meet(Kind.OFFSET, Scope(topic="t", partition=0), 500, 0, teaches=True)
    row = FetchRequest.FetchPartition(partition=0, fetch_offset=510)
    request = FetchRequest(
        session_id=77, topics=[FetchRequest.FetchTopic(topic="t", partitions=[row])]
    )
    assert Rewriting(meaning).rewrite(shape_of(1, 11, Direction.REQUEST), request)
    assert (request.session_id, row.fetch_offset) == (99, 10)


def batch(producer: Producer) -> bytes:
    return build_batch([NewRecord(b"k", b"v", 1_700_000_000_000)], producer=producer)


def test_a_batch_has_the_targets_producer_and_a_right_checksum(meaning: Mapping) -> None:
    plain, theirs = batch(Producer()), batch(Producer(1000, 4, 12))
    rewritten = Rewriting(meaning).batches(plain + theirs)
    first, second = split_batches(rewritten)
    assert bytes(first.data) == plain
    assert Producer(second.producer_id, second.producer_epoch, second.base_sequence) == (5, 1, 12)
    assert second.has_valid_crc()
    assert second.records() == split_batches(theirs)[0].records()


def test_a_batch_that_was_broken_stays_so(meaning: Mapping) -> None:
    broken = bytearray(batch(Producer(1000, 3, 0)))
    broken[-1] ^= 1
    (found,) = split_batches(Rewriting(meaning).batches(bytes(broken)))
    assert found.producer_id == 5
    assert not found.has_valid_crc()
    assert Rewriting(meaning).batches(bytes(broken[:65])) == bytes(broken[:65])


def test_a_frame_keeps_its_recorded_head() -> None:
    old = exchange(HeartbeatRequest(group_id="g", member_id="a-1"), None, 4)
    new = exchange(HeartbeatRequest(group_id="g", member_id="longer"), None, 4)
    made = frame_of(
        old.request, old.request_start, HeartbeatRequest(group_id="g", member_id="longer"), 12, 4
    )
    assert made == new.request


def test_records_in_a_produce_request_are_rewritten(meaning: Mapping) -> None:
    row = ProduceRequest.PartitionProduceData(index=0, records=batch(Producer(1000, 3, 0)))
    request = ProduceRequest(
        acks=-1, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[row])]
    )
    assert Rewriting(meaning).rewrite(shape_of(0, 9, Direction.REQUEST), request)
    assert row.records is not None
    (found,) = split_batches(row.records)
    assert (found.producer_id, found.producer_epoch) == (5, 0)
