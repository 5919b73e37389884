"""Bytes before the first and after the last complete frame of a connection in a file.

A frame may begin in one file and end in the next. These bytes are rows of the table of fragments,
and `stitching` combines them with those of other files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.traffic.columnar.connection_state import HAS_FRAMES
from kafkalite.traffic.columnar.table_rows import batch, slices, times
from kafkalite.traffic.columnar.tables import FRAGMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.traffic.columnar.arrays import Ints
    from kafkalite.traffic.columnar.connection_state import ConnectionState
    from kafkalite.traffic.columnar.endpoints import Endpoints
    from kafkalite.traffic.columnar.options import Options
    from kafkalite.traffic.scalar.packets import Segment

MAX_HEAD_BYTES: Final = 4 << 20
"""Maximum buffered bytes while no frame is found: as many as the search of the scalar code."""
_MASK, _HALF = 0xFFFFFFFF, 0x80000000


class Fragment(NamedTuple):
    """Bytes of one direction of a connection."""

    connection_index: int
    direction: int
    is_head: bool
    seq: int
    payload: bytes
    offset: int
    at_ns: int
    until_ns: int


class Piece(NamedTuple):
    """The new bytes of a segment."""

    seq: int
    payload: bytes
    segment: Segment


class Head:
    """The bytes of one direction before its first frame."""

    __slots__ = ("_parts", "_size", "is_done")

    def __init__(self) -> None:
        self._parts: list[tuple[int, Segment]] = []
        self._size = 0
        self.is_done = False

    def add(self, segment: Segment) -> None:
        """Add a segment."""
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
        """Return the bytes before a frame."""
        pieces = self._pieces()
        data = b"".join(piece.payload for piece in pieces)
        return self._cut(pieces, data.find(len(frame).to_bytes(4) + frame))

    def without_last(self, size: int) -> list[Piece]:
        """Return all bytes except the last `size`."""
        pieces = self._pieces()
        return self._cut(pieces, sum(len(piece.payload) for piece in pieces) - size)

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
        """Return the bytes up to the first missing byte."""
        self._parts.sort(key=lambda part: part[0])
        found: list[Piece] = []
        first = self._parts[0][1].seq if self._parts else 0
        begin = contiguous_end = self._parts[0][0] if self._parts else 0
        for at, segment in self._parts:
            if at > contiguous_end:
                break
            fresh = segment.payload[contiguous_end - at :]
            if fresh:
                found.append(Piece((first + contiguous_end - begin) & _MASK, fresh, segment))
                contiguous_end += len(fresh)
        return found


def tails(states: Sequence[ConnectionState]) -> Iterator[Fragment]:
    """Yield the bytes after the last frames of connections."""
    for state in states:
        for direction in (0, 1):
            (rest, offset, at_ns), end = (
                state.partial_frame(direction),
                int(state.next_seqs[direction]),
            )
            if rest and end >= 0 and state.is_marked(HAS_FRAMES):
                seq = (end - len(rest)) & _MASK
                yield Fragment(state.number, direction, False, seq, rest, offset, at_ns, at_ns)


def batches(
    file: str, ends: Endpoints, fragments: Sequence[Fragment], options: Options
) -> Iterator[pa.RecordBatch]:
    """Yield the table of fragments in batches."""
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
            **ends.columns(numbers("connection_index")),
            "direction": pa.array(numbers("direction").astype(np.int8)),
            "is_head": pa.array([each.is_head for each in some]),
            "seq": pa.array(numbers("seq")),
            "payload": pa.array([each.payload for each in some], pa.binary()),
        }
        yield batch(FRAGMENTS, columns)
