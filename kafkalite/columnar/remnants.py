"""Bytes of a file that are no whole frames in it: what connections began, or end, within.

A frame may begin in one file and end in the next. What a file has before the first frame it can
recognise, and behind the last, is given out, to be put together with what other files have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.columnar.lines import APPEARED
from kafkalite.columnar.rows import batch, slices, times
from kafkalite.columnar.tables import FRAGMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.capture.packets import Segment
    from kafkalite.columnar.arrays import Ints
    from kafkalite.columnar.ends import Ends
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


class Piece(NamedTuple):
    """What a segment says that none before it has said."""

    seq: int
    payload: bytes
    segment: Segment


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

    def before(self, frame: bytes) -> list[Piece]:
        """Return what stands before a frame."""
        pieces = self._pieces()
        data = b"".join(piece.payload for piece in pieces)
        return self._cut(pieces, data.find(len(frame).to_bytes(4) + frame))

    def but(self, unfinished: int) -> list[Piece]:
        """Return all but the beginning of a frame."""
        pieces = self._pieces()
        return self._cut(pieces, sum(len(piece.payload) for piece in pieces) - unfinished)

    def _cut(self, pieces: Sequence[Piece], size: int) -> list[Piece]:
        self.is_done = True
        self._parts = []
        found = []
        for piece in pieces:
            if size <= 0:
                break
            found.append(piece._replace(payload=piece.payload[:size]))
            size -= len(piece.payload)
        return found

    def _pieces(self) -> list[Piece]:
        """Return the bytes from the first on, up to the first that is missing."""
        self._parts.sort(key=lambda part: part[0])
        found: list[Piece] = []
        first = self._parts[0][1].seq if self._parts else 0
        begin = have = self._parts[0][0] if self._parts else 0
        for at, segment in self._parts:
            if at > have:
                break
            fresh = segment.payload[have - at :]
            if fresh:
                found.append(Piece((first + have - begin) & _MASK, fresh, segment))
                have += len(fresh)
        return found


def tails(lines: Sequence[Line]) -> Iterator[Fragment]:
    """Yield what stands behind the last frames of connections."""
    for line in lines:
        for direction in (0, 1):
            (rest, offset, at_ns), end = line.rest(direction), int(line.next_seqs[direction])
            if rest and end >= 0 and line.is_marked(APPEARED):
                seq = (end - len(rest)) & _MASK
                yield Fragment(line.number, direction, False, seq, rest, offset, at_ns, at_ns)


def batches(
    file: str, ends: Ends, fragments: Sequence[Fragment], options: Options
) -> Iterator[pa.RecordBatch]:
    """Yield the table of fragments."""
    if not fragments:
        return
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
