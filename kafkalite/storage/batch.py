"""Record batches of format 2: sixty-one bytes of head, and records that mostly stay closed.

The first sixteen bytes (base offset, length, leader epoch) and the magic lie outside the CRC, so
the broker assigns offsets by writing a new head before a payload it never touched.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage import compression
from kafkalite.storage.crc import crc32c
from kafkalite.storage.records import (
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

    from kafkalite.ports.files import Buffer

HEAD = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and maximum
timestamp, producer id, producer epoch, base sequence, record count."""
HEAD_SIZE = HEAD.size
FIRST = struct.Struct(">qii")
"""Base offset, length, leader epoch: what the broker writes anew."""
FIRST_SIZE = FIRST.size
WALK = struct.Struct(">qi11xi")
"""Base offset, length, last offset delta: what it takes to walk from batch to batch."""
WALK_SIZE = WALK.size
LENGTH_END = 12
"""The length field counts the bytes that follow it, which begin here."""

_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8
_COVERED = struct.Struct(">hiqqqhii")  # what the CRC covers of the head
_COVERED_START = 21
_MAGIC_AT = 16
_MAGIC_2 = 2
_SMALLEST_LENGTH = 14  # of any format there ever was
_OUTSIDE_CRC = struct.Struct(">qiiBI")  # what stands before that

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

MOST_OPENED_RECORDS = 1_000_000
"""A batch of more stays closed: everybody else waits while its records are gone through."""

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1


class ControlKind(IntEnum):
    """What a control batch says; the numbers are on disk."""

    ABORT = 0
    COMMIT = 1


class ControlMarker(NamedTuple):
    """The one record of a control batch: how a transaction ended."""

    kind: ControlKind
    coordinator_epoch: int


class BatchView:
    """A record batch in a buffer: its head unpacked, its records where they are.

    Valid as long as the buffer is; nothing here trusts the CRC before `has_valid_crc` was asked.
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
        ) = HEAD.unpack_from(data)
        self.data = data
        self.size = self.length + LENGTH_END

    @property
    def last_offset(self) -> int:
        """Offset of the last record, whether or not compaction left it there."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; after 2147483647 comes 0."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF

    @property
    def compression(self) -> int:
        """Number of the codec that the records are compressed with."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the records carry the time of appending instead of their own."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker for the log instead of records for consumers."""
        return bool(self.attributes & CONTROL)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers in the batch may go, once compaction has set it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    def has_valid_crc(self) -> bool:
        """Whether the bytes are those the producer's CRC was computed over."""
        return crc32c(memoryview(self.data)[_COVERED_START:], 0) == self.crc

    def body(self) -> bytes:
        """Return the records, decompressed; MalformedRecordsError when they cannot be.

        OversizedDataError when there are too many to go through them one by one.
        """
        if self.record_count > MOST_OPENED_RECORDS:
            raise compression.OversizedDataError(f"{self.record_count} records in one batch")
        return compression.decompress(self.compression, memoryview(self.data)[HEAD_SIZE:])

    def records(self) -> list[Record]:
        """Return the records, decompressed and decoded; MalformedRecordsError if they cannot be."""
        body = self.body()
        base_offset, base_timestamp = self.base_offset, self.base_timestamp
        append_time = self.max_timestamp if self.is_log_append_time else None
        return [
            Record(
                base_offset + record.offset_delta,
                base_timestamp + record.timestamp_delta if append_time is None else append_time,
                record.key,
                record.value,
                decode_headers(body, record.headers, record.end),
            )
            for record in scan_records(body, self.record_count)
        ]

    def key_values(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield keys and values alone, for replay; MalformedRecordsError if they cannot be."""
        return key_values(self.body(), self.record_count)

    def control_marker(self) -> ControlMarker | None:
        """Return what a control batch says, or None for a kind that this version does not know."""
        return _marker_in(self.body(), self.record_count)

    def first(self, base_offset: int, leader_epoch: int) -> bytes:
        """Return the sixteen bytes that put the batch at `base_offset` in `leader_epoch`."""
        return FIRST.pack(base_offset, self.length, leader_epoch)

    def with_log_append_time(self, now_ms: int) -> BatchView:
        """Return a copy whose records were all appended at `now_ms`, with its new CRC."""
        return self._with_head(self.attributes | LOG_APPEND_TIME, now_ms, self._closed())

    def with_create_time(self) -> BatchView:
        """Return a copy whose records carry their own timestamps, with its new CRC."""
        return self._with_head(
            self.attributes & ~LOG_APPEND_TIME, self.max_timestamp, self._closed()
        )

    def with_compression(self, number: int) -> BatchView:
        """Return a copy whose records are compressed with the codec of that number."""
        attributes = self.attributes & ~COMPRESSION_MASK | number
        return self._with_head(
            attributes, self.max_timestamp, compression.compress(number, self.body())
        )

    def _closed(self) -> memoryview:
        return memoryview(self.data)[HEAD_SIZE:]

    def _with_head(self, attributes: int, max_timestamp: int, payload: Buffer) -> BatchView:
        return BatchView(
            assemble(
                payload,
                base_offset=self.base_offset,
                leader_epoch=self.leader_epoch,
                attributes=attributes,
                last_offset_delta=self.last_offset_delta,
                base_timestamp=self.base_timestamp,
                max_timestamp=max_timestamp,
                producer=Producer(self.producer_id, self.producer_epoch, self.base_sequence),
                record_count=self.record_count,
            )
        )


@lru_cache(maxsize=64)  # the markers of an epoch all say the same, and each is read once more
def _marker_in(body: bytes, count: int) -> ControlMarker | None:
    kind, coordinator_epoch = read_marker(body, count)
    if kind not in (ControlKind.ABORT, ControlKind.COMMIT):
        return None
    return ControlMarker(ControlKind(kind), coordinator_epoch)


class Producer(NamedTuple):
    """Who wrote a batch, and which of its records comes first; all -1 when nobody counts."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = -1


NOBODY = Producer()


def assemble(
    payload: Buffer,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer: Producer,
    record_count: int,
) -> bytes:
    """Return a batch: its head with the right CRC, and then `payload`, compressed already."""
    covered = _COVERED.pack(
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer.producer_id,
        producer.producer_epoch,
        producer.base_sequence,
        record_count,
    )
    return _with_head(base_offset, leader_epoch, covered, payload)


def _with_head(base_offset: int, leader_epoch: int, covered: bytes, payload: Buffer) -> bytes:
    crc = crc32c(payload, crc32c(covered, 0))
    length = HEAD_SIZE - LENGTH_END + len(payload)
    head = _OUTSIDE_CRC.pack(base_offset, length, leader_epoch, _MAGIC_2, crc)
    return b"".join((head, covered, payload))


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    producer: Producer = NOBODY,
) -> bytes:
    """Return a batch of at least one record; `attributes` name the codec and the batch's kind."""
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


def build_own_batch(
    pairs: Sequence[tuple[bytes | None, bytes | None]],
    now_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return a batch of at least one key and value of the broker's own, written at `now_ms`."""
    count = len(pairs)
    covered = _COVERED.pack(0, count - 1, now_ms, now_ms, *NOBODY, count)
    return _with_head(base_offset, leader_epoch, covered, encode_key_values(pairs))


def build_control_batch(
    marker: ControlMarker, *, producer_id: int, producer_epoch: int, now_ms: int
) -> bytes:
    """Return the batch that ends a transaction of that producer."""
    key = CONTROL_KEY.pack(0, marker.kind)
    value = END_MARKER.pack(0, marker.coordinator_epoch)
    return assemble(
        encode_record(0, 0, key, value),
        base_offset=0,
        leader_epoch=-1,
        attributes=CONTROL | TRANSACTIONAL,
        last_offset_delta=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer=Producer(producer_id, producer_epoch),
        record_count=1,
    )


def split_batches(data: Buffer) -> list[BatchView]:
    """Return the batches that lie one after the other in `data`.

    As Kafka reads them: a last batch that is cut short counts as absent; a length no batch can
    have is CORRUPT_MESSAGE; formats 0 and 1 are INVALID_RECORD, since no served version of
    Produce may carry them. CRCs are left to `has_valid_crc`.
    """
    view = memoryview(data)
    batches = []
    position, size = 0, len(view)
    while size - position >= LENGTH_END:
        (length,) = _LENGTH.unpack_from(view, position + _LENGTH_AT)
        if length < _SMALLEST_LENGTH:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of length {length}")
        if size - position <= _MAGIC_AT:
            break
        magic = view[position + _MAGIC_AT]
        if magic > _MAGIC_2:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of unknown format {magic}")
        end = position + LENGTH_END + length
        if end > size:
            break
        if magic < _MAGIC_2:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"a batch of the old format {magic}")
        if end - position < HEAD_SIZE:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a batch shorter than its head")
        batches.append(BatchView(view[position:end]))
        position = end
    return batches
