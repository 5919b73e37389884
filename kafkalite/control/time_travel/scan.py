"""Scan: reads a log, and finds the batches that may matter without decoding the others."""

from __future__ import annotations

import re
import struct
from operator import eq
from typing import TYPE_CHECKING, Final

from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.ports.clock import LATEST_MS
from kafkalite.storage.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC_2,
    TRANSACTIONAL,
    BatchView,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kafkalite.control.time_travel.commit_filter import CommitFilter
    from kafkalite.control.time_travel.logs import PastLog
    from kafkalite.control.time_travel.points import Point

_FIELDS: Final = struct.Struct(">qi4xB4xhi8xq14xi")
"""Base offset, length, magic, attributes, last offset delta, maximum timestamp, record count."""
_MAX_TIMESTAMP: Final = 35
_EQUAL_BYTES: Final = (
    *range(8, 12), 16, 21, 22, *range(23, 27), _MAX_TIMESTAMP, _MAX_TIMESTAMP + 1, *range(57, 61),
)  # fmt: skip
"""Positions of length, magic, attributes, last offset delta, part of the time, and count."""
_LATEST_BYTE: Final = (LATEST_MS >> 40) - 1
"""The third byte of a timestamp that is not after the latest one."""
_NOT_PLAIN: Final = CONTROL | COMPRESSION_MASK | TRANSACTIONAL
_ALWAYS_RELEVANT: Final = CONTROL | COMPRESSION_MASK
"""The bytes of keys are not in compressed batches, and control batches end transactions."""


class Scan:
    """One pass over a log up to a point.

    Iteration yields the batches in whose bytes one of `needles` occurs, the control batches and the
    compressed ones. With None instead of needles, it yields all batches. None is yielded after each
    chunk, so that a reader can pause.
    """

    def __init__(self, log: PastLog, point: Point, needles: Collection[bytes] | None) -> None:
        self.log = log
        self.end_offset = 0
        """The offset after the last batch that was read."""
        self.first_gap: int | None = None
        """The first offset that compaction has removed, if it was read."""
        self.is_complete = True
        """Whether the end of the log was reached before the point."""
        self.point = point
        self.filter: CommitFilter | None = None
        """Finds the batches that matter in chunks of plain batches."""
        self._needles = needles

    @property
    def is_inexact(self) -> bool:
        """Whether compaction has removed records that may have counted at the present position."""
        return self.first_gap is not None and self.end_offset < self.log.first_dirty_offset

    def __iter__(self) -> Iterator[BatchView | None]:
        """Yield the relevant batches; raises TimeTravelError for bytes that are no batches."""
        try:
            for part in self.log.parts:
                for chunk in part.chunks():
                    yield from self._batches(chunk, part.first_offset)
                    if not self.is_complete:
                        return
                    yield None
        except OSError as error:
            raise TimeTravelError(f"cannot read {self.log.name}: {error.strerror}") from error

    def _batches(self, chunk: bytes, first_offset: int) -> Iterator[BatchView]:
        if self.filter is not None and not first_offset and self.first_gap is None:
            starts, end_offset = plain_batches(chunk, self.end_offset)
            found = self.filter.batches(chunk, starts) if starts else None
            if found is not None:
                self.end_offset = end_offset
                return found
        return self._walk(chunk, first_offset)

    def _walk(self, chunk: bytes, first_offset: int) -> Iterator[BatchView]:
        limit_offset, until_ms = self.point.end_offset, self.point.time_ms
        needles = self._needles
        search = re.compile(b"|".join(map(re.escape, needles))).search if needles else None
        yields_all = needles is None
        unpack, size, view = _FIELDS.unpack_from, len(chunk), memoryview(chunk)
        position, hit = 0, size if search is None else -1
        while size - position >= HEADER_SIZE:
            base, length, magic, attributes, delta, max_ms, count = unpack(chunk, position)
            end = position + length + LENGTH_END
            if magic != MAGIC_2 or length < HEADER_SIZE - LENGTH_END or end > size or delta < 0:
                raise TimeTravelError(
                    f"{self.log.name} is damaged: the batch after offset {self.end_offset} is none "
                    "of format 2"
                )
            if base < first_offset:
                position = end
                continue
            if (base != self.end_offset or count != delta + 1) and self.first_gap is None:
                self.first_gap = self.end_offset
            if (limit_offset is not None and base >= limit_offset) or (
                until_ms is not None and max_ms > until_ms
            ):
                self.is_complete = False
                return
            self.end_offset = base + delta + 1
            if search is not None and hit < position:
                found = search(chunk, position)
                hit = size if found is None else found.start()
            if yields_all or hit < end or attributes & _ALWAYS_RELEVANT:
                yield BatchView(view[position:end])
            position = end


def plain_batches(chunk: bytes, end_offset: int) -> tuple[Sequence[int], int]:
    """Return the positions of the batches in a chunk, and the offset after the last one.

    There are no positions unless all batches are plain, and follow the one before `end_offset`.
    """
    length = _FIELDS.unpack_from(chunk)[1] if len(chunk) >= HEADER_SIZE else 0
    step = length + LENGTH_END
    if step >= HEADER_SIZE and not len(chunk) % step:
        found = _equal_batches(chunk, step, end_offset)
        if found is not None:
            return range(0, len(chunk), step), found
    starts, position, size, unpack = [], 0, len(chunk), _FIELDS.unpack_from
    while size - position >= HEADER_SIZE:
        base, length, magic, attributes, delta, max_ms, count = unpack(chunk, position)
        if (
            magic != MAGIC_2
            or length < HEADER_SIZE - LENGTH_END
            or attributes & _NOT_PLAIN
            or base != end_offset
            or count != delta + 1
            or max_ms > LATEST_MS
        ):
            return (), end_offset
        starts.append(position)
        position += length + LENGTH_END
        end_offset = base + count
    return (starts, end_offset) if position == size else ((), end_offset)


def _equal_batches(chunk: bytes, step: int, end_offset: int) -> int | None:
    """Return the offset after plain batches of `step` bytes; None if there are other batches."""
    number = len(chunk) // step
    _, _, magic, attributes, delta, max_ms, count = _FIELDS.unpack_from(chunk)
    if magic != MAGIC_2 or attributes & _NOT_PLAIN or count != delta + 1 or max_ms > LATEST_MS:
        return None
    if any(chunk[each::step].count(chunk[each]) != number for each in _EQUAL_BYTES):
        return None
    if max(chunk[_MAX_TIMESTAMP + 2 :: step]) > _LATEST_BYTE:
        return None
    bases = struct.Struct(f">q{step - 8}x").iter_unpack(chunk)
    end = end_offset + number * count
    return end if all(map(eq, zip(range(end_offset, end, count)), bases)) else None
