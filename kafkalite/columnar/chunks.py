"""One chunk of a capture → the frames in it: what is in order at once, the rest step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kafkalite.capture.framing import LENGTH_BYTES, MAX_FRAME_BYTES, Verdict
from kafkalite.capture.plausible import first_request
from kafkalite.columnar.arrays import Room, view
from kafkalite.columnar.found import Buffer, Found
from kafkalite.columnar.frames import cut, follow, settle
from kafkalite.columnar.lines import (
    CHUNK,
    FIRST,
    HAVE,
    IS_ODD,
    JUDGED,
    LENGTH,
    MARKS,
    PIECE,
    REST,
    Unfinished,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.captured import Packets
    from kafkalite.columnar.lines import Lines
    from kafkalite.columnar.packets import Segments

_HEAD_BYTES, _HEAD_SEGMENTS = 2048, 4


@dataclass(slots=True)
class Chunk:
    """What is known of a chunk before its frames are."""

    data: Bytes
    offset: int
    packets: Packets
    segments: Segments
    groups: Ints
    """Whose each segment is: twice the number of the connection, and one more for responses."""
    lines: Lines
    """All connections of the file so far."""

    def origin(self, segment: int) -> tuple[int, int]:
        """Return where in the file a segment's packet stands, and its time."""
        packet = int(self.segments.packet[segment])
        return self.offset + int(self.packets.at[packet]), int(self.packets.at_ns[packet])


class Rooms:
    """Memory that one chunk after another is worked on in."""

    __slots__ = ("chunks", "extra", "found", "segments")

    def __init__(self) -> None:
        self.segments, self.found, self.extra = Room(), Room(), Room()
        self.chunks = 0
        """How many there were."""


class ChunkFrames:
    """Finds the frames of connections that are in order; tells which ones are not."""

    def __init__(self, chunk: Chunk, rooms: Rooms) -> None:
        rooms.chunks += 1
        self._chunk, self._rooms, self._number = chunk, rooms, rooms.chunks
        segments, lines, count = chunk.segments, chunk.lines, len(chunk.groups)
        self._follows, met, self._at_ns = rooms.segments.take(3, count)
        np.take(chunk.packets.at_ns, segments.packet, out=self._at_ns)
        size = follow(
            chunk.groups, segments.seq, segments.flags, segments.size, segments.missing,
            self._at_ns, self._number,
            lines.sides, lines.ends, self._follows, met,
        )  # fmt: skip
        self._met = met[:size]
        self._judge_new()
        self._carried: list[int] = []
        """The directions of which the beginning of a frame was kept, by their column REST."""

    @property
    def odd(self) -> set[int]:
        """Numbers of the connections that are for the exact way."""
        numbers = self._met >> 1
        return set(numbers[self._chunk.lines.ends[numbers, IS_ODD] != 0].tolist())

    def find(self, buffer: Buffer) -> Found:
        """Return the frames of all connections that are in order, and carry these on."""
        chunk = self._chunk
        segments, lines = chunk.segments, chunk.lines
        rests, bounds = self._rests()
        room = int(segments.size.sum()) + len(rests)
        found = self._rooms.found.take(6, room // LENGTH_BYTES + 1)
        extra = self._rooms.extra.take(room // 8 + 1, 1).view(np.uint8).ravel()
        count, used = cut(
            chunk.data, chunk.groups, segments.start, segments.size, self._follows, lines.sides,
            lines.ends, rests, bounds, found, extra,
        )  # fmt: skip
        buffer.add(extra[:used])
        frames = self._found(found[:, :count])
        self._settle(rests, bounds)
        return frames

    def _rests(self) -> tuple[Bytes, Ints]:
        """Return the beginnings of frames that earlier chunks kept, and where each begins."""
        lines, kept = self._chunk.lines, self._chunk.lines.rests
        parts = []
        for group in (each for each in self._met.tolist() if each in kept) if kept else ():
            if not lines.ends[group >> 1, IS_ODD]:
                data = kept[group].data
                lines.sides[group, HAVE] = len(data)
                lines.sides[group, LENGTH] = int.from_bytes(data[:LENGTH_BYTES])
                lines.sides[group, REST] = len(self._carried)
                self._carried.append(group)
                parts.append(data)
        bounds = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return view(b"".join(parts)), bounds

    def _found(self, columns: Ints) -> Found:
        chunk, lines = self._chunk, self._chunk.lines
        is_odd = lines.ends[columns[0], IS_ODD] != 0
        if is_odd.any():
            columns = np.ascontiguousarray(columns[:, ~is_odd])
        line, direction, start, size, first, last = columns
        offset = chunk.offset + chunk.packets.at[chunk.segments.packet[first]]
        for row in np.flatnonzero(first < 0).tolist():
            group = 2 * int(line[row]) + int(direction[row])
            offset[row] = lines.rests[group].offset
        return Found(
            line=line,
            direction=direction,
            start=start,
            size=size,
            offset=offset,
            at_ns=self._at_ns[last],
            packet=chunk.segments.packet[last],
        )

    def _settle(self, rests: Bytes, bounds: Ints) -> None:
        """Carry connections on, and keep what has not come whole."""
        chunk, met = self._chunk, self._met
        segments, lines = chunk.segments, chunk.lines
        left = np.empty(int(lines.sides[met, HAVE].sum()), np.uint8)
        stops = np.zeros(len(met) + 1, np.int64)
        settle(
            chunk.data, segments.start, segments.size, self._follows, met, lines.sides,
            lines.ends, rests, bounds, left, stops[1:],
        )  # fmt: skip
        for group in self._carried:
            side = lines.sides[group]
            if not lines.ends[group >> 1, IS_ODD] and side[REST] < 0:
                del lines.rests[group]
        for index in np.flatnonzero(np.diff(stops)).tolist():
            group = int(met[index])
            side, data = lines.sides[group], left[stops[index] : stops[index + 1]].tobytes()
            if side[REST] >= 0:
                lines.rests[group] = lines.rests[group]._replace(data=data)
            else:
                lines.rests[group] = Unfinished(data, *chunk.origin(int(side[PIECE])))

    def _judge_new(self) -> None:
        """Look at the first bytes of connections that have said nothing yet: they are a request's.

        A connection of which that is not so is for the exact way; as is one whose first response
        stands in the file before its first request, which a capture of several queues may do.
        """
        ends, numbers = self._chunk.lines.ends, self._met >> 1
        unknown = (ends[numbers, IS_ODD] == 0) & (ends[numbers, MARKS] & JUDGED == 0)
        for number in np.unique(numbers[unknown]).tolist():
            asked, answered = list(self._head(2 * number)), next(self._head(2 * number + 1), None)
            if asked or answered:
                known = _known_from(asked)
                if known is None or (answered is not None and answered[0] < known):
                    ends[number, IS_ODD] = 1
                else:
                    ends[number, MARKS] |= JUDGED

    def _head(self, group: int) -> Iterator[tuple[int, bytes]]:
        """Yield what a direction says first, with the segments that say it."""
        chunk, segments = self._chunk, self._chunk.segments
        side = chunk.lines.sides[group]
        row = int(side[FIRST]) if side[CHUNK] == self._number else -1
        for _ in range(_HEAD_SEGMENTS):
            if row < 0:
                break
            start, size = int(segments.start[row]), min(int(segments.size[row]), _HEAD_BYTES)
            if size:
                yield row, chunk.data[start : start + size].tobytes()
            row = int(self._follows[row])


def _known_from(asked: Sequence[tuple[int, bytes]]) -> int | None:
    """Return the segment by which a first request is known for one; None where none is."""
    head = b""
    for row, data in asked:
        head += data
        if first_request(head, MAX_FRAME_BYTES) is Verdict.YES:
            return row
    return None
