"""Reading of the records of uncompressed batch bodies, field by field.

Results equal those of `storage.record_format`. If the fields of a record do not end at its end, its
batch is invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.storage.record_format import MalformedRecordsError, read_varint
from kafkalite.traffic.columnar.arrow_assembly import (
    list_array,
    not_text,
    slice_array,
    struct_array,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.traffic.columnar.arrays import Bytes, Ints


HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", HEADER))

_FEW: Final = 16
_SMALLEST_RECORD: Final = 7
_SMALLEST_HEADER: Final = 2
_FAR: Final = 1 << 40
"""Lengths are clipped to this value, which still exceeds the size of any data."""


@dataclass(frozen=True, slots=True, eq=False)
class Bodies:
    """The uncompressed records of batches: one range of data per batch."""

    data: Bytes
    starts: Ints
    ends: Ints


class RecordPositions(NamedTuple):
    """Positions of records, which begin after their length field."""

    batch: Ints
    starts: Ints
    stops: Ints
    is_invalid: NDArray[np.bool_]
    """By batch: whether its records do not end at its end. Such a batch has no records here."""


def find_records(bodies: Bodies, counts: Ints) -> RecordPositions:
    """Find records by their lengths: the first one of every batch, then the second, and so on."""
    at, ends = bodies.starts.copy(), bodies.ends
    # A batch cannot have more records than its size allows.
    is_invalid = (counts < 0) | (counts * _SMALLEST_RECORD > ends - at)
    remaining = np.where(is_invalid, 0, counts)
    found: list[tuple[Ints, Ints, Ints]] = []
    batches = np.flatnonzero(remaining)
    while len(batches) > _FEW:
        length, start = read_zigzags(bodies.data, at[batches])
        stop = start + np.minimum(length, _FAR)
        bad = (start < 0) | (length <= 0) | (stop > ends[batches])
        is_invalid[batches[bad]] = True
        batches, start, stop = batches[~bad], start[~bad], stop[~bad]
        found.append((batches, start, stop))
        at[batches] = stop
        remaining[batches] -= 1
        batches = batches[remaining[batches] > 0]
    raw = bodies.data.data
    for batch in batches.tolist():
        found.append(_walk_batch(raw, batch, int(at[batch]), int(remaining[batch])))
        stops = found[-1][2]
        at[batch] = stops[-1] if len(stops) == remaining[batch] else -1
    is_invalid |= at != ends
    batch_of, starts, stops = (
        np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        for parts in zip(*found, strict=True)
    ) if found else (np.zeros(0, dtype=np.int64),) * 3  # fmt: skip
    good = np.flatnonzero(~is_invalid[batch_of])
    order = good[np.argsort(starts[good], kind="stable")]
    return RecordPositions(batch_of[order], starts[order], stops[order], is_invalid)


def _walk_batch(data: memoryview, batch: int, at: int, remaining: int) -> tuple[Ints, Ints, Ints]:
    """Follow the records of one batch while their lengths are valid."""
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
    """Number of headers by record."""
    owner: Ints
    key_starts: Ints
    key_stops: Ints
    value_starts: Ints
    value_stops: Ints


class RecordReader:
    """Reads one field of all records, then the next field."""

    def __init__(self, data: Bytes, at: Ints, stops: Ints) -> None:
        self._data = data
        self._stops = stops
        self.at = at
        self.is_invalid = np.zeros(len(at), dtype=np.bool_)
        """Whether a record was found to be invalid."""

    def number(self) -> Ints:
        """Read a varint."""
        values, after = read_zigzags(self._data, self.at)
        self.is_invalid |= after < 0
        self.at = after
        return values

    def slice(self) -> tuple[Ints, Ints]:
        """Read byte fields; return their starts and stops. For null, stop is before start."""
        length = np.minimum(self.number(), _FAR)
        self.is_invalid |= length < -1
        starts, stops = self.at, self.at + length
        self.at = np.maximum(starts, stops)
        return starts, stops

    def headers(self) -> RecordHeaders:
        """Read the headers, which fill the rest of their records."""
        counts = self.number()
        self.is_invalid |= (counts < 0) | (counts * _SMALLEST_HEADER > self._stops - self.at)
        counts[self.is_invalid] = 0
        found: list[tuple[Ints, ...]] = []
        remaining = counts.copy()
        at = self.at.copy()
        owners = np.flatnonzero(remaining)
        while len(owners) > _FEW:
            one = RecordReader(self._data, at[owners], self._stops[owners])
            key, value = one.slice(), one.slice()
            bad = one.is_invalid | (key[1] < key[0]) | (one.at > one._stops)
            self.is_invalid[owners[bad]] = True
            at[owners] = one.at
            found.append((owners, *key, *value))
            remaining[owners] -= 1
            owners = owners[(remaining[owners] > 0) & ~bad]
        found += [self._headers_of(owner, at, int(remaining[owner])) for owner in owners.tolist()]
        self.is_invalid |= at != self._stops
        if not found:
            return RecordHeaders(counts, *(np.zeros(0, dtype=np.int64) for _ in range(5)))
        columns = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        order = np.argsort(columns[1], kind="stable")
        return RecordHeaders(counts, *(column[order] for column in columns))

    def _headers_of(self, owner: int, at: Ints, remaining: int) -> tuple[Ints, ...]:
        """Read the remaining headers of one record, and advance its `at`."""
        data, position, stop = self._data.data, int(at[owner]), int(self._stops[owner])
        rows = []
        try:
            for _ in range(remaining):
                size, key = read_varint(data, position)  # type: ignore[arg-type]  # a memoryview works
                key_stop = key + size
                size_, value = read_varint(data, key_stop)  # type: ignore[arg-type]
                position = max(value, value + size_)
                if size < 0 or size_ < -1 or position > stop:
                    self.is_invalid[owner] = True
                    break
                rows.append((owner, key, key_stop, value, value + size_))
        except (IndexError, MalformedRecordsError):
            self.is_invalid[owner] = True
        at[owner] = min(position, _FAR)
        return tuple(np.array(rows, dtype=np.int64).reshape(-1, 5).T)


def header_lists(
    data: Bytes, headers: RecordHeaders, good: NDArray[np.bool_]
) -> tuple[pa.Array, Ints]:
    """Return the headers of the valid records, and the records with a non-UTF-8 header name."""
    counts = headers.counts[good]
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    chosen = good[headers.owner]
    keys = slice_array(data, headers.key_starts[chosen], headers.key_stops[chosen])
    values = slice_array(data, headers.value_starts[chosen], headers.value_stops[chosen])
    invalid = np.zeros(0, dtype=np.int64)
    try:
        names = keys.cast(pa.string())
    except pa.ArrowInvalid:
        invalid = headers.owner[chosen][not_text(keys)]
        names = pa.nulls(len(keys), pa.string())
    pairs = struct_array(HEADER, [names, values], len(keys))
    return list_array(HEADERS, offsets, pairs, np.zeros(len(counts), dtype=np.bool_)), invalid


_ONE_BYTE: Final = 0x80
"""Bytes below this end a varint."""
_ZIGZAG: Final = np.array([number >> 1 ^ -(number & 1) for number in range(_ONE_BYTE)])
_LAST_LONG_SHIFT: Final = 63


def read_zigzags(
    data: NDArray[np.uint8], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read a signed varint of up to ten bytes at each position; return values and end positions.

    The end position is negative for a longer varint. As in Java, bits above the 64th are dropped. A
    position outside the data is clipped to it.
    """
    first = data.take(positions, mode="clip")
    after = positions + 1
    if first.max(initial=0) < _ONE_BYTE:
        return _ZIGZAG.take(first), after
    # Most of the longer varints have two bytes.
    second = data.take(after, mode="clip")
    is_long = first >= _ONE_BYTE
    raw = first & ~np.uint8(_ONE_BYTE) | np.where(is_long, second, 0).astype(np.int64) << 7
    values = raw >> 1 ^ -(raw & 1)
    after += is_long
    longer = np.flatnonzero(is_long & (second >= _ONE_BYTE))
    if len(longer):
        values[longer], after[longer] = _read_long(data, positions[longer])
    return values, after


def _read_long(
    data: NDArray[np.uint8], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    raw = np.zeros(len(positions), dtype=np.uint64)
    after = positions.copy()
    going = np.arange(len(positions))
    for shift in range(0, _LAST_LONG_SHIFT + 1, 7):
        byte = data.take(after[going], mode="clip").astype(np.uint64)
        raw[going] |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        after[going] += 1
        going = going[byte >= _ONE_BYTE]
        if not len(going):
            break
    after[going] = -1
    signs = (raw & np.uint64(1)).astype(np.int64)
    return (raw >> np.uint64(1)).astype(np.int64) ^ -signs, after
