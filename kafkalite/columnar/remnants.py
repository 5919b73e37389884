"""Bytes of a file that are no whole frames in it: what connections began, or end, within.

A frame may begin in one file and end in the next. What a file has before the first frame it can
recognise, and behind the last, is given out, to be put together with what other files have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.columnar.rows import Ends, batch, slices, times
from kafkalite.columnar.tables import FRAGMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.capture.packets import Segment
    from kafkalite.columnar.arrays import Ints
    from kafkalite.columnar.lines import Line
    from kafkalite.columnar.options import Options

MAX_HEAD_BYTES: Final = 4 << 20
"""How much is kept while no frame is recognised: as much as the search itself keeps."""
_MASK, _HALF = 0xFFFFFFFF, 0x80000000


class Fragment(NamedTuple):
    """Bytes of one direction of a connection."""

    line: int
    direction: int
    is_head: bool
    seq: int
    payload: bytes
    offset: int
    at_ns: int
    until_ns: int


class Head:
    """What one direction says before the first frame that is recognised."""

    __slots__ = ("_parts", "_size", "is_done")

    def __init__(self) -> None:
        self._parts: list[tuple[int, Segment]] = []
        self._size = 0
        self.is_done = False

    def add(self, segment: Segment) -> None:
        """Keep one more segment."""
        if self.is_done or not segment.payload:
            return
        first = self._parts[0][1].seq if self._parts else segment.seq
        distance = (segment.seq - first) & _MASK
        self._parts.append((distance - _MASK - 1 if distance >= _HALF else distance, segment))
        self._size += len(segment.payload)
        if self._size > MAX_HEAD_BYTES:
            self.is_done = True
            self._parts = []

    def before(self, frame: bytes) -> tuple[bytes, Segment, Segment] | None:
        """Return what stands before a frame, and its first and last segments; None for nothing."""
        return self._cut(self._joined().find(len(frame).to_bytes(4) + frame))

    def but(self, unfinished: int) -> tuple[bytes, Segment, Segment] | None:
        """Return all but the beginning of a frame."""
        return self._cut(len(self._joined()) - unfinished)

    def _cut(self, size: int) -> tuple[bytes, Segment, Segment] | None:
        self.is_done = True
        data = self._joined()[: max(size, 0)]
        parts, self._parts = self._parts, []
        return (data, parts[0][1], parts[-1][1]) if data else None

    def _joined(self) -> bytes:
        """Return the bytes from the first on, up to the first that is missing."""
        self._parts.sort(key=lambda part: part[0])
        data = bytearray()
        if self._parts:
            begin = self._parts[0][0]
            for at, segment in self._parts:
                if at - begin > len(data):
                    break
                data += segment.payload[len(data) - (at - begin) :]
        return bytes(data)


def tails(lines: Sequence[Line]) -> Iterator[Fragment]:
    """Yield what stands behind the last frames of connections."""
    for line in lines:
        for direction in (0, 1):
            rest, end = line.rest[direction], line.next_seq[direction]
            if rest and end is not None and line.has_appeared:
                offset, at_ns = line.rest_origin[direction]
                seq = (end - len(rest)) & _MASK
                yield Fragment(line.number, direction, False, seq, rest, offset, at_ns, at_ns)


def batches(
    file: str, lines: Sequence[Line], fragments: Sequence[Fragment], options: Options
) -> Iterator[pa.RecordBatch]:
    """Yield the table of fragments."""
    if not fragments:
        return
    ends = Ends(lines)
    sizes = np.array([len(each.payload) for each in fragments])
    for part in slices(sizes, options.batch_rows, options.batch_bytes):
        some = fragments[part]

        def numbers(name: str, some: Sequence[Fragment] = some) -> Ints:
            return np.array([getattr(each, name) for each in some], np.int64)

        columns = {
            "file": pa.repeat(pa.scalar(file), len(some)),
            "offset": pa.array(numbers("offset")),
            "ts": times(numbers("at_ns")),
            "until": times(numbers("until_ns")),
            **ends.columns(numbers("line")),
            "direction": pa.array(numbers("direction").astype(np.int8)),
            "is_head": pa.array([each.is_head for each in some]),
            "seq": pa.array(numbers("seq")),
            "payload": pa.array([each.payload for each in some], pa.binary()),
        }
        yield batch(FRAGMENTS, columns)
