"""Reading of the records of uncompressed batch bodies, field by field.

Results equal those of `storage.record_format`. If the fields of a record do not end at its end, its
batch is invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kafkalite.lab.columnar.decoding.arrow_assembly import (
    list_array,
    rows_not_utf8,
    slice_array,
    struct_array,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage.record_format import MalformedRecordsError, read_varint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.lab.columnar.arrays import Bytes, Ints


HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", HEADER))

_MIN_COLUMNAR_ROWS: Final = 16
"""Minimum number of rows that are read in columns; fewer are read one by one, which is faster."""
_MIN_RECORD_BYTES: Final = 7
_MIN_HEADER_BYTES: Final = 2
_MAX_LENGTH: Final = 1 << 40
"""Lengths are clipped to this value, which still exceeds the size of any data."""


@dataclass(frozen=True, slots=True, eq=False)
class Bodies:
    """The uncompressed records of batches: one range of data per batch."""

    data: Bytes
    starts: Ints
    ends: Ints


class RecordPositions(NamedTuple):
    """Positions of records; a record starts after its length field."""

    batch: Ints
    starts: Ints
    stops: Ints
    is_invalid: NDArray[np.bool_]
    """By batch: whether its records do not end at its end. Such a batch has no records here."""


def find_records(bodies: Bodies, counts: Ints) -> RecordPositions:
    """Find records by their lengths: the first one of every batch, then the second, and so on."""
    at, ends = bodies.starts.copy(), bodies.ends
    # A batch cannot have more records than its size allows.
    is_invalid = (counts < 0) | (counts * _MIN_RECORD_BYTES > ends - at)
    remaining = np.where(is_invalid, 0, counts)
    found: list[tuple[Ints, Ints, Ints]] = []
    batches = np.flatnonzero(remaining)
    while len(batches) > _MIN_COLUMNAR_ROWS:
        length, start = read_signed_varints(bodies.data, at[batches])
        stop = start + np.minimum(length, _MAX_LENGTH)
        is_bad = (start < 0) | (length <= 0) | (stop > ends[batches])
        is_invalid[batches[is_bad]] = True
        batches, start, stop = batches[~is_bad], start[~is_bad], stop[~is_bad]
        found.append((batches, start, stop))
        at[batches] = stop
        remaining[batches] -= 1
        batches = batches[remaining[batches] > 0]
    raw = bodies.data.data
    for batch in batches.tolist():
        found.append(_find_records_of_batch(raw, batch, int(at[batch]), int(remaining[batch])))
        stops = found[-1][2]
        at[batch] = stops[-1] if len(stops) == remaining[batch] else -1
    is_invalid |= at != ends
    batch_of, starts, stops = (
        np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        for parts in zip(*found, strict=True)
    ) if found else (np.zeros(0, dtype=np.int64),) * 3  # fmt: skip
    valid_records = np.flatnonzero(~is_invalid[batch_of])
    order = valid_records[np.argsort(starts[valid_records], kind="stable")]
    return RecordPositions(batch_of[order], starts[order], stops[order], is_invalid)


def _find_records_of_batch(
    data: memoryview, batch: int, at: int, remaining: int
) -> tuple[Ints, Ints, Ints]:
    """Find the records of one batch, up to the first invalid length."""
    starts, stops = [], []
    size = len(data)
    try:
        for _ in range(remaining):
            length = data[at]
            if length < 0x80:  # noqa: PLR2004 - the continuation bit
                length, at = length >> 1 ^ -(length & 1), at + 1
            else:
                length, at = read_varint(data, at)  # type: ignore[arg-type]  # a memoryview works
            if length <= 0 or length > size:
                break
            starts.append(at)
            at += length
            stops.append(at)
    except (IndexError, MalformedRecordsError):
        pass
    return (
        np.full(len(stops), batch),
        np.array(starts[: len(stops)], np.int64),
        np.array(stops, np.int64),
    )


class RecordHeaders(NamedTuple):
    """Headers of records, in the order of the data."""

    counts: Ints
    """By record: its number of headers."""
    record: Ints
    """By header: the index of its record; so are the other columns."""
    key_starts: Ints
    key_stops: Ints
    value_starts: Ints
    value_stops: Ints


class RecordReader:
    """Reads the fields of many records: each call reads the next field of all records."""

    def __init__(self, data: Bytes, at: Ints, stops: Ints) -> None:
        self._data = data
        self._stops = stops
        self.at = at
        self.is_invalid = np.zeros(len(at), dtype=np.bool_)
        """By record: whether it is invalid."""

    def read_varints(self) -> Ints:
        """Read a varint of each record."""
        values, after = read_signed_varints(self._data, self.at)
        self.is_invalid |= after < 0
        self.at = after
        return values

    def read_bytes(self) -> tuple[Ints, Ints]:
        """Read a bytes field of each record; return starts and stops. For null, stop < start."""
        length = np.minimum(self.read_varints(), _MAX_LENGTH)
        self.is_invalid |= length < -1
        starts, stops = self.at, self.at + length
        self.at = np.maximum(starts, stops)
        return starts, stops

    def read_headers(self) -> RecordHeaders:
        """Read the headers, which fill the rest of their records."""
        counts = self.read_varints()
        self.is_invalid |= (counts < 0) | (counts * _MIN_HEADER_BYTES > self._stops - self.at)
        counts[self.is_invalid] = 0
        found: list[tuple[Ints, ...]] = []
        remaining = counts.copy()
        at = self.at.copy()
        records = np.flatnonzero(remaining)
        while len(records) > _MIN_COLUMNAR_ROWS:
            header_reader = RecordReader(self._data, at[records], self._stops[records])
            key, value = header_reader.read_bytes(), header_reader.read_bytes()
            is_bad = (
                header_reader.is_invalid
                | (key[1] < key[0])
                | (header_reader.at > header_reader._stops)
            )
            self.is_invalid[records[is_bad]] = True
            at[records] = header_reader.at
            found.append((records, *key, *value))
            remaining[records] -= 1
            records = records[(remaining[records] > 0) & ~is_bad]
        found += [
            self._read_remaining_headers(record, at, int(remaining[record]))
            for record in records.tolist()
        ]
        self.is_invalid |= at != self._stops
        if not found:
            return RecordHeaders(counts, *(np.zeros(0, dtype=np.int64) for _ in range(5)))
        columns = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        order = np.argsort(columns[1], kind="stable")
        return RecordHeaders(counts, *(column[order] for column in columns))

    def _read_remaining_headers(self, record: int, at: Ints, remaining: int) -> tuple[Ints, ...]:
        """Read the remaining headers of one record, and advance its `at`."""
        data, position, stop = self._data.data, int(at[record]), int(self._stops[record])
        rows = []
        try:
            for _ in range(remaining):
                size, key = read_varint(data, position)  # type: ignore[arg-type]  # a memoryview works
                key_stop = key + size
                value_size, value = read_varint(data, key_stop)  # type: ignore[arg-type]
                position = max(value, value + value_size)
                if size < 0 or value_size < -1 or position > stop:
                    self.is_invalid[record] = True
                    break
                rows.append((record, key, key_stop, value, value + value_size))
        except (IndexError, MalformedRecordsError):
            self.is_invalid[record] = True
        at[record] = min(position, _MAX_LENGTH)
        return tuple(np.array(rows, dtype=np.int64).reshape(-1, 5).T)


def header_lists(
    data: Bytes, headers: RecordHeaders, is_valid: NDArray[np.bool_]
) -> tuple[pa.Array, Ints]:
    """Return the headers of valid records, and the records with a header name that is not UTF-8."""
    counts = headers.counts[is_valid]
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    is_selected = is_valid[headers.record]
    keys = slice_array(data, headers.key_starts[is_selected], headers.key_stops[is_selected])
    values = slice_array(data, headers.value_starts[is_selected], headers.value_stops[is_selected])
    invalid = np.zeros(0, dtype=np.int64)
    try:
        names = keys.cast(pa.string())
    except pa.ArrowInvalid:
        invalid = headers.record[is_selected][rows_not_utf8(keys)]
        names = pa.nulls(len(keys), pa.string())
    pairs = struct_array(HEADER, [names, values], len(keys))
    return list_array(HEADERS, offsets, pairs, np.zeros(len(counts), dtype=np.bool_)), invalid


_HIGH_BIT: Final = 0x80
"""Set in every byte of a varint but the last."""
_ZIGZAG: Final = np.array([number >> 1 ^ -(number & 1) for number in range(_HIGH_BIT)])
_LAST_LONG_SHIFT: Final = 63


def read_signed_varints(
    data: NDArray[np.uint8], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read a signed varint of up to ten bytes at each position; return values and end positions.

    The end position is negative for a longer varint. As in Java, bits above the 64th are dropped. A
    position outside the data is clipped to it.
    """
    first = data.take(positions, mode="clip")
    after = positions + 1
    if first.max(initial=0) < _HIGH_BIT:
        return _ZIGZAG.take(first), after
    # Most of the longer varints have two bytes.
    second = data.take(after, mode="clip")
    is_long = first >= _HIGH_BIT
    raw = first & ~np.uint8(_HIGH_BIT) | np.where(is_long, second, 0).astype(np.int64) << 7
    values = raw >> 1 ^ -(raw & 1)
    after += is_long
    longer = np.flatnonzero(is_long & (second >= _HIGH_BIT))
    if len(longer):
        values[longer], after[longer] = _read_long_varints(data, positions[longer])
    return values, after


def _read_long_varints(
    data: NDArray[np.uint8], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    raw = np.zeros(len(positions), dtype=np.uint64)
    after = positions.copy()
    unfinished = np.arange(len(positions))
    for shift in range(0, _LAST_LONG_SHIFT + 1, 7):
        byte = data.take(after[unfinished], mode="clip").astype(np.uint64)
        raw[unfinished] |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        after[unfinished] += 1
        unfinished = unfinished[byte >= _HIGH_BIT]
        if not len(unfinished):
            break
    after[unfinished] = -1
    signs = (raw & np.uint64(1)).astype(np.int64)
    return (raw >> np.uint64(1)).astype(np.int64) ^ -signs, after
