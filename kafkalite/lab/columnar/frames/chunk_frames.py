"""`ChunkFrames`: finds the frames of regular connections in one chunk, in columns.

Connections with lost, repeated or reordered segments are irregular. They are processed segment by
segment in `irregular_segments`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kafkalite.capture.reading.framing import LENGTH_BYTES, MAX_FRAME_BYTES, Verdict
from kafkalite.capture.reading.kafka_detection import check_first_request
from kafkalite.lab.columnar.arrays import (
    ReusableArray,
    byte_array,
    read_uint32_be,
    true_indexes,
)
from kafkalite.lab.columnar.frames.frame_index import UNKNOWN_SEQ, FrameBuffer, FrameIndex
from kafkalite.lab.columnar.frames.frames import advance_connections, find_frames, link_segments
from kafkalite.lab.columnar.segments.connection_state import (
    FIRST_ROW,
    FRAME_ROW,
    IS_IRREGULAR,
    LAST_CHUNK,
    LENGTH,
    MARKS,
    PARTIAL_INDEX,
    RECEIVED,
    RECOGNIZED,
    PartialFrame,
)
from kafkalite.lab.columnar.segments.packets import ACK, ACKNOWLEDGMENT_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.lab.columnar.arrays import Bytes, Ints
    from kafkalite.lab.columnar.files.packet_index import Packets
    from kafkalite.lab.columnar.segments.connection_state import ConnectionStates
    from kafkalite.lab.columnar.segments.packets import Segments

_MAX_FIRST_BYTES, _MAX_FIRST_SEGMENTS = 2048, 4


@dataclass(slots=True)
class Chunk:
    """The packets and segments of a chunk."""

    data: Bytes
    offset: int
    packets: Packets
    segments: Segments
    direction_ids: Ints
    """By segment: twice the number of its connection, plus one for responses."""
    states: ConnectionStates
    """All connections of the file that were found until now."""

    def origin(self, segment: int) -> tuple[int, int]:
        """Return the file offset and the time of a segment's packet."""
        packet = int(self.segments.packet[segment])
        return self.offset + int(self.packets.block_start[packet]), int(self.packets.at_ns[packet])


class ChunkMemory:
    """Memory that is reused for each chunk."""

    __slots__ = ("assembled", "chunk_count", "frame_columns", "segments")

    def __init__(self) -> None:
        self.segments, self.frame_columns, self.assembled = (
            ReusableArray(),
            ReusableArray(),
            ReusableArray(),
        )
        self.chunk_count = 0
        """Number of chunks that were processed."""


class ChunkFrames:
    """Finds the frames of regular connections, and marks the irregular ones."""

    def __init__(self, chunk: Chunk, memory: ChunkMemory) -> None:
        memory.chunk_count += 1
        self._chunk, self._memory, self._number = chunk, memory, memory.chunk_count
        segments, states, count = chunk.segments, chunk.states, len(chunk.direction_ids)
        self._next_rows, active, self._at_ns = memory.segments.allocate(3, count)
        np.take(chunk.packets.at_ns, segments.packet, out=self._at_ns)
        size = link_segments(
            chunk.direction_ids, segments.seq, segments.flags, segments.size,
            segments.missing_bytes, self._at_ns, self._number,
            states.direction_rows, states.connection_rows, self._next_rows, active,
        )  # fmt: skip
        self._active = active[:size]
        self._check_first_requests()
        self._continued_directions: list[int] = []
        """Directions with a partial frame of earlier chunks; PARTIAL_INDEX is an index of it."""

    @property
    def irregular(self) -> set[int]:
        """Numbers of the connections that must be processed segment by segment."""
        numbers = self._active >> 1
        return set(numbers[self._chunk.states.connection_rows[numbers, IS_IRREGULAR] != 0].tolist())

    def find(self, buffer: FrameBuffer) -> FrameIndex:
        """Return the frames of all regular connections, and advance the connections."""
        chunk = self._chunk
        segments, states = chunk.segments, chunk.states
        partial, bounds = self._partial_frames()
        max_bytes = int(segments.size.sum()) + len(partial)
        frame_columns = self._memory.frame_columns.allocate(6, max_bytes // LENGTH_BYTES + 1)
        assembled = self._memory.assembled.allocate(max_bytes // 8 + 1, 1).view(np.uint8).ravel()
        count, used = find_frames(
            chunk.data, chunk.direction_ids, segments.start, segments.size, self._next_rows,
            states.direction_rows, states.connection_rows, partial, bounds, frame_columns,
            assembled,
        )  # fmt: skip
        buffer.add(assembled[:used])
        frames = self._frame_index(frame_columns[:, :count])
        self._advance(partial, bounds)
        return frames

    def _partial_frames(self) -> tuple[Bytes, Ints]:
        """Return the partial frames of earlier chunks as one array, and their bounds."""
        states, partial = self._chunk.states, self._chunk.states.partial_frames
        parts = []
        for direction_id in (
            (each for each in self._active.tolist() if each in partial) if partial else ()
        ):
            if not states.connection_rows[direction_id >> 1, IS_IRREGULAR]:
                data = partial[direction_id].data
                states.direction_rows[direction_id, RECEIVED] = len(data)
                states.direction_rows[direction_id, LENGTH] = int.from_bytes(data[:LENGTH_BYTES])
                states.direction_rows[direction_id, PARTIAL_INDEX] = len(self._continued_directions)
                self._continued_directions.append(direction_id)
                parts.append(data)
        bounds = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return byte_array(b"".join(parts)), bounds

    def _frame_index(self, columns: Ints) -> FrameIndex:
        chunk, states = self._chunk, self._chunk.states
        is_irregular = states.connection_rows[columns[0], IS_IRREGULAR] != 0
        if is_irregular.any():
            columns = np.ascontiguousarray(columns[:, ~is_irregular])
        connection_index, direction, start, size, first, last = columns
        offset = chunk.offset + chunk.packets.block_start[chunk.segments.packet[first]]
        for row in np.flatnonzero(first < 0).tolist():
            direction_id = 2 * int(connection_index[row]) + int(direction[row])
            offset[row] = states.partial_frames[direction_id].offset
        return FrameIndex(
            connection_index=connection_index,
            direction=direction,
            start=start,
            size=size,
            offset=offset,
            at_ns=self._at_ns[last],
            request_seq=self._request_seqs(direction, last),
            packet=chunk.segments.packet[last],
        )

    def _request_seqs(self, direction: Ints, last: Ints) -> Ints:
        """Return the column `request_seq` of frames whose last segments are in the rows `last`."""
        data, segments = self._chunk.data, self._chunk.segments
        seqs = segments.seq[last]
        responses = true_indexes(direction == 1)
        rows = last[responses]
        acknowledged = read_uint32_be(data, segments.tcp_start[rows] + ACKNOWLEDGMENT_OFFSET)
        seqs[responses] = np.where(segments.flags[rows] & ACK, acknowledged, UNKNOWN_SEQ)
        return seqs

    def _advance(self, partial: Bytes, bounds: Ints) -> None:
        """Advance the connections, and store their partial frames."""
        chunk, active = self._chunk, self._active
        segments, states = chunk.segments, chunk.states
        remaining = np.empty(int(states.direction_rows[active, RECEIVED].sum()), np.uint8)
        stops = np.zeros(len(active) + 1, np.int64)
        advance_connections(
            chunk.data, segments.start, segments.size, self._next_rows, active,
            states.direction_rows, states.connection_rows, partial, bounds, remaining, stops[1:],
        )  # fmt: skip
        for direction_id in self._continued_directions:
            direction_row = states.direction_rows[direction_id]
            if (
                not states.connection_rows[direction_id >> 1, IS_IRREGULAR]
                and direction_row[PARTIAL_INDEX] < 0
            ):
                del states.partial_frames[direction_id]
        for index in np.flatnonzero(np.diff(stops)).tolist():
            direction_id = int(active[index])
            direction_row, data = (
                states.direction_rows[direction_id],
                remaining[stops[index] : stops[index + 1]].tobytes(),
            )
            if direction_row[PARTIAL_INDEX] >= 0:
                states.partial_frames[direction_id] = states.partial_frames[direction_id]._replace(
                    data=data
                )
            else:
                states.partial_frames[direction_id] = PartialFrame(
                    data, *chunk.origin(int(direction_row[FRAME_ROW]))
                )

    def _check_first_requests(self) -> None:
        """Check that the first bytes of new connections are a request.

        Otherwise the connection is irregular. It is also irregular if its first response is before
        its first request in the file, which happens in captures of several queues.
        """
        connection_rows, numbers = self._chunk.states.connection_rows, self._active >> 1
        unknown = (connection_rows[numbers, IS_IRREGULAR] == 0) & (
            connection_rows[numbers, MARKS] & RECOGNIZED == 0
        )
        for number in np.unique(numbers[unknown]).tolist():
            requests, responses = (
                list(self._first_segments(2 * number)),
                next(self._first_segments(2 * number + 1), None),
            )
            if requests or responses:
                request_row = _first_request_row(requests)
                if request_row is None or (responses is not None and responses[0] < request_row):
                    connection_rows[number, IS_IRREGULAR] = 1
                else:
                    connection_rows[number, MARKS] |= RECOGNIZED

    def _first_segments(self, direction_id: int) -> Iterator[tuple[int, bytes]]:
        """Yield the first segments of a direction, with their rows."""
        chunk, segments = self._chunk, self._chunk.segments
        direction_row = chunk.states.direction_rows[direction_id]
        row = int(direction_row[FIRST_ROW]) if direction_row[LAST_CHUNK] == self._number else -1
        for _ in range(_MAX_FIRST_SEGMENTS):
            if row < 0:
                break
            start, size = int(segments.start[row]), min(int(segments.size[row]), _MAX_FIRST_BYTES)
            if size:
                yield row, chunk.data[start : start + size].tobytes()
            row = int(self._next_rows[row])


def _first_request_row(requests: Sequence[tuple[int, bytes]]) -> int | None:
    """Return the row of the segment that completes the header of the first request, or None."""
    first_bytes = b""
    for row, data in requests:
        first_bytes += data
        if check_first_request(first_bytes, MAX_FRAME_BYTES) is Verdict.YES:
            return row
    return None
