"""Fragments: bytes before the first and after the last complete frame of a connection in a file.

A frame may begin in one file and end in the next. These bytes are rows of the table of fragments,
and `stitching` combines them with those of other files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kafkalite.lab.columnar.frames.table_rows import slices, table_batch, time_column
from kafkalite.lab.columnar.segments.connection_state import HAS_FRAMES
from kafkalite.lab.columnar.tables import FRAGMENTS
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.capture.reading.packets import Segment
    from kafkalite.lab.columnar.arrays import Ints
    from kafkalite.lab.columnar.options import Options
    from kafkalite.lab.columnar.segments.connection_state import ConnectionState
    from kafkalite.lab.columnar.segments.endpoints import EndpointColumns

MAX_HEAD_BYTES: Final = 4 << 20
"""Maximum buffered bytes while no frame is found; the same limit as in the scalar code."""
_SEQ_MASK, _HALF_SEQ_RANGE = 0xFFFFFFFF, 0x80000000


class Fragment(NamedTuple):
    """Bytes of one direction of a connection."""

    connection_index: int
    direction: int
    is_before_first_frame: bool
    seq: int
    payload: bytes
    offset: int
    at_ns: int
    until_ns: int
    acknowledged: int | None = None
    """The number that its packet acknowledges; None if it is unknown."""


class Piece(NamedTuple):
    """The bytes of a segment that no earlier segment had."""

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
        first_seq = self._parts[0][1].seq if self._parts else segment.seq
        distance = (segment.seq - first_seq) & _SEQ_MASK
        self._parts.append(
            (distance - _SEQ_MASK - 1 if distance >= _HALF_SEQ_RANGE else distance, segment)
        )
        self._size += len(segment.payload)
        if self._size > MAX_HEAD_BYTES:
            self.is_done = True
            self._parts = []

    def bytes_before(self, frame: bytes) -> list[Piece]:
        """Return the bytes before a frame."""
        pieces = self._pieces()
        data = b"".join(piece.payload for piece in pieces)
        return self._take_first(pieces, data.find(len(frame).to_bytes(4) + frame))

    def all_but_last(self, size: int) -> list[Piece]:
        """Return all bytes except the last `size`."""
        pieces = self._pieces()
        return self._take_first(pieces, sum(len(piece.payload) for piece in pieces) - size)

    def _take_first(self, pieces: Sequence[Piece], size: int) -> list[Piece]:
        self.is_done = True
        self._parts = []
        selected = []
        for piece in pieces:
            if size <= 0:
                break
            selected.append(piece._replace(payload=piece.payload[:size]))
            size -= len(piece.payload)
        return selected

    def _pieces(self) -> list[Piece]:
        """Return the received bytes up to the first missing byte, without repeated bytes."""
        self._parts.sort(key=lambda part: part[0])
        pieces: list[Piece] = []
        first_seq = self._parts[0][1].seq if self._parts else 0
        begin = contiguous_end = self._parts[0][0] if self._parts else 0
        for at, segment in self._parts:
            if at > contiguous_end:
                break
            new_bytes = segment.payload[contiguous_end - at :]
            if new_bytes:
                pieces.append(
                    Piece((first_seq + contiguous_end - begin) & _SEQ_MASK, new_bytes, segment)
                )
                contiguous_end += len(new_bytes)
        return pieces


def tail_fragments(states: Sequence[ConnectionState]) -> Iterator[Fragment]:
    """Yield the bytes after the last frames of connections."""
    for state in states:
        for direction in (0, 1):
            (partial_bytes, offset, at_ns), end = (
                state.partial_frame(direction),
                int(state.next_seqs[direction]),
            )
            if partial_bytes and end >= 0 and state.is_marked(HAS_FRAMES):
                seq = (end - len(partial_bytes)) & _SEQ_MASK
                yield Fragment(
                    state.number, direction, False, seq, partial_bytes, offset, at_ns, at_ns
                )


def fragment_batches(
    file: str, endpoints: EndpointColumns, fragments: Sequence[Fragment], options: Options
) -> Iterator[pa.RecordBatch]:
    """Yield the table of fragments in batches."""
    if not fragments:
        return
    sizes = np.array([len(each.payload) for each in fragments])
    for part in slices(sizes, options.batch_rows, options.batch_bytes):
        part_fragments = fragments[part]

        def int_column(name: str, part_fragments: Sequence[Fragment] = part_fragments) -> Ints:
            return np.array([getattr(each, name) for each in part_fragments], np.int64)

        columns = {
            "file": pa.repeat(pa.scalar(file), len(part_fragments)),
            "offset": pa.array(int_column("offset")),
            "ts": time_column(int_column("at_ns")),
            "end_ts": time_column(int_column("until_ns")),
            **endpoints.columns(int_column("connection_index")),
            "direction": pa.array(int_column("direction").astype(np.int8)),
            "is_before_first_frame": pa.array(
                [each.is_before_first_frame for each in part_fragments]
            ),
            "seq": pa.array(int_column("seq")),
            "payload": pa.array([each.payload for each in part_fragments], pa.binary()),
            "acknowledged": pa.array([each.acknowledged for each in part_fragments], pa.int64()),
        }
        yield table_batch(FRAGMENTS, columns)
