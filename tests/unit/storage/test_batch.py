"""Record batches: the header, the CRC, and changes without touching the payload."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
    build_batch,
    build_control_batch,
    build_key_value_batch,
    split_batches,
)
from kafkalite.storage.record_format import NewRecord, Record
from tests.unit.storage.logs import batch

# One record, key "k", value "v", header h=x, timestamp 1700000000000, as librdkafka would send it;
# put together by hand from the format's description.
ONE_RECORD = bytes.fromhex(
    "0000000000000000 0000003e ffffffff 02 5e93538d 0000 00000000 "
    "0000018bcfe56800 0000018bcfe56800 ffffffffffffffff ffff ffffffff 00000001 "
    "18 00 00 00 02 6b 02 76 02 02 68 02 78"
)


def test_batch_has_kafkas_layout() -> None:
    record = NewRecord(b"k", b"v", 1_700_000_000_000, (("h", b"x"),))
    built = build_batch([record])
    assert built == ONE_RECORD
    assert BatchView(built).has_valid_crc()


def test_built_batch_is_read_back() -> None:
    view = BatchView(
        build_batch(
            [
                NewRecord(b"a", None, 1000, (("n", None), ("é", b""))),
                NewRecord(None, b"", 990),
                NewRecord(b"", b"v" * 300, 5_000_000_000),
            ],
            base_offset=70,
            leader_epoch=4,
            attributes=TRANSACTIONAL,
            producer=BatchProducer(12, 3, 2**31 - 2),
        )
    )
    assert view.records() == [
        Record(70, 1000, b"a", None, (("n", None), ("é", b""))),
        Record(71, 990, None, b""),
        Record(72, 5_000_000_000, b"", b"v" * 300),
    ]
    assert list(view.key_values()) == [(b"a", None), (None, b""), (b"", b"v" * 300)]
    assert (view.base_offset, view.last_offset, view.leader_epoch) == (70, 72, 4)
    assert (view.base_timestamp, view.max_timestamp) == (1000, 5_000_000_000)
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (12, 3, 2**31 - 2)
    assert view.last_sequence == 0
    assert view.is_transactional
    assert not view.is_control
    assert view.size == len(view.data)


def test_own_batch_equals_built_batch() -> None:
    pairs = [(b"a", b"1"), (None, b"2"), (b"c", None)]
    built = build_key_value_batch(pairs, 1000)
    assert built == build_batch([NewRecord(key, value, 1000) for key, value in pairs])


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_returns_the_records(codec: int) -> None:
    values = [b"value %d" % number * number for number in range(50)]
    view = batch(*values, attributes=codec)
    assert view.has_valid_crc()
    assert [record.value for record in view.records()] == values
    assert [value for _, value in view.key_values()] == values


def test_any_changed_byte_after_the_crc_is_detected() -> None:
    data = bytearray(batch(b"value").data)
    for position in range(17, len(data)):
        data[position] ^= 0x10
        assert not BatchView(data).has_valid_crc()
        data[position] ^= 0x10
    for position in range(16):
        data[position] ^= 0x10
        assert BatchView(data).has_valid_crc() or position in range(8, 12)
        data[position] ^= 0x10


def test_append_time_replaces_all_timestamps() -> None:
    view = batch(b"a", b"b", timestamp=1000).with_log_append_time(9000)
    assert view.has_valid_crc()
    assert view.is_log_append_time
    assert [record.timestamp for record in view.records()] == [9000, 9000]
    own = view.with_create_time()
    assert own.has_valid_crc()
    assert [record.timestamp for record in own.records()] == [1000, 1001]


def test_recompression_changes_only_the_compression() -> None:
    view = batch(b"a" * 100, b"b" * 100, producer=BatchProducer(5, 1, 7), attributes=1)
    for codec in range(5):
        other = view.with_compression(codec)
        assert other.has_valid_crc()
        assert other.compression == codec
        assert other.records() == view.records()
        assert (other.producer_id, other.base_sequence) == (5, 7)


@pytest.mark.parametrize("kind", list(ControlKind))
def test_control_marker_has_kind_and_coordinator_epoch(kind: ControlKind) -> None:
    marker = ControlMarker(kind, 8)
    view = BatchView(build_control_batch(marker, producer_id=4, producer_epoch=2, now_ms=77))
    assert view.has_valid_crc()
    assert view.is_control
    assert view.is_transactional
    assert view.control_marker() == marker
    assert view.records() == [
        Record(0, 77, b"\0\0\0" + bytes([kind]), b"\0\0\0\0\0\x08"),
    ]


def test_unknown_control_kind_returns_none() -> None:
    view = batch(b"\0\0\0\0\0\x08", keys=[b"\0\0\0\x05"])
    assert view.control_marker() is None


def test_consecutive_batches_are_split() -> None:
    batches = [batch(b"a"), batch(b"b", b"c"), batch(b"d" * 100)]
    data = b"".join(bytes(view.data) for view in batches)
    assert [bytes(view.data) for view in split_batches(data)] == [
        bytes(view.data) for view in batches
    ]
    assert split_batches(b"") == []


def test_incomplete_batch_is_ignored() -> None:
    data = bytes(batch(b"a").data)
    for end in range(len(data)):
        assert split_batches(data[:end]) == []
        assert len(split_batches(data + data[:end])) == 1


@pytest.mark.parametrize(
    ("position", "replacement", "code"),
    [
        (8, b"\xff\xff\xff\xff", ErrorCode.CORRUPT_MESSAGE),
        (8, b"\0\0\0\x0d", ErrorCode.CORRUPT_MESSAGE),
        (8, b"\0\0\0\x30", ErrorCode.CORRUPT_MESSAGE),
        (16, b"\x03", ErrorCode.CORRUPT_MESSAGE),
        (16, b"\xff", ErrorCode.CORRUPT_MESSAGE),
        (16, b"\x00", ErrorCode.INVALID_RECORD),
        (16, b"\x01", ErrorCode.INVALID_RECORD),
    ],
)
def test_impossible_head_is_refused(position: int, replacement: bytes, code: ErrorCode) -> None:
    data = bytearray(batch(b"a").data)
    data[position : position + len(replacement)] = replacement
    with pytest.raises(KafkaError) as refused:
        split_batches(data)
    assert refused.value.code is code


@pytest.mark.parametrize(
    "tail", [b"\0" * 12, b"\0" * 11 + b"\x0d", b"\0" * 11 + b"\xff\0\0\0\0\x03"]
)
def test_incomplete_impossible_head_is_refused(tail: bytes) -> None:
    complete_batch = bytes(batch(b"a").data)
    with pytest.raises(KafkaError) as refused:
        split_batches(complete_batch + tail)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert len(split_batches(complete_batch + tail[:11])) == 1


def test_empty_batch_has_no_records() -> None:
    view = batch(b"a")
    data = bytearray(view.data)[:HEADER_SIZE]
    data[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    data[57:61] = bytes(4)
    assert BatchView(data).records() == []
