"""Records are encoded as batches; the position after consumed batches has their epochs."""

from __future__ import annotations

import pytest

from kafkalite.client.epochs import OffsetAndEpochs
from kafkalite.client.errors import CorruptBatchError
from kafkalite.client.fetches import AbortedTransaction
from kafkalite.client.records import ConsumerRecord, ProducerRecord, decode_batches, encode_batch
from kafkalite.storage.batch import (
    NO_PRODUCER,
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
    build_batch,
    build_control_batch,
)
from kafkalite.storage.record_format import NewRecord
from tests.unit.client.scripted_client import ORDERS


def batch(base_offset: int, leader_epoch: int, *values: bytes) -> bytes:
    records = [NewRecord(None, value, 7) for value in values]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch)


def test_a_batch_contains_the_records_with_their_own_or_the_present_time() -> None:
    data = encode_batch(
        [ProducerRecord(b"v", b"k", (("h", b"1"), ("i", None)), 5), ProducerRecord(None)], now_ms=9
    )
    first, second = BatchView(data).records()
    assert (first.key, first.value, first.timestamp, first.headers) == (
        b"k", b"v", 5, (("h", b"1"), ("i", None)),
    )  # fmt: skip
    assert (second.key, second.value, second.timestamp) == (None, None, 9)


def test_an_empty_batch_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([], 0)


def test_the_position_has_the_largest_leader_epoch_and_the_partition_epoch_of_the_response() -> (
    None
):
    data = batch(10, 4, b"a", b"b") + batch(12, 6, b"c")
    records, position = decode_batches(ORDERS, data, OffsetAndEpochs(10, 3, 8), 9)
    assert records == [
        ConsumerRecord(ORDERS, 10, b"a", None, (), 7, 4),
        ConsumerRecord(ORDERS, 11, b"b", None, (), 7, 4),
        ConsumerRecord(ORDERS, 12, b"c", None, (), 7, 6),
    ]
    assert position == OffsetAndEpochs(13, 6, 9)


def test_without_records_the_leader_epoch_of_the_position_remains() -> None:
    records, position = decode_batches(ORDERS, b"", OffsetAndEpochs(10, 3, 8), 9)
    assert records == []
    assert position == OffsetAndEpochs(10, 3, 9)


def test_records_before_the_position_are_omitted() -> None:
    data = batch(0, 1, b"old") + batch(1, 2, b"a", b"b", b"c")
    records, position = decode_batches(ORDERS, data, OffsetAndEpochs(2), 0)
    assert [record.value for record in records] == [b"b", b"c"]
    assert position == OffsetAndEpochs(4, 2, 0)


def test_an_incomplete_last_batch_is_not_consumed() -> None:
    data = batch(0, 1, b"a") + batch(1, 2, b"b")[:-1]
    records, position = decode_batches(ORDERS, data, OffsetAndEpochs(0), 0)
    assert [record.value for record in records] == [b"a"]
    assert position == OffsetAndEpochs(1, 1, 0)


def test_a_transaction_marker_is_no_record() -> None:
    marker = build_control_batch(
        ControlMarker(ControlKind.COMMIT, 0), producer_id=1, producer_epoch=0, now_ms=0
    )
    records, position = decode_batches(ORDERS, marker, OffsetAndEpochs(0), 0)
    assert (records, position.offset) == ([], 1)


def test_a_damaged_batch_is_rejected() -> None:
    damaged = bytearray(batch(0, 1, b"a"))
    damaged[-2] ^= 1
    with pytest.raises(CorruptBatchError, match="orders-0: wrong checksum at 0"):
        decode_batches(ORDERS, bytes(damaged), OffsetAndEpochs(0), 0)
    without_length = bytearray(batch(0, 1, b"a"))
    without_length[8:12] = bytes(4)
    with pytest.raises(CorruptBatchError, match="a batch of length 0"):
        decode_batches(ORDERS, bytes(without_length), OffsetAndEpochs(0), 0)


def test_aborted_transactions_are_left_out() -> None:
    first, second = BatchProducer(1, 0, 0), BatchProducer(2, 0, 0)

    def record(value: bytes, offset: int, producer: BatchProducer = NO_PRODUCER) -> bytes:
        attributes = 0 if producer is NO_PRODUCER else TRANSACTIONAL
        return build_batch(
            [NewRecord(None, value, 0)],
            base_offset=offset,
            attributes=attributes,
            producer=producer,
        )

    def marker(kind: ControlKind, offset: int, producer: BatchProducer) -> bytes:
        batch = bytearray(
            build_control_batch(
                ControlMarker(kind, 0),
                producer_id=producer.producer_id,
                producer_epoch=0,
                now_ms=0,
            )
        )
        batch[:8] = offset.to_bytes(8, "big")
        return bytes(batch)

    data = b"".join((
        record(b"aborted", 0, first),
        record(b"committed", 1, second),
        record(b"plain", 2),
        marker(ControlKind.ABORT, 3, first),
        record(b"next of first", 4, first),
        marker(ControlKind.COMMIT, 5, second),
        marker(ControlKind.COMMIT, 6, first),
    ))  # fmt: skip
    records, position = decode_batches(
        ORDERS, data, OffsetAndEpochs(0), -1, [AbortedTransaction(1, 0)]
    )
    assert [each.value for each in records] == [b"committed", b"plain", b"next of first"]
    assert position.offset == 7
    records, _ = decode_batches(ORDERS, data, OffsetAndEpochs(0), -1)
    assert len(records) == 4
