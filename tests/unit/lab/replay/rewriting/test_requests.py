"""Translation of ids and counters in requests, including record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.model import Direction
from kafkalite.lab.replay.comparison.shapes import shape_of
from kafkalite.lab.replay.rewriting.id_mapping import IdMapping, Scope, ValueKind
from kafkalite.lab.replay.rewriting.requests import RequestRewriter, build_frame
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.storage.batch import BatchProducer, build_batch, split_batches
from kafkalite.storage.record_format import NewRecord
from tests.unit.lab.replay.capture_builder import exchange

if TYPE_CHECKING:
    from kafkalite.lab.replay.comparison.shapes import Shape

HEARTBEAT: Shape = shape_of(12, 4, Direction.REQUEST)


@pytest.fixture
def mapping() -> IdMapping:
    known = IdMapping()
    known.learn(ValueKind.MEMBER, "a-1", "a-2")
    known.match(ValueKind.GROUP_EPOCH, Scope(group="g"), 7, 1, learn=True)
    known.learn(ValueKind.PRODUCER_ID, 1000, 5)
    known.match(ValueKind.PRODUCER_EPOCH, Scope(producer=1000), 3, 0, learn=True)
    return known


def test_request_without_changed_kinds_is_not_parsed(mapping: IdMapping) -> None:
    assert not RequestRewriter(IdMapping()).may_change(HEARTBEAT)
    assert RequestRewriter(mapping).may_change(HEARTBEAT)
    assert not RequestRewriter(mapping).may_change(shape_of(3, 12, Direction.REQUEST))
    assert RequestRewriter(mapping).may_change(shape_of(0, 9, Direction.REQUEST))


def test_member_id_and_generation_are_translated(mapping: IdMapping) -> None:
    heartbeat = HeartbeatRequest(group_id="g", generation_id=8, member_id="a-1")
    assert RequestRewriter(mapping).rewrite(HEARTBEAT, heartbeat)
    assert (heartbeat.member_id, heartbeat.generation_id) == ("a-2", 2)
    unknown_member = HeartbeatRequest(group_id="h", generation_id=8, member_id="b")
    assert not RequestRewriter(mapping).rewrite(HEARTBEAT, unknown_member)


def test_fetch_session_id_and_offset_are_translated(mapping: IdMapping) -> None:
    mapping.learn(ValueKind.SESSION, 77, 99)
    mapping.match(ValueKind.OFFSET, Scope(topic="t", partition=0), 500, 0, learn=True)
    row = FetchRequest.FetchPartition(partition=0, fetch_offset=510)
    request = FetchRequest(
        session_id=77, topics=[FetchRequest.FetchTopic(topic="t", partitions=[row])]
    )
    assert RequestRewriter(mapping).rewrite(shape_of(1, 11, Direction.REQUEST), request)
    assert (request.session_id, row.fetch_offset) == (99, 10)


def test_partition_epoch_of_kip_232_is_translated(mapping: IdMapping) -> None:
    mapping.learn(ValueKind.INCARNATION_EPOCH, 7, 52)
    rows = [
        FetchRequest.FetchPartition(partition=index, incarnation_epoch=epoch)
        for index, epoch in enumerate((7, 8, -1))
    ]
    request = FetchRequest(topics=[FetchRequest.FetchTopic(topic="t", partitions=rows)])
    assert RequestRewriter(mapping).rewrite(shape_of(1, 12, Direction.REQUEST), request)
    assert [row.incarnation_epoch for row in rows] == [52, 8, -1]


def batch(producer: BatchProducer) -> bytes:
    return build_batch([NewRecord(b"k", b"v", 1_700_000_000_000)], producer=producer)


def test_batch_gets_translated_producer_and_valid_checksum(mapping: IdMapping) -> None:
    plain, transactional = batch(BatchProducer()), batch(BatchProducer(1000, 4, 12))
    rewritten = RequestRewriter(mapping).rewrite_batches(plain + transactional)
    first, second = split_batches(rewritten)
    assert bytes(first.data) == plain
    assert BatchProducer(second.producer_id, second.producer_epoch, second.base_sequence) == (
        5,
        1,
        12,
    )
    assert second.has_valid_crc()
    assert second.records() == split_batches(transactional)[0].records()


def test_batch_with_invalid_checksum_keeps_an_invalid_checksum(mapping: IdMapping) -> None:
    corrupt = bytearray(batch(BatchProducer(1000, 3, 0)))
    corrupt[-1] ^= 1
    (found,) = split_batches(RequestRewriter(mapping).rewrite_batches(bytes(corrupt)))
    assert found.producer_id == 5
    assert not found.has_valid_crc()
    assert RequestRewriter(mapping).rewrite_batches(bytes(corrupt[:65])) == bytes(corrupt[:65])


def test_frame_keeps_its_recorded_header() -> None:
    old = exchange(HeartbeatRequest(group_id="g", member_id="a-1"), None, 4)
    new = exchange(HeartbeatRequest(group_id="g", member_id="longer"), None, 4)
    frame = build_frame(
        old.request, old.request_start, HeartbeatRequest(group_id="g", member_id="longer"), 12, 4
    )
    assert frame == new.request


def test_records_in_a_produce_request_are_rewritten(mapping: IdMapping) -> None:
    row = ProduceRequest.PartitionProduceData(index=0, records=batch(BatchProducer(1000, 3, 0)))
    request = ProduceRequest(
        acks=-1, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[row])]
    )
    assert RequestRewriter(mapping).rewrite(shape_of(0, 9, Direction.REQUEST), request)
    assert row.records is not None
    (found,) = split_batches(row.records)
    assert (found.producer_id, found.producer_epoch) == (5, 0)
