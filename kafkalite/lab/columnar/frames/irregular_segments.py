"""`IrregularSegments`: passes the segments of irregular connections to the scalar code."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.formats import capture_files
from kafkalite.capture.reading.captures import MAX_BUFFERED_BYTES
from kafkalite.capture.reading.conversation import CaptureContext
from kafkalite.capture.reading.packets import SYN, Segment
from kafkalite.lab.columnar.arrays import read_uint32_be, true_indexes
from kafkalite.lab.columnar.files.pcapng import comment_of
from kafkalite.lab.columnar.frames.frame_index import FrameIndex
from kafkalite.lab.columnar.frames.irregular_connections import (
    FIRST_REQUEST,
    IrregularConnection,
    RegularState,
)
from kafkalite.lab.columnar.segments.connection_state import CLOSED, RECOGNIZED
from kafkalite.lab.columnar.segments.packets import ACKNOWLEDGMENT_OFFSET, Segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.capture.model import Problem
    from kafkalite.lab.columnar.arrays import Ints
    from kafkalite.lab.columnar.frames.frame_index import FrameBuffer
    from kafkalite.lab.columnar.frames.irregular_connections import ReassembledFrame
    from kafkalite.lab.columnar.frames.partial_frames import Fragment
    from kafkalite.lab.columnar.segments.connection_state import ConnectionState
    from kafkalite.lab.columnar.segments.connections import ChunkPackets, Connections


class IrregularSegments:
    """The irregular connections of one file."""

    def __init__(
        self,
        file: str,
        connections: Connections,
        report: Callable[[Problem], None],
        open_requests: Callable[[int], Sequence[bytes]],
    ) -> None:
        self._file = file
        self._connections = connections
        self._context = CaptureContext(report=report)
        self._open_requests = open_requests
        self._irregular: dict[int, IrregularConnection] = {}
        """By the number of the first irregular connection between two endpoints."""
        self._interfaces: list[capture_files.Interface] = []
        self._regular_again: list[IrregularConnection] = []
        self._pending_frames = _PendingFrames()
        self._gap_times = _GapTimes()
        self._now_ns = 0

    def process(
        self,
        chunk: ChunkPackets,
        ack_only: Segments,
        direction_ids: Ints,
        *,
        offset: int,
        irregular_numbers: set[int],
        buffer: FrameBuffer,
    ) -> FrameIndex:
        """Return the frames of the irregular connections in this chunk.

        `direction_ids` is the direction of each segment; `ack_only` are segments that only
        acknowledge.
        """
        self._now_ns = int(chunk.packets.at_ns[-1]) if len(chunk.packets) else self._now_ns
        for each in chunk.interfaces[len(self._interfaces) :]:
            comment = each.comments[0] if each.comments else None
            self._interfaces.append(capture_files.Interface(each.link_type, each.name, comment))
        opening = set((direction_ids[chunk.segments.flags & SYN != 0] >> 1).tolist())
        states = self._connections.states
        # After the end of a connection, only a SYN matters. The next connection between the same
        # endpoints has no state of its own before its first frame.
        irregular_numbers = {
            each
            for each in irregular_numbers
            if not states[each].is_marked(CLOSED)
            or each in opening
            or ((current := states[each].irregular) is not None and current.is_open)
        }
        sorted_frames = _SortedFrames(self._pending_frames, buffer)
        if irregular_numbers:
            irregular = {
                number: self._irregular_connection(number, chunk) for number in irregular_numbers
            }
            for segment, packet, number in self._segments(
                chunk, ack_only, direction_ids, offset, irregular_numbers
            ):
                connection = irregular[number]
                sorted_frames.add(connection.process(segment))
                self._gap_times.update(connection)
                sorted_frames.release(self._gap_times.earliest_ns, packet)
        is_forced = self._pending_frames.size > MAX_BUFFERED_BYTES
        for connection in self._irregular.values():
            sorted_frames.add(connection.skip_gaps(self._now_ns, is_forced=is_forced))
            self._gap_times.update(connection)
        sorted_frames.release(self._gap_times.earliest_ns, len(chunk.packets))
        self._return_regular_connections()
        return sorted_frames.frame_index()

    def finish(self, buffer: FrameBuffer) -> FrameIndex:
        """Return the remaining frames at the end of the file."""
        sorted_frames = _SortedFrames(self._pending_frames, buffer)
        for connection in self._irregular.values():
            # A regular connection may continue in another file: store its state first.
            connection.update_state()
            sorted_frames.add(connection.finish(self._now_ns))
        sorted_frames.release(None, 0)
        return sorted_frames.frame_index()

    def fragments(self) -> Iterator[Fragment]:
        """Yield the bytes before the first frames of connections."""
        for connection in (*self._regular_again, *self._irregular.values()):
            yield from connection.fragments

    def _return_regular_connections(self) -> None:
        """Let connections that are regular again be processed in columns."""
        pending_connections = {frame.connection_index for _, _, frame in self._pending_frames.heap}
        for number, connection in list(self._irregular.items()):
            state = None if connection.number in pending_connections else connection.update_state()
            if state is not None:
                state.irregular = None
                del self._irregular[number]
                if connection.fragments:
                    self._regular_again.append(connection)
                self._gap_times.remove(connection)

    def _irregular_connection(self, number: int, chunk: ChunkPackets) -> IrregularConnection:
        state = self._connections.states[number]
        if state.irregular is None:
            regular_state = self._regular_state(state, chunk)
            state.irregular = IrregularConnection(
                self._file, state, self._connections, self._context, regular_state
            )
            self._irregular[number] = state.irregular
        return state.irregular

    def _regular_state(self, state: ConnectionState, chunk: ChunkPackets) -> RegularState | None:
        """Return the state of a connection that was regular until now; None for a new one."""
        is_known = state.is_marked(RECOGNIZED)
        has_state = (
            state.next_seqs.min() >= 0
            if is_known
            else state.has_opening and state.next_seqs[0] >= 0  # only SYN segments until now
        )
        if not has_state or not len(chunk.packets):
            return None
        requests = [FIRST_REQUEST, *self._open_requests(state.number)] if is_known else []
        return RegularState(self._interfaces[int(chunk.packets.interface[0])], requests)

    def _segments(
        self,
        chunk: ChunkPackets,
        ack_only: Segments,
        direction_ids: Ints,
        offset: int,
        irregular_numbers: set[int],
    ) -> Iterator[tuple[Segment, int, int]]:
        """Yield segments of irregular connections in order, with packet and connection number."""
        selected = true_indexes(np.isin(direction_ids >> 1, list(irregular_numbers)))
        parts, direction_id_parts = [chunk.segments.select(selected)], [direction_ids[selected]]
        if len(ack_only):
            known = self._connections.known_direction_ids(chunk.data, ack_only)
            selected_acks = true_indexes(np.isin(known >> 1, list(irregular_numbers)))
            parts.append(ack_only.select(selected_acks))
            direction_id_parts.append(known[selected_acks])
        segments, segment_direction_ids = (
            Segments.concatenate(parts),
            np.concatenate(direction_id_parts),
        )
        order = np.argsort(segments.packet, kind="stable")
        segments, segment_direction_ids = segments.select(order), segment_direction_ids[order]
        acks = read_uint32_be(chunk.data, segments.tcp_start + ACKNOWLEDGMENT_OFFSET).tolist()
        packets, data = chunk.packets, chunk.data
        states = self._connections.states
        # The next frame may swap client and broker, so their flows are looked up first.
        flows = {
            each: states[each >> 1].flows[each & 1]
            for each in np.unique(segment_direction_ids).tolist()
        }
        for row, (packet, direction_id, ack) in enumerate(
            zip(segments.packet.tolist(), segment_direction_ids.tolist(), acks, strict=True)
        ):
            start, size = int(segments.start[row]), int(segments.size[row])
            segment = Segment(
                int(packets.at_ns[packet]), flows[direction_id], int(segments.seq[row]), ack,
                int(segments.flags[row]), data[start : start + size].tobytes(),
                int(segments.missing_bytes[row]), self._file,
                offset + int(packets.block_start[packet]),
                self._interfaces[int(packets.interface[packet])],
                comment_of(data, packets, packet),
            )  # fmt: skip
            yield segment, packet, direction_id >> 1


class _GapTimes:
    """The times since which connections wait for missing bytes."""

    __slots__ = ("_heap", "_number", "_since")

    def __init__(self) -> None:
        self._since: dict[IrregularConnection, int] = {}
        # Outdated entries are removed when they come first.
        self._heap: list[tuple[int, int, IrregularConnection]] = []
        self._number = 0

    def update(self, connection: IrregularConnection) -> None:
        """Update the time since which a connection waits; remove it if it does not wait."""
        if connection.buffered_since_ns is None:
            self.remove(connection)
        elif self._since.get(connection) != connection.buffered_since_ns:
            self._since[connection] = connection.buffered_since_ns
            self._number += 1
            heappush(self._heap, (connection.buffered_since_ns, self._number, connection))
            if len(self._heap) > 2 * len(self._since) + _MAX_OUTDATED_ENTRIES:
                self._heap = [each for each in self._heap if self._is_current(each)]
                heapify(self._heap)

    def remove(self, connection: IrregularConnection) -> None:
        """Remove a connection."""
        self._since.pop(connection, None)

    @property
    def earliest_ns(self) -> int | None:
        """Time of the earliest buffered bytes of all connections; None if nothing is buffered."""
        while self._heap and not self._is_current(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _is_current(self, entry: tuple[int, int, IrregularConnection]) -> bool:
        buffered_since_ns, _, connection = entry
        return self._since.get(connection) == buffered_since_ns


_MAX_OUTDATED_ENTRIES: Final = 64


class _PendingFrames:
    """Frames for which an earlier frame may still follow, sorted by time."""

    __slots__ = ("added_count", "heap", "size")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, ReassembledFrame]] = []
        self.added_count = 0
        self.size = 0


class _SortedFrames:
    """Sorts frames by time; a frame is released when no earlier one can follow."""

    __slots__ = ("_buffer", "_pending_frames", "_rows")

    def __init__(self, pending_frames: _PendingFrames, buffer: FrameBuffer) -> None:
        self._pending_frames = pending_frames
        self._buffer = buffer
        self._rows: list[tuple[int, ...]] = []

    def add(self, frames: Sequence[ReassembledFrame]) -> None:
        """Buffer frames."""
        pending_frames = self._pending_frames
        for frame in frames:
            heappush(pending_frames.heap, (frame.at_ns, pending_frames.added_count, frame))
            pending_frames.added_count += 1
            pending_frames.size += len(frame.body)

    def release(self, earliest_ns: int | None, packet: int) -> None:
        """Release the frames before `earliest_ns`, all if it is None."""
        pending_frames, heap, rows = self._pending_frames, self._pending_frames.heap, self._rows
        while heap and (earliest_ns is None or heap[0][0] < earliest_ns):
            frame = heappop(heap)[2]
            pending_frames.size -= len(frame.body)
            at = self._buffer.add(np.frombuffer(frame.body, np.uint8))
            # Frames of one packet are in the order of their completion.
            position = max(packet, rows[-1][-1] + 1) if rows else packet
            rows.append(
                (
                    frame.connection_index,
                    frame.direction,
                    at,
                    len(frame.body),
                    frame.offset,
                    frame.at_ns,
                    frame.request_seq,
                    position,
                )
            )

    def frame_index(self) -> FrameIndex:
        """Return the released frames."""
        columns = np.ascontiguousarray(np.array(self._rows, np.int64).T)
        return FrameIndex(*columns) if self._rows else FrameIndex()
