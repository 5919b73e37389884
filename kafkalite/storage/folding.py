"""Folding: of a run of records only the last of each key, as compaction would leave them.

A log that is read for its state is mostly the past: what was committed, and committed again. Here
keys and values stay the bytes they are, and what is overwritten is never looked at.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.storage.batch import (
    COMPRESSION_MASK,
    CONTROL,
    FIRST,
    HEAD_SIZE,
    LENGTH_END,
    TRANSACTIONAL,
    BatchView,
)
from kafkalite.storage.records import MalformedRecordsError, read_key_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Folded: TypeAlias = "dict[bytes | None, bytes | None]"
"""Key → value, None being a tombstone; in the order in which the values were written."""

MOST_KEYS = 65_536
"""A run with more keys is folded piece by piece, so that a log need not fit into memory."""

_CHUNK_SIZE = 1 << 20
_HEAD = struct.Struct(">8xi4xB4xh34xi")
"""Of a batch's head: length, magic, attributes, record count."""
_RECORD = struct.Struct("6B")
"""The start of a record with a length of two bytes and nothing else of more than one: length,
attributes, timestamp, offset, and the key's length."""
_NOT_PLAIN = COMPRESSION_MASK | TRANSACTIONAL | CONTROL
_MAGIC_2 = 2
_CONTINUES = 0x80  # set in every byte of a varint but the last
_NULL = 1  # the varint -1


def fold(
    pread: Callable[[int, int], bytes], start: int, end: int, most_keys: int = MOST_KEYS
) -> Iterator[Folded | BatchView]:
    """Yield what stands between two positions of a segment: runs of plain batches, folded.

    A batch that is not plain (compressed, of a transaction, a marker, or a very long one) comes by
    itself, in its place. Stops where `recovery.placed_batches` would. MalformedRecordsError for a
    batch that does not hold records.
    """
    position = start
    last: Folded = {}
    while end - position >= HEAD_SIZE:
        chunk = pread(min(_CHUNK_SIZE, end - position), position)
        at = size = 0
        while len(chunk) - (at := _fold_plain(chunk, at, last)) >= HEAD_SIZE:
            size = FIRST.unpack_from(chunk, at)[1] + LENGTH_END
            if size < HEAD_SIZE or at + size > len(chunk):
                break
            if last:
                yield last
                last = {}
            yield BatchView(memoryview(chunk)[at : at + size])
            at += size
        if at == 0:
            # Either one batch is longer than a chunk, or the file is shorter than it said.
            whole = pread(size, position) if HEAD_SIZE <= size <= end - position else b""
            if not whole or len(whole) < size:
                break
            if last:
                yield last
                last = {}
            yield BatchView(whole)
        position += at or size
        if len(last) >= most_keys:
            yield last
            last = {}
    if last:
        yield last


def _fold_plain(data: bytes, at: int, last: Folded) -> int:
    """Fold the plain batches that begin at `at`, and return where the first other one begins.

    This is how coordinators are loaded, a million records at a time: nothing is called for most.
    """
    size = len(data)
    forget = last.pop
    try:
        while size - at >= HEAD_SIZE:
            length, magic, attributes, count = _HEAD.unpack_from(data, at)
            stop = at + LENGTH_END + length
            position = at + HEAD_SIZE
            if stop > size or stop < position or attributes & _NOT_PLAIN or magic != _MAGIC_2:
                break
            for _ in range(count):
                low, high, _, timestamp, offset, key_length = _RECORD.unpack_from(data, position)
                value_at = position + 6 + (key_length >> 1)
                if (
                    high < _CONTINUES <= low
                    and timestamp < _CONTINUES
                    and offset < _CONTINUES
                    and not (low | key_length) & 1
                    and key_length < _CONTINUES
                    and (value_length := data[value_at]) < _CONTINUES
                ):
                    key: bytes | None = data[position + 6 : value_at]
                    position += 2 + ((low & 0x7F | high << 7) >> 1)
                    if value_length & 1:
                        value = None
                        is_damaged = value_length != _NULL or value_at + 1 >= position
                    else:
                        value_end = value_at + 1 + (value_length >> 1)
                        value = data[value_at + 1 : value_end]
                        is_damaged = value_end >= position
                    if is_damaged:
                        raise MalformedRecordsError("a record's length does not fit its content")
                else:
                    key, value, position = read_key_value(data, position)
                # The last value of a key takes the last place: forgotten first, it goes behind.
                forget(key, None)
                last[key] = value
            if position != stop:
                raise MalformedRecordsError("a batch's length does not fit its records")
            at = stop
    except (IndexError, struct.error):
        raise MalformedRecordsError("the records end too early") from None
    return at
