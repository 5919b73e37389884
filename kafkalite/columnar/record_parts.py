"""Uncompressed batch bodies: where their records stand, and what each field of them says.

Equal to `storage.records`: a record whose parts do not fill it spoils the whole batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.columnar.assemble import list_array, not_text, slice_array, struct_array
from kafkalite.columnar.varints import read_zigzags
from kafkalite.storage.records import MalformedRecordsError, read_varint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.columnar.arrays import Bytes, Ints

HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", HEADER))

_FEW: Final = 16
_SMALLEST_RECORD: Final = 7
_SMALLEST_HEADER: Final = 2
_FAR: Final = 1 << 40
"""Longer than anything is: a length cut down to this leads out of any data all the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Bodies:
    """Records of batches, one stretch of data for each batch."""

    data: Bytes
    starts: Ints
    ends: Ints


class Placed(NamedTuple):
    """Where records stand: behind the length of each, up to its end."""

    batch: Ints
    starts: Ints
    stops: Ints
    is_wrong: NDArray[np.bool_]
    """By batch: whether its records do not fill it. Of such there are none."""


def place_records(bodies: Bodies, counts: Ints) -> Placed:
    """Follow the lengths of records: the first ones of all batches, the second ones, and so on."""
    at, ends = bodies.starts.copy(), bodies.ends
    # Nobody looks for more records than there are bytes for.
    is_wrong = (counts < 0) | (counts * _SMALLEST_RECORD > ends - at)
    left = np.where(is_wrong, 0, counts)
    found: list[tuple[Ints, Ints, Ints]] = []
    batches = np.flatnonzero(left)
    while len(batches) > _FEW:
        length, start = read_zigzags(bodies.data, at[batches])
        stop = start + np.minimum(length, _FAR)
        bad = (start < 0) | (length <= 0) | (stop > ends[batches])
        is_wrong[batches[bad]] = True
        batches, start, stop = batches[~bad], start[~bad], stop[~bad]
        found.append((batches, start, stop))
        at[batches] = stop
        left[batches] -= 1
        batches = batches[left[batches] > 0]
    raw = bodies.data.data
    for batch in batches.tolist():
        found.append(_follow(raw, batch, int(at[batch]), int(left[batch])))
        stops = found[-1][2]
        at[batch] = stops[-1] if len(stops) == left[batch] else -1
    is_wrong |= at != ends
    whose, starts, stops = (
        np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        for parts in zip(*found, strict=True)
    ) if found else (np.zeros(0, dtype=np.int64),) * 3  # fmt: skip
    good = np.flatnonzero(~is_wrong[whose])
    order = good[np.argsort(starts[good], kind="stable")]
    return Placed(whose[order], starts[order], stops[order], is_wrong)


def _follow(data: memoryview, batch: int, at: int, left: int) -> tuple[Ints, Ints, Ints]:
    """Follow the records of one batch as far as their lengths make sense."""
    starts, stops = [], []
    size = len(data)
    try:
        for _ in range(left):
            length = data[at]
            if length < 0x80:  # noqa: PLR2004 - the continuation bit
                length, at = length >> 1 ^ -(length & 1), at + 1
            else:
                length, at = read_varint(data, at)  # type: ignore[arg-type]  # a view will do
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
    """Headers of records, in the order in which they stand in the data."""

    counts: Ints
    """By record."""
    owner: Ints
    key_starts: Ints
    key_stops: Ints
    value_starts: Ints
    value_stops: Ints


class RecordReader:
    """Reads the same field of all records, one field after the other."""

    def __init__(self, data: Bytes, at: Ints, stops: Ints) -> None:
        self._data = data
        self._stops = stops
        self.at = at
        self.is_wrong = np.zeros(len(at), dtype=np.bool_)
        """Which records are damaged, as far as one knows."""

    def number(self) -> Ints:
        """Read a number."""
        values, after = read_zigzags(self._data, self.at)
        self.is_wrong |= after < 0
        self.at = after
        return values

    def slice(self) -> tuple[Ints, Ints]:
        """Read bytes: their starts and stops, which for null are before the starts."""
        length = np.minimum(self.number(), _FAR)
        self.is_wrong |= length < -1
        starts, stops = self.at, self.at + length
        self.at = np.maximum(starts, stops)
        return starts, stops

    def headers(self) -> RecordHeaders:
        """Read headers, which fill the rest of their records."""
        counts = self.number()
        self.is_wrong |= (counts < 0) | (counts * _SMALLEST_HEADER > self._stops - self.at)
        counts[self.is_wrong] = 0
        found: list[tuple[Ints, ...]] = []
        left = counts.copy()
        at = self.at.copy()
        owners = np.flatnonzero(left)
        while len(owners) > _FEW:
            one = RecordReader(self._data, at[owners], self._stops[owners])
            key, value = one.slice(), one.slice()
            bad = one.is_wrong | (key[1] < key[0]) | (one.at > one._stops)
            self.is_wrong[owners[bad]] = True
            at[owners] = one.at
            found.append((owners, *key, *value))
            left[owners] -= 1
            owners = owners[(left[owners] > 0) & ~bad]
        found += [self._headers_of(owner, at, int(left[owner])) for owner in owners.tolist()]
        self.is_wrong |= at != self._stops
        if not found:
            return RecordHeaders(counts, *(np.zeros(0, dtype=np.int64) for _ in range(5)))
        columns = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        order = np.argsort(columns[1], kind="stable")
        return RecordHeaders(counts, *(column[order] for column in columns))

    def _headers_of(self, owner: int, at: Ints, left: int) -> tuple[Ints, ...]:
        """Read what headers are left of one record, and move its `at` on."""
        data, here, stop = self._data.data, int(at[owner]), int(self._stops[owner])
        rows = []
        try:
            for _ in range(left):
                size, key = read_varint(data, here)  # type: ignore[arg-type]  # a view will do
                key_stop = key + size
                size_, value = read_varint(data, key_stop)  # type: ignore[arg-type]
                here = max(value, value + size_)
                if size < 0 or size_ < -1 or here > stop:
                    self.is_wrong[owner] = True
                    break
                rows.append((owner, key, key_stop, value, value + size_))
        except (IndexError, MalformedRecordsError):
            self.is_wrong[owner] = True
        at[owner] = min(here, _FAR)
        return tuple(np.array(rows, dtype=np.int64).reshape(-1, 5).T)


def header_lists(
    data: Bytes, headers: RecordHeaders, good: NDArray[np.bool_]
) -> tuple[pa.Array, Ints]:
    """Make the column of the good records' headers; which records have a name that is no text."""
    counts = headers.counts[good]
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    chosen = good[headers.owner]
    keys = slice_array(data, headers.key_starts[chosen], headers.key_stops[chosen])
    values = slice_array(data, headers.value_starts[chosen], headers.value_stops[chosen])
    spoilt = np.zeros(0, dtype=np.int64)
    try:
        names = keys.cast(pa.string())
    except pa.ArrowInvalid:
        spoilt = headers.owner[chosen][not_text(keys)]
        names = pa.nulls(len(keys), pa.string())
    pairs = struct_array(HEADER, [names, values], len(keys))
    return list_array(HEADERS, offsets, pairs, np.zeros(len(counts), dtype=np.bool_)), spoilt
