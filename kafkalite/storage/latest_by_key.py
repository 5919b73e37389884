"""The latest value of each key in a run of records, as after compaction.

A coordinator reads its log to restore its state. Later records have overwritten most of these
records; for example, a consumer commits the same partition again and again. Keys and values stay
bytes here, and overwritten values are never parsed.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.storage.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC_2,
    PREFIX,
    TRANSACTIONAL,
    BatchView,
)
from kafkalite.storage.crc import crc32c
from kafkalite.storage.record_format import MalformedRecordsError, read_key_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.ports.files import Buffer

LatestByKey: TypeAlias = "dict[bytes | None, bytes | None]"
"""Key → value, or None for a tombstone; in the order in which the values were written."""

MAX_KEYS = 65_536
"""Longer runs are returned in parts, so that a log need not fit into memory."""

_CHUNK_SIZE = 1 << 20
_HEADER_FIELDS = struct.Struct(">8xi4xBIh34xi")
"""Fields of a batch's header: length, magic, CRC, attributes, record count."""
_CRC_END = 21
_RECORD = struct.Struct("6B")
"""The start of a record whose length has two bytes and whose other varints have one byte: low byte
and high byte of the length, attributes, timestamp, offset, and the key's length."""
_NOT_PLAIN = COMPRESSION_MASK | TRANSACTIONAL | CONTROL
_CONTINUATION_BIT = 0x80  # set in every byte of a varint except the last
_NULL = 1  # the varint -1


class DamagedBatchError(MalformedRecordsError):
    """A batch whose length or CRC is wrong, at `position`."""

    def __init__(self, position: int) -> None:
        super().__init__(f"the batch at position {position} is damaged")
        self.position = position


def latest_by_key(
    pread: Callable[[int, int], bytes], start: int, end: int, max_keys: int = MAX_KEYS
) -> Iterator[LatestByKey | BatchView]:
    """Yield the content of a segment between two positions; runs of plain batches as LatestByKey.

    A batch that is not plain (compressed, transactional, a marker, or very long) is yielded as
    it is, in order. Raises DamagedBatchError for a batch with a wrong length or CRC, and
    MalformedRecordsError for a batch without valid records.
    """
    position = start
    latest: LatestByKey = {}
    while position < end:
        chunk = pread(min(_CHUNK_SIZE, end - position), position)
        chunk_position = size = 0
        last_start = len(chunk) - HEADER_SIZE
        while (chunk_position := _add_plain_batches(chunk, chunk_position, latest)) <= last_start:
            size = PREFIX.unpack_from(chunk, chunk_position)[1] + LENGTH_END
            if size < HEADER_SIZE or chunk_position + size > len(chunk):
                break
            if latest:
                yield latest
                latest = {}
            data = memoryview(chunk)[chunk_position : chunk_position + size]
            yield _parse_valid_batch(data, position + chunk_position)
            chunk_position += size
        if chunk_position == 0:
            # Either one batch is longer than a chunk, or its length is damaged.
            long_batch = pread(size, position) if HEADER_SIZE <= size <= end - position else b""
            if not long_batch or len(long_batch) < size:
                raise DamagedBatchError(position)
            if latest:
                yield latest
                latest = {}
            yield _parse_valid_batch(long_batch, position)
        position += chunk_position or size
        if len(latest) >= max_keys:
            yield latest
            latest = {}
    if latest:
        yield latest


def _parse_valid_batch(data: Buffer, position: int) -> BatchView:
    batch = BatchView(data)
    if batch.magic != MAGIC_2 or not batch.has_valid_crc():
        raise DamagedBatchError(position)
    return batch


def _add_plain_batches(data: bytes, batch_start: int, latest: LatestByKey) -> int:
    """Add plain batches from `batch_start` on, and return the position of the first other batch.

    Coordinators load a million records this way, so most records are read without a function call.
    """
    size = len(data)
    pop = latest.pop
    try:
        while size - batch_start >= HEADER_SIZE:
            length, magic, crc, attributes, count = _HEADER_FIELDS.unpack_from(data, batch_start)
            end = batch_start + LENGTH_END + length
            position = batch_start + HEADER_SIZE
            if end > size or end < position or attributes & _NOT_PLAIN or magic != MAGIC_2:
                break
            if crc32c(data[batch_start + _CRC_END : end], 0) != crc:
                break
            for _ in range(count):
                low, high, _, timestamp, offset, key_length = _RECORD.unpack_from(data, position)
                value_length_position = position + 6 + (key_length >> 1)
                if (
                    high < _CONTINUATION_BIT <= low
                    and timestamp < _CONTINUATION_BIT
                    and offset < _CONTINUATION_BIT
                    and not (low | key_length) & 1
                    and key_length < _CONTINUATION_BIT
                    and (value_length := data[value_length_position]) < _CONTINUATION_BIT
                ):
                    key: bytes | None = data[position + 6 : value_length_position]
                    position += 2 + ((low & 0x7F | high << 7) >> 1)
                    if value_length & 1:
                        value = None
                        is_damaged = value_length != _NULL or value_length_position + 1 >= position
                    else:
                        value_end = value_length_position + 1 + (value_length >> 1)
                        value = data[value_length_position + 1 : value_end]
                        is_damaged = value_end >= position
                    if is_damaged:
                        raise MalformedRecordsError("a record's length does not fit its content")
                else:
                    key, value, position = read_key_value(data, position)
                # Remove the key first, so that its latest value moves to the end of the dict.
                pop(key, None)
                latest[key] = value
            if position != end:
                raise MalformedRecordsError("a batch's length does not fit its records")
            batch_start = end
    except (IndexError, struct.error):
        raise MalformedRecordsError("the records end too early") from None
    return batch_start
