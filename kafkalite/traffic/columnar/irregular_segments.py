"""`IrregularSegments`: passes the segments of irregular connections to the scalar code."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.traffic.columnar.arrays import u32be, where
from kafkalite.traffic.columnar.connection_state import CLOSED, RECOGNIZED
from kafkalite.traffic.columnar.frame_index import FrameIndex
from kafkalite.traffic.columnar.irregular_connections import IrregularConnection, Start
from kafkalite.traffic.columnar.packets import Segments
from kafkalite.traffic.columnar.pcapng import comment_of
from kafkalite.traffic.formats import capture_files
from kafkalite.traffic.scalar.conversation import CaptureContext
from kafkalite.traffic.scalar.packets import SYN, Segment
from kafkalite.traffic.scalar.reading import MAX_BUFFERED_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.traffic.columnar.arrays import Ints
    from kafkalite.traffic.columnar.connection_state import ConnectionState
    from kafkalite.traffic.columnar.connections import ChunkPackets, Connections
    from kafkalite.traffic.columnar.frame_index import Buffer
    from kafkalite.traffic.columnar.irregular_connections import FoundFrame
    from kafkalite.traffic.columnar.partial_frames import Fragment
    from kafkalite.traffic.model import Problem


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
        self._done: list[IrregularConnection] = []
        self._frame_buffer = _FrameBuffer()
        self._gap_times = _GapTimes()
        self._now_ns = 0

    def take(
        self,
        chunk: ChunkPackets,
        ack_only: Segments,
        direction_ids: Ints,
        *,
        offset: int,
        irregular_numbers: set[int],
        buffer: Buffer,
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
        # After the end of a connection, only a SYN matters.
        irregular_numbers = {
            each
            for each in irregular_numbers
            if not states[each].is_marked(CLOSED) or each in opening
        }
        sorted_frames = _SortedFrames(self._frame_buffer, buffer)
        if irregular_numbers:
            irregular = {
                number: self._irregular_connection(number, chunk) for number in irregular_numbers
            }
            for segment, packet, number in self._segments(
                chunk, ack_only, direction_ids, offset, irregular_numbers
            ):
                connection = irregular[number]
                sorted_frames.add(connection.take(segment))
                self._gap_times.update(connection)
                sorted_frames.release(self._gap_times.low_ns, packet)
        is_forced = self._frame_buffer.size > MAX_BUFFERED_BYTES
        for connection in self._irregular.values():
            sorted_frames.add(connection.skip_gaps(self._now_ns, is_forced=is_forced))
            self._gap_times.update(connection)
        sorted_frames.release(self._gap_times.low_ns, len(chunk.packets))
        self._hand_over()
        return sorted_frames.found()

    def finish(self, buffer: Buffer) -> FrameIndex:
        """Return the remaining frames at the end of the file."""
        sorted_frames = _SortedFrames(self._frame_buffer, buffer)
        for connection in self._irregular.values():
            # A regular connection may continue in another file: store its state first.
            connection.hand_over()
            sorted_frames.add(connection.finish(self._now_ns))
        sorted_frames.release(None, 0)
        return sorted_frames.found()

    def fragments(self) -> Iterator[Fragment]:
        """Yield the bytes before the first frames of connections."""
        for connection in (*self._done, *self._irregular.values()):
            yield from connection.fragments

    def _hand_over(self) -> None:
        """Return connections that are regular again to columnar processing."""
        frame_buffer = {frame.connection_index for _, _, frame in self._frame_buffer.heap}
        for number, connection in list(self._irregular.items()):
            state = None if connection.number in frame_buffer else connection.hand_over()
            if state is not None:
                state.irregular = None
                del self._irregular[number]
                if connection.fragments:
                    self._done.append(connection)
                self._gap_times.remove(connection)

    def _irregular_connection(self, number: int, chunk: ChunkPackets) -> IrregularConnection:
        state = self._connections.states[number]
        if state.irregular is None:
            start = self._start(state, chunk)
            state.irregular = IrregularConnection(
                self._file, state, self._connections, self._context, start
            )
            self._irregular[number] = state.irregular
        return state.irregular

    def _start(self, state: ConnectionState, chunk: ChunkPackets) -> Start | None:
        """Return the state of a connection that was regular so far; None for a new one."""
        is_known = state.next_seqs.min() >= 0 and state.is_marked(RECOGNIZED)
        if not is_known or not len(chunk.packets):
            return None
        return Start(
            self._interfaces[int(chunk.packets.interface[0])], self._open_requests(state.number)
        )

    def _segments(
        self,
        chunk: ChunkPackets,
        ack_only: Segments,
        direction_ids: Ints,
        offset: int,
        irregular_numbers: set[int],
    ) -> Iterator[tuple[Segment, int, int]]:
        """Yield the segments of some connections in order, with packet and connection number."""
        chosen = where(np.isin(direction_ids >> 1, list(irregular_numbers)))
        parts, sides = [chunk.segments.picked(chosen)], [direction_ids[chosen]]
        if len(ack_only):
            known = self._connections.known(chunk.data, ack_only)
            more = where(np.isin(known >> 1, list(irregular_numbers)))
            parts.append(ack_only.picked(more))
            sides.append(known[more])
        segments, side = Segments.joined(parts), np.concatenate(sides)
        order = np.argsort(segments.packet, kind="stable")
        segments, side = segments.picked(order), side[order]
        acks = u32be(chunk.data, segments.tcp + 8).tolist()
        packets, data = chunk.packets, chunk.data
        states = self._connections.states
        # The next frame may swap client and broker, so their flows are looked up first.
        names = {each: states[each >> 1].flows[each & 1] for each in np.unique(side).tolist()}
        for row, (packet, direction_id, ack) in enumerate(
            zip(segments.packet.tolist(), side.tolist(), acks, strict=True)
        ):
            start, size = int(segments.start[row]), int(segments.size[row])
            segment = Segment(
                int(packets.at_ns[packet]), names[direction_id], int(segments.seq[row]), ack,
                int(segments.flags[row]), data[start : start + size].tobytes(),
                int(segments.missing[row]), self._file, offset + int(packets.at[packet]),
                self._interfaces[int(packets.interface[packet])],
                comment_of(data, packets, packet),
            )  # fmt: skip
            yield segment, packet, direction_id >> 1


class _GapTimes:
    """The times since which connections wait for missing bytes, and the earliest of them."""

    __slots__ = ("_heap", "_number", "_since")

    def __init__(self) -> None:
        self._since: dict[IrregularConnection, int] = {}
        # Outdated entries are removed when they come first.
        self._heap: list[tuple[int, int, IrregularConnection]] = []
        self._number = 0

    def update(self, connection: IrregularConnection) -> None:
        """Update the time since which a connection waits; remove it if it does not wait."""
        if connection.since_ns is None:
            self.remove(connection)
        elif self._since.get(connection) != connection.since_ns:
            self._since[connection] = connection.since_ns
            self._number += 1
            heappush(self._heap, (connection.since_ns, self._number, connection))
            if len(self._heap) > 2 * len(self._since) + _MAX_OUTDATED:
                self._heap = [each for each in self._heap if self._holds(each)]
                heapify(self._heap)

    def remove(self, connection: IrregularConnection) -> None:
        """Remove a connection."""
        self._since.pop(connection, None)

    @property
    def low_ns(self) -> int | None:
        """Time of the earliest buffered bytes."""
        while self._heap and not self._holds(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _holds(self, entry: tuple[int, int, IrregularConnection]) -> bool:
        since_ns, _, connection = entry
        return self._since.get(connection) == since_ns


_MAX_OUTDATED: Final = 64


class _FrameBuffer:
    """Frames that wait for earlier ones."""

    __slots__ = ("heap", "number", "size")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, FoundFrame]] = []
        self.number = 0
        self.size = 0


class _SortedFrames:
    """Sorts frames by time; a frame is released when no earlier one can follow."""

    __slots__ = ("_buffer", "_frame_buffer", "_rows")

    def __init__(self, frame_buffer: _FrameBuffer, buffer: Buffer) -> None:
        self._frame_buffer = frame_buffer
        self._buffer = buffer
        self._rows: list[tuple[int, ...]] = []

    def add(self, frames: Sequence[FoundFrame]) -> None:
        """Buffer frames."""
        frame_buffer = self._frame_buffer
        for frame in frames:
            heappush(frame_buffer.heap, (frame.at_ns, frame_buffer.number, frame))
            frame_buffer.number += 1
            frame_buffer.size += len(frame.body)

    def release(self, low_ns: int | None, packet: int) -> None:
        """Release the frames before `low_ns`, all if it is None."""
        frame_buffer, heap, rows = self._frame_buffer, self._frame_buffer.heap, self._rows
        while heap and (low_ns is None or heap[0][0] < low_ns):
            frame = heappop(heap)[2]
            frame_buffer.size -= len(frame.body)
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
                    position,
                )
            )

    def found(self) -> FrameIndex:
        """Return the released frames."""
        columns = np.ascontiguousarray(np.array(self._rows, np.int64).T)
        return FrameIndex(*columns) if self._rows else FrameIndex()
