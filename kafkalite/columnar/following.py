"""The connections of a chunk that are not in order: their segments, fed to the exact way."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture import blocks
from kafkalite.capture.dialogue import Setting
from kafkalite.capture.packets import SYN, Segment
from kafkalite.capture.reading import MAX_HELD_BYTES
from kafkalite.columnar.arrays import u32be, where
from kafkalite.columnar.blocks import comment_of
from kafkalite.columnar.exact import Exact, Start
from kafkalite.columnar.found import Found
from kafkalite.columnar.lines import JUDGED, OVER
from kafkalite.columnar.packets import Segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.capture.model import Problem
    from kafkalite.columnar.arrays import Ints
    from kafkalite.columnar.connections import Connections, Seen
    from kafkalite.columnar.exact import Told
    from kafkalite.columnar.found import Buffer
    from kafkalite.columnar.lines import Line
    from kafkalite.columnar.remnants import Fragment


class Following:
    """Every connection of one file that is followed segment by segment."""

    def __init__(
        self,
        file: str,
        connections: Connections,
        report: Callable[[Problem], None],
        asked: Callable[[int], Sequence[bytes]],
    ) -> None:
        self._file = file
        self._connections = connections
        self._setting = Setting(report=report)
        self._asked = asked
        self._followed: dict[int, Exact] = {}
        """By the number of the connection, the first between its ends that was out of order."""
        self._interfaces: list[blocks.Interface] = []
        self._done: list[Exact] = []
        self._held = _Held()
        self._waiting = _Waiting()
        self._now_ns = 0

    def take(
        self,
        seen: Seen,
        silent: Segments,
        groups: Ints,
        *,
        offset: int,
        odd: set[int],
        buffer: Buffer,
    ) -> Found:
        """Return the frames of connections that are out of order in this chunk.

        `groups` says of each segment whose it is; `silent` are segments that say nothing.
        """
        self._now_ns = int(seen.packets.at_ns[-1]) if len(seen.packets) else self._now_ns
        for each in seen.interfaces[len(self._interfaces) :]:
            comment = each.comments[0] if each.comments else None
            self._interfaces.append(blocks.Interface(each.link_type, each.name, comment))
        opening = set((groups[seen.segments.flags & SYN != 0] >> 1).tolist())
        lines = self._connections.lines
        # Behind the end of a connection nothing is of interest but the opening of another.
        odd = {each for each in odd if not lines[each].is_marked(OVER) or each in opening}
        waiting = _Ordered(self._held, buffer)
        if odd:
            ways = {number: self._way(number, seen) for number in odd}
            for segment, packet, number in self._segments(seen, silent, groups, offset, odd):
                way = ways[number]
                waiting.add(way.take(segment))
                self._waiting.note(way)
                waiting.release(self._waiting.low_ns, packet)
        at_all = self._held.size > MAX_HELD_BYTES
        for way in self._followed.values():
            waiting.add(way.wait_no_longer(self._now_ns, at_all=at_all))
            self._waiting.note(way)
        waiting.release(self._waiting.low_ns, len(seen.packets))
        self._hand_over()
        return waiting.found()

    def finish(self, buffer: Buffer) -> Found:
        """Return what is left at the end of the file."""
        waiting = _Ordered(self._held, buffer)
        for way in self._followed.values():
            # What is in order to its end may go on in another file: that is not to be forgotten.
            way.hand_over()
            waiting.add(way.finish(self._now_ns))
        waiting.release(None, 0)
        return waiting.found()

    def fragments(self) -> Iterator[Fragment]:
        """Yield what stood before the first frames of connections."""
        for way in (*self._done, *self._followed.values()):
            yield from way.fragments

    def _hand_over(self) -> None:
        """Give connections that are in order again back to those followed in columns."""
        held = {told.line for _, _, told in self._held.heap}
        for number, way in list(self._followed.items()):
            line = None if way.number in held else way.hand_over()
            if line is not None:
                line.exact = None
                del self._followed[number]
                if way.fragments:
                    self._done.append(way)
                self._waiting.forget(way)

    def _way(self, number: int, seen: Seen) -> Exact:
        line = self._connections.lines[number]
        if line.exact is None:
            start = self._start(line, seen)
            line.exact = Exact(self._file, line, self._connections, self._setting, start)
            self._followed[number] = line.exact
        return line.exact

    def _start(self, line: Line, seen: Seen) -> Start | None:
        """Return what is known of a connection that was in order so far; None for a new one."""
        is_known = line.next_seqs.min() >= 0 and line.is_marked(JUDGED)
        if not is_known or not len(seen.packets):
            return None
        return Start(self._interfaces[int(seen.packets.interface[0])], self._asked(line.number))

    def _segments(
        self, seen: Seen, silent: Segments, groups: Ints, offset: int, odd: set[int]
    ) -> Iterator[tuple[Segment, int, int]]:
        """Yield segments of some connections, in order, with their packets and whose they are."""
        chosen = where(np.isin(groups >> 1, list(odd)))
        parts, sides = [seen.segments.picked(chosen)], [groups[chosen]]
        if len(silent):
            known = self._connections.known(seen.data, silent)
            more = where(np.isin(known >> 1, list(odd)))
            parts.append(silent.picked(more))
            sides.append(known[more])
        segments, side = Segments.joined(parts), np.concatenate(sides)
        order = np.argsort(segments.packet, kind="stable")
        segments, side = segments.picked(order), side[order]
        acks = u32be(seen.data, segments.tcp + 8).tolist()
        packets, data = seen.packets, seen.data
        lines = self._connections.lines
        # A connection may turn round when it appears: whose a flow is was said before.
        names = {each: lines[each >> 1].flows[each & 1] for each in np.unique(side).tolist()}
        for row, (packet, group, ack) in enumerate(
            zip(segments.packet.tolist(), side.tolist(), acks, strict=True)
        ):
            start, size = int(segments.start[row]), int(segments.size[row])
            segment = Segment(
                int(packets.at_ns[packet]), names[group], int(segments.seq[row]), ack,
                int(segments.flags[row]), data[start : start + size].tobytes(),
                int(segments.missing[row]), self._file, offset + int(packets.at[packet]),
                self._interfaces[int(packets.interface[packet])],
                comment_of(data, packets, packet),
            )  # fmt: skip
            yield segment, packet, group >> 1


class _Waiting:
    """The connections that wait for something, and since when; the earliest is at hand."""

    __slots__ = ("_heap", "_number", "_since")

    def __init__(self) -> None:
        self._since: dict[Exact, int] = {}
        # Some of these times hold no longer: they are taken out when they come first.
        self._heap: list[tuple[int, int, Exact]] = []
        self._number = 0

    def note(self, way: Exact) -> None:
        """Take to mind what a connection waits for by now, if for anything."""
        if way.since_ns is None:
            self.forget(way)
        elif self._since.get(way) != way.since_ns:
            self._since[way] = way.since_ns
            self._number += 1
            heappush(self._heap, (way.since_ns, self._number, way))
            if len(self._heap) > 2 * len(self._since) + _SPARE:
                self._heap = [each for each in self._heap if self._holds(each)]
                heapify(self._heap)

    def forget(self, way: Exact) -> None:
        """Wait for nothing of a connection any more."""
        self._since.pop(way, None)

    @property
    def low_ns(self) -> int | None:
        """The earliest time of which something may yet be told."""
        while self._heap and not self._holds(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _holds(self, entry: tuple[int, int, Exact]) -> bool:
        since_ns, _, way = entry
        return self._since.get(way) == since_ns


_SPARE: Final = 64


class _Held:
    """Frames that wait for those before them."""

    __slots__ = ("heap", "number", "size")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Told]] = []
        self.number = 0
        self.size = 0


class _Ordered:
    """Brings frames into the order of time, as far as something earlier may yet be told."""

    __slots__ = ("_buffer", "_held", "_rows")

    def __init__(self, held: _Held, buffer: Buffer) -> None:
        self._held = held
        self._buffer = buffer
        self._rows: list[tuple[int, ...]] = []

    def add(self, frames: Sequence[Told]) -> None:
        """Let frames wait."""
        held = self._held
        for told in frames:
            heappush(held.heap, (told.at_ns, held.number, told))
            held.number += 1
            held.size += len(told.body)

    def release(self, low_ns: int | None, packet: int) -> None:
        """Take the frames before `low_ns`, all where it is None."""
        held, heap, rows = self._held, self._held.heap, self._rows
        while heap and (low_ns is None or heap[0][0] < low_ns):
            told = heappop(heap)[2]
            held.size -= len(told.body)
            at = self._buffer.add(np.frombuffer(told.body, np.uint8))
            # No two of them are complete at once: their order is that of being told.
            place = max(packet, rows[-1][-1] + 1) if rows else packet
            rows.append(
                (told.line, told.direction, at, len(told.body), told.offset, told.at_ns, place)
            )

    def found(self) -> Found:
        """Return the frames taken."""
        columns = np.ascontiguousarray(np.array(self._rows, np.int64).T)
        return Found(*columns) if self._rows else Found()
