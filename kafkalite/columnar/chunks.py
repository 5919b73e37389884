"""One chunk of a capture → the frames in it: what is in order at once, the rest step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafkalite.capture.framing import LENGTH_BYTES, MAX_FRAME_BYTES, Verdict
from kafkalite.capture.plausible import first_request
from kafkalite.columnar.arrays import Ints, ranges, where
from kafkalite.columnar.found import Buffer, Found
from kafkalite.columnar.frames import Cutter, Pieces, place
from kafkalite.columnar.packets import FIN, RST, SYN
from kafkalite.columnar.streams import streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.columnar.arrays import Bytes
    from kafkalite.columnar.captured import Packets
    from kafkalite.columnar.frames import Cut, Rest
    from kafkalite.columnar.lines import Line
    from kafkalite.columnar.packets import Segments

_HEAD_BYTES = 2048


@dataclass(slots=True)
class Chunk:
    """What is known of a chunk before its frames are."""

    data: Bytes
    offset: int
    packets: Packets
    segments: Segments
    lines: Sequence[Line]
    """All connections of the file so far."""

    def place_of(self, packet: Ints) -> Ints:
        """Return where in the file packets stand."""
        return self.offset + self.packets.at[packet]


class _Look(NamedTuple):
    """What matters of one direction in a chunk."""

    direction: int
    seq: int
    opens: bool
    resets: bool
    last: int
    """The packet of its last segment."""


class ChunkFrames:
    """Finds the frames of connections that are in order; tells which ones are not."""

    def __init__(self, chunk: Chunk, groups: Ints) -> None:
        self._chunk = chunk
        self._streams = streams(chunk.segments, groups)
        self.odd: set[int] = set()
        """Numbers of the connections that are for the exact way."""
        self._before: dict[int, tuple[list[bytes], list[tuple[int, int]]]] = {}

    def find(self, buffer: Buffer) -> Found:
        """Return the frames of all connections that are in order, and carry these on."""
        chosen = self._chosen()
        s, segments = self._streams, self._chunk.segments
        if not len(chosen):
            return Found()
        if len(chosen) == len(s.group):
            rows = s.order
        else:
            rows = s.order[ranges(s.first[chosen], s.first[chosen + 1] - s.first[chosen])]
        counts = s.first[chosen + 1] - s.first[chosen]
        size = segments.size[rows]
        carries = size > 0
        bounds = np.append(0, np.cumsum(counts))
        if not carries.all():
            before = np.append(0, np.cumsum(carries))
            bounds = before[bounds]
            rows, size = rows[carries], size[carries]
        pieces = Pieces(self._chunk.data, segments.start[rows], size)
        ends = np.append(pieces.line, pieces.total)
        starts, stops = ends[bounds[:-1]], ends[bounds[1:]]
        packet = segments.packet[rows]
        carried = self._finish_rests(s.group[chosen], starts, stops, pieces, packet, buffer=buffer)
        cut, per_stream, rests = Cutter(pieces).cut(starts, stops)
        found = self._found(pieces, packet, cut, np.repeat(s.group[chosen], per_stream), buffer)
        self._keep_rests(s.group[chosen], rests, stops, pieces, packet)
        found = Found.joined([carried, found])
        if self.odd:
            found = found.picked(~np.isin(found.line, list(self.odd)))
            for number in self.odd & self._before.keys():
                line = self._chunk.lines[number]
                line.rest, line.rest_origin = self._before[number]
        self._carry_on(chosen)
        return found

    def _chosen(self) -> Ints:
        """Return the directions, by their index, of connections that are in order here."""
        s = self._streams
        self.odd.update(np.unique(s.group[~s.is_plain] >> 1).tolist())
        group = s.group.tolist()
        looks = self._looks()
        index, size = 0, len(group)
        while index < size:
            number = group[index] >> 1
            stop = index + 1 + (index + 1 < size and group[index + 1] >> 1 == number)
            if number not in self.odd and not self._is_in_order(number, looks[index:stop], index):
                self.odd.add(number)
            index = stop
        if not self.odd:
            return np.arange(size)
        return where(~np.isin(s.group >> 1, list(self.odd)))

    def _looks(self) -> list[_Look]:
        """Return what matters of each direction."""
        s, segments = self._streams, self._chunk.segments
        first, last = s.order[s.first[:-1]], s.order[s.first[1:] - 1]
        opens = segments.flags[first] & SYN != 0
        columns = (s.group & 1, s.seq, opens, s.flags & RST != 0, segments.packet[last])
        return [_Look(*each) for each in zip(*(c.tolist() for c in columns), strict=True)]

    def _is_in_order(self, number: int, looks: Sequence[_Look], index: int) -> bool:
        """Whether what a connection's directions bring follows what they brought before."""
        line = self._chunk.lines[number]
        if line.exact is not None or line.is_over:
            return False
        for look in looks:
            expected = line.next_seq[look.direction]
            if expected != (None if look.opens else look.seq):
                return False
            if look.resets and look.last < max(each.last for each in looks):
                return False
        return line.is_judged or self._judge(line, range(index, index + len(looks)))

    def _judge(self, line: Line, directions: Sequence[int]) -> bool:
        """Whether a connection's first bytes are a request's, where it has any."""
        s, segments = self._streams, self._chunk.segments
        head = b""
        says = [False, False]
        for index in directions:
            direction = int(s.group[index]) & 1
            rows = s.order[s.first[index] : min(s.first[index + 1], s.first[index] + 4)]
            says[direction] = bool(segments.size[rows].any())
            if direction == 0:
                head = b"".join(
                    self._chunk.data[start : start + min(size, _HEAD_BYTES)].tobytes()
                    for start, size in zip(
                        segments.start[rows].tolist(), segments.size[rows].tolist(), strict=True
                    )
                )
        if not any(says):
            return True
        line.is_judged = first_request(head, MAX_FRAME_BYTES) is Verdict.YES
        return line.is_judged

    def _finish_rests(
        self,
        group: Ints,
        starts: Ints,
        stops: Ints,
        pieces: Pieces,
        packet: Ints,
        *,
        buffer: Buffer,
    ) -> Found:
        """Complete the frames that earlier chunks began; `starts` moves behind their ends."""
        rows: list[tuple[int, ...]] = []
        for index, each in enumerate(group.tolist()):
            line, direction = self._chunk.lines[each >> 1], each & 1
            rest = line.rest[direction]
            if not rest or starts[index] == stops[index]:
                continue
            self._before.setdefault(line.number, (line.rest[:], line.rest_origin[:]))
            start, stop = int(starts[index]), int(stops[index])
            lacking = max(LENGTH_BYTES - len(rest), 0)
            head = rest + pieces.copied(start, min(start + lacking, stop))
            whole = LENGTH_BYTES + int.from_bytes(head[:LENGTH_BYTES])
            if len(head) >= LENGTH_BYTES and whole - LENGTH_BYTES > MAX_FRAME_BYTES:
                self.odd.add(each >> 1)
                continue
            end = start + whole - len(rest)
            if len(head) < LENGTH_BYTES or end > stop:
                line.rest[direction] = rest + pieces.copied(start, stop)
                starts[index] = stop
                continue
            body = (rest + pieces.copied(start, end))[LENGTH_BYTES:]
            offset, at_ns = line.rest_origin[direction]
            last = int(packet[pieces.at(end - 1)])
            at_ns = int(self._chunk.packets.at_ns[last])
            at = buffer.add(np.frombuffer(body, np.uint8))
            rows.append((each >> 1, direction, at, len(body), offset, at_ns, last))
            line.rest[direction] = b""
            starts[index] = end
        return Found(*_columns(rows)) if rows else Found()

    def _found(self, pieces: Pieces, packet: Ints, cut: Cut, group: Ints, buffer: Buffer) -> Found:
        if not len(cut.line):
            return Found()
        placed = place(pieces, cut)
        moved = buffer.add(placed.extra) - len(self._chunk.data)
        start = placed.start
        if moved:
            start = np.where(start >= len(self._chunk.data), start + moved, start)
        first, last = packet[placed.first], packet[placed.last]
        at_ns = self._chunk.packets.at_ns
        return Found(
            line=group >> 1,
            direction=group & 1,
            start=start,
            size=placed.size,
            offset=self._chunk.place_of(first),
            at_ns=at_ns[last],
            packet=last,
        )

    def _keep_rests(
        self, group: Ints, rests: Sequence[Rest], stops: Ints, pieces: Pieces, packet: Ints
    ) -> None:
        for rest in rests:
            number, direction = int(group[rest.stream]) >> 1, int(group[rest.stream]) & 1
            if rest.is_broken:
                self.odd.add(number)
                continue
            line = self._chunk.lines[number]
            self._before.setdefault(number, (line.rest[:], line.rest_origin[:]))
            line.rest[direction] = pieces.copied(rest.line, int(stops[rest.stream]))
            origin = int(packet[pieces.at(rest.line)])
            line.rest_origin[direction] = (
                int(self._chunk.offset + self._chunk.packets.at[origin]),
                int(self._chunk.packets.at_ns[origin]),
            )

    def _carry_on(self, chosen: Ints) -> None:
        s = self._streams
        groups, ends, flags = (
            s.group[chosen].tolist(),
            s.end[chosen].tolist(),
            s.flags[chosen].tolist(),
        )
        for index, each, end, flag in zip(chosen.tolist(), groups, ends, flags, strict=True):
            if each >> 1 in self.odd:
                continue
            line = self._chunk.lines[each >> 1]
            line.next_seq[each & 1] = end
            line.has_appeared |= line.is_judged
            if flag & SYN:
                line.initials[each & 1] = int(s.seq[index])
            if flag & FIN:
                line.has_ended[each & 1] = True
            if flag & RST or all(line.has_ended):
                line.is_over = True


def _columns(rows: Sequence[tuple[int, ...]]) -> list[Ints]:
    return list(np.array(rows, np.int64).T)
