"""Record batches of format 2: a header of sixty-one bytes, and usually opaque records.

The first sixteen bytes (base offset, length, leader epoch) and the magic are outside the CRC, so
the broker assigns offsets by replacing these sixteen bytes. The rest of the batch is unchanged.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage import compression
from kafkalite.storage.crc import crc32c
from kafkalite.storage.record_format import (
    CONTROL_KEY,
    END_MARKER,
    NewRecord,
    Record,
    decode_headers,
    encode_key_values,
    encode_record,
    encode_records,
    key_values,
    read_marker,
    scan_records,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from kafkalite.ports.files import Buffer
    from kafkalite.storage.compression import DecompressedBuffer

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and maximum
timestamp, producer id, producer epoch, base sequence, record count."""
HEADER_SIZE = HEADER.size
PREFIX = struct.Struct(">qii")
"""Base offset, length, leader epoch: the part that the broker rewrites."""
PREFIX_SIZE = PREFIX.size
BOUNDS = struct.Struct(">qi11xi")
"""Base offset, length, last offset delta: the fields needed to skip from batch to batch."""
BOUNDS_SIZE = BOUNDS.size
LENGTH_END = 12
"""Position after the length field; the length counts the bytes from here."""

_LENGTH = struct.Struct(">i")
_LENGTH_POSITION = 8
_CRC_COVERED_HEADER = struct.Struct(">hiqqqhii")  # attributes to record count
CRC_END = 21
"""Position after the CRC, where the bytes that it covers begin."""
MAGIC_POSITION = 16
MAGIC_2 = 2
_MIN_LENGTH = 14  # the smallest valid length in any format
_HEADER_UP_TO_CRC = struct.Struct(">qiiBI")  # base offset to CRC

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

MAX_DECOMPRESSED_RECORDS = 1_000_000
"""Batches with more records are not decompressed: iterating would block all other requests."""

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1


class ControlKind(IntEnum):
    """Kinds of control records; the numbers are on disk."""

    ABORT = 0
    COMMIT = 1


class ControlMarker(NamedTuple):
    """The record of a control batch: commit or abort, and the coordinator's epoch."""

    kind: ControlKind
    coordinator_epoch: int


class BatchView:
    """A record batch in a buffer: the header is unpacked, the records are not decoded.

    Valid only while the buffer exists. Only `has_valid_crc` checks the CRC.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "data",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    attributes: int
    base_offset: int
    base_sequence: int
    base_timestamp: int
    crc: int
    data: Buffer
    last_offset_delta: int
    leader_epoch: int
    length: int
    magic: int
    max_timestamp: int
    producer_epoch: int
    producer_id: int
    record_count: int
    size: int  # of the whole batch, in bytes

    def __init__(self, data: Buffer) -> None:
        (
            self.base_offset,
            self.length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(data)
        self.data = data
        self.size = self.length + LENGTH_END

    @property
    def last_offset(self) -> int:
        """Offset of the last record, even if compaction removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; 2147483647 is followed by 0."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF

    @property
    def compression(self) -> int:
        """Number of the codec that compresses the records."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the records have the append time instead of their own timestamps."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch has a transaction marker instead of data records."""
        return bool(self.attributes & CONTROL)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which tombstones and markers may be deleted; None if it is not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    def has_valid_crc(self) -> bool:
        """Whether the bytes match the CRC."""
        return crc32c(memoryview(self.data)[CRC_END:], 0) == self.crc

    def body(self) -> bytes:
        """Return the decompressed records; raises MalformedRecordsError if that fails.

        Raises OversizedDataError if there are too many to iterate over.
        """
        self._check_record_count()
        codec, records = self.attributes & COMPRESSION_MASK, memoryview(self.data)[HEADER_SIZE:]
        return compression.decompress(codec, records) if codec else bytes(records)

    def decompressed_body(self) -> AbstractContextManager[DecompressedBuffer]:
        """Return a context manager of the decompressed records; raises the errors of `body`."""
        self._check_record_count()
        return compression.decompressed_buffer(
            self.compression, memoryview(self.data)[HEADER_SIZE:]
        )

    def _check_record_count(self) -> None:
        if self.record_count > MAX_DECOMPRESSED_RECORDS:
            raise compression.OversizedDataError(f"{self.record_count} records in one batch")

    def records(self) -> list[Record]:
        """Decompress and decode the records; raises MalformedRecordsError if that fails."""
        return list(self.decode(self.body()))

    def decode(self, body: bytes) -> Iterator[Record]:
        """Return the records of a decompressed body, which may raise MalformedRecordsError."""
        base_offset, base_timestamp = self.base_offset, self.base_timestamp
        append_time = self.max_timestamp if self.is_log_append_time else None
        return (
            Record(
                base_offset + record.offset_delta,
                base_timestamp + record.timestamp_delta if append_time is None else append_time,
                record.key,
                record.value,
                decode_headers(body, record.headers_position, record.end_position),
            )
            for record in scan_records(body, self.record_count)
        )

    def key_values(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield only keys and values, for replay; raises MalformedRecordsError if that fails."""
        return key_values(self.body(), self.record_count)

    def control_marker(self) -> ControlMarker | None:
        """Return the marker of a control batch, or None if its kind is unknown."""
        return _decode_marker(self.body(), self.record_count)

    def prefix(self, base_offset: int, leader_epoch: int) -> bytes:
        """Return the sixteen bytes that give the batch `base_offset` and `leader_epoch`."""
        return PREFIX.pack(base_offset, self.length, leader_epoch)

    def with_log_append_time(self, now_ms: int) -> BatchView:
        """Return a copy whose records have the append time `now_ms`, with its new CRC."""
        return self._replace_header(
            self.attributes | LOG_APPEND_TIME, now_ms, self._compressed_records()
        )

    def with_create_time(self) -> BatchView:
        """Return a copy whose records have their own timestamps, with its new CRC."""
        return self._replace_header(
            self.attributes & ~LOG_APPEND_TIME, self.max_timestamp, self._compressed_records()
        )

    def with_compression(self, number: int) -> BatchView:
        """Return a copy whose records are compressed with the codec of that number."""
        attributes = self.attributes & ~COMPRESSION_MASK | number
        return self._replace_header(
            attributes, self.max_timestamp, compression.compress(number, self.body())
        )

    def _compressed_records(self) -> memoryview:
        return memoryview(self.data)[HEADER_SIZE:]

    def _replace_header(self, attributes: int, max_timestamp: int, payload: Buffer) -> BatchView:
        return BatchView(
            assemble(
                payload,
                base_offset=self.base_offset,
                leader_epoch=self.leader_epoch,
                attributes=attributes,
                last_offset_delta=self.last_offset_delta,
                base_timestamp=self.base_timestamp,
                max_timestamp=max_timestamp,
                producer=BatchProducer(self.producer_id, self.producer_epoch, self.base_sequence),
                record_count=self.record_count,
            )
        )


@lru_cache(maxsize=64)  # markers of one coordinator epoch have equal bodies
def _decode_marker(body: bytes, count: int) -> ControlMarker | None:
    kind, coordinator_epoch = read_marker(body, count)
    if kind not in (ControlKind.ABORT, ControlKind.COMMIT):
        return None
    return ControlMarker(ControlKind(kind), coordinator_epoch)


@lru_cache(maxsize=64)  # as above
def _encode_marker(marker: ControlMarker) -> bytes:
    key = CONTROL_KEY.pack(0, marker.kind)
    return encode_record(0, 0, key, END_MARKER.pack(0, marker.coordinator_epoch))


class BatchProducer(NamedTuple):
    """Producer id, epoch and first sequence number of a batch; all -1 if not idempotent."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = -1


NO_PRODUCER = BatchProducer()


def assemble(
    payload: Buffer,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer: BatchProducer,
    record_count: int,
) -> bytes:
    """Return a batch: a header with the CRC, then `payload`, which is compressed already."""
    crc_covered_header = _CRC_COVERED_HEADER.pack(
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer.producer_id,
        producer.producer_epoch,
        producer.base_sequence,
        record_count,
    )
    return _add_header(base_offset, leader_epoch, crc_covered_header, payload)


def _add_header(
    base_offset: int, leader_epoch: int, crc_covered_header: bytes, payload: Buffer
) -> bytes:
    crc = crc32c(payload, crc32c(crc_covered_header, 0))
    length = HEADER_SIZE - LENGTH_END + len(payload)
    header = _HEADER_UP_TO_CRC.pack(base_offset, length, leader_epoch, MAGIC_2, crc)
    return b"".join((header, crc_covered_header, payload))


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    producer: BatchProducer = NO_PRODUCER,
) -> bytes:
    """Return a batch of at least one record; `attributes` has the codec and the batch's kind."""
    base_timestamp = records[0].timestamp
    return assemble(
        compression.compress(
            attributes & COMPRESSION_MASK, encode_records(records, base_timestamp)
        ),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer=producer,
        record_count=len(records),
    )


def build_key_value_batch(
    pairs: Sequence[tuple[bytes | None, bytes | None]],
    now_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return a batch of the broker's own keys and values, at least one, written at `now_ms`."""
    count = len(pairs)
    crc_covered_header = _CRC_COVERED_HEADER.pack(0, count - 1, now_ms, now_ms, *NO_PRODUCER, count)
    return _add_header(base_offset, leader_epoch, crc_covered_header, encode_key_values(pairs))


def build_control_batch(
    marker: ControlMarker, *, producer_id: int, producer_epoch: int, now_ms: int
) -> bytes:
    """Return the batch that ends a transaction of this producer."""
    return assemble(
        _encode_marker(marker),
        base_offset=0,
        leader_epoch=-1,
        attributes=CONTROL | TRANSACTIONAL,
        last_offset_delta=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer=BatchProducer(producer_id, producer_epoch),
        record_count=1,
    )


def split_batches(data: Buffer) -> list[BatchView]:
    """Return the consecutive batches in `data`.

    As in Kafka: an incomplete last batch is ignored; an impossible length is CORRUPT_MESSAGE;
    formats 0 and 1 are INVALID_RECORD; `storage.up_conversion` converts them.
    CRCs are not checked; see `has_valid_crc`.
    """
    view = memoryview(data)
    batches = []
    position, size = 0, len(view)
    while size - position >= LENGTH_END:
        (length,) = _LENGTH.unpack_from(view, position + _LENGTH_POSITION)
        if length < _MIN_LENGTH:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of length {length}")
        if size - position <= MAGIC_POSITION:
            break
        magic = view[position + MAGIC_POSITION]
        if magic > MAGIC_2:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of unknown format {magic}")
        end = position + LENGTH_END + length
        if end > size:
            break
        if magic < MAGIC_2:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"a batch of the old format {magic}")
        if end - position < HEADER_SIZE:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch shorter than its header")
        batches.append(BatchView(view[position:end]))
        position = end
    return batches
