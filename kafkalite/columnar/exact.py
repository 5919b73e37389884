"""Connections out of order, or of which the beginning is missing: followed segment by segment.

They go through the same code that `capture.reading` consists of. As soon as such a connection is
in order again, it is followed in columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.capture.flows import Flow
from kafkalite.capture.model import Closed, Frame, Opened
from kafkalite.capture.packets import ACK, SYN, Segment
from kafkalite.columnar.lines import APPEARED, JUDGED, OVER, UNKNOWN, Unfinished
from kafkalite.columnar.remnants import Fragment, Head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.blocks import Interface
    from kafkalite.capture.dialogue import Setting
    from kafkalite.capture.flows import Rest
    from kafkalite.capture.model import Event
    from kafkalite.columnar.connections import Connections
    from kafkalite.columnar.lines import Line
    from kafkalite.columnar.remnants import Piece

_MASK: Final = 0xFFFFFFFF
_FIRST_REQUEST: Final = pack(">ihhih", 10, 18, 0, -1, -1)
"""What a connection that is known to be Kafka is taken to have begun with."""


class Told(NamedTuple):
    """A frame that has become known."""

    line: int
    direction: int
    body: bytes
    offset: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class Start:
    """What the exact way needs to take up a connection in its midst."""

    interface: Interface
    asked: Sequence[bytes]
    """Its requests without a response, with their lengths."""


class Exact:
    """One pair of ends, followed segment by segment: one connection after another."""

    __slots__ = (
        "_connections",
        "_file",
        "_flow",
        "_heads",
        "_line",
        "_setting",
        "_waits",
        "fragments",
    )

    def __init__(
        self, file: str, line: Line, connections: Connections, setting: Setting, start: Start | None
    ) -> None:
        self._file = file
        self._line = line
        self._connections = connections
        self._setting = setting
        self._flow: Flow | None = None
        self._heads: dict[int, Head] = {}
        self.fragments: list[Fragment] = []
        """What stood before the first frames of connections that were begun within."""
        # Behind the end of a connection, only the opening of another means anything.
        self._waits = line.is_marked(OVER)
        if start is not None and not line.is_marked(OVER):
            self._prime(start)

    def _prime(self, start: Start) -> None:
        """Come to where the line is, as if it had been followed so from its beginning."""
        line = self._line
        said: tuple[list[bytes], list[bytes]] = ([_FIRST_REQUEST, *start.asked], [])
        begin = [
            (int(line.next_seqs[side]) - len(line.rest(side).data) - sum(map(len, said[side])))
            & _MASK
            for side in (0, 1)
        ]
        at_ns = line.first_ns if line.opened_ns is None else line.opened_ns
        for side in (0, 1):
            opens = SYN | ACK if side else SYN
            parts = [(b"", opens, begin[side] - 1, at_ns, 0)]
            seq = begin[side]
            for part in said[side]:
                parts.append((part, ACK, seq, at_ns, 0))
                seq += len(part)
            rest, offset, rest_ns = line.rest(side)
            parts += [(rest, ACK, seq, rest_ns, offset)] if rest else []
            for payload, flags, number, then, place in parts:
                segment = Segment(
                    then, line.flows[side], number & _MASK, begin[1 - side], flags, payload, 0,
                    self._file, place, start.interface, None,
                )  # fmt: skip
                if self._flow is None:
                    self._flow = Flow(segment, self._setting)
                self._flow.take(segment, side)
        assert self._flow is not None
        self._flow.told()

    def take(self, segment: Segment) -> list[Told]:
        """Return the frames that one more segment makes known."""
        flow = self._flow
        opens = segment.flags & SYN != 0
        if self._waits and not opens:
            return []
        self._waits = False
        told: list[Told] = []
        side = 0 if flow is None or segment.flow == flow.flows[0] else 1
        if flow is not None and opens and flow.begins_anew(segment, side):
            flow.finish(segment.at_ns, is_closed=True)
            told += self._told(flow.told())
            flow, side = None, 0
        if flow is None:
            if not (opens or segment.payload):
                return told
            self._flow = flow = Flow(segment, self._setting)
            self._heads = {} if opens else {0: Head(), 1: Head()}
        if self._heads:
            self._heads[side].add(segment)
        flow.take(segment, side)
        return told + self._told(flow.told())

    @property
    def since_ns(self) -> int | None:
        """Since when there is something that cannot be told yet; None where there is nothing."""
        return None if self._flow is None else self._flow.since_ns

    def wait_no_longer(self, now_ns: int, *, at_all: bool) -> list[Told]:
        """Return what is known once nothing is waited for that is overdue, or nothing at all."""
        if self._flow is None or self._flow.since_ns is None:
            return []
        self._flow.wait_no_longer(now_ns, at_all=at_all)
        return self._told(self._flow.told())

    def finish(self, now_ns: int) -> list[Told]:
        """Return what is left at the end of the file."""
        if self._flow is None:
            return []
        is_known = self._line.is_marked(APPEARED)
        if is_known:
            rest = self._flow.at_rest()
            if rest is not None:
                # The other direction may never say anything, as where nobody acknowledges.
                self._leave(rest)
            self._keep_heads()
        self._flow.finish(now_ns, is_closed=False)
        told = self._told(self._flow.told())
        if not is_known:
            self._keep_heads()
        return told

    def _keep_heads(self) -> None:
        """Keep what directions say of which no frame was recognised.

        Of a part that may be too little to know it for Kafka's: what stands before it may tell.
        """
        assert self._flow is not None
        if not (self._connections.are_within or self._line.is_marked(APPEARED)):
            return
        is_first = self._line.flows[0] == self._flow.flows[0]
        for side, head in self._heads.items():
            if not head.is_done:
                self._keep(side if is_first else 1 - side, head.but(0))

    @property
    def number(self) -> int:
        """The number of the connection that is followed now."""
        return self._line.number

    def hand_over(self) -> Line | None:
        """Return the line, brought to where the connection is; None while it is out of order."""
        flow, line = self._flow, self._line
        if flow is None:
            return None
        if flow.is_over or flow.dialogue.is_refused:
            # No more of it is of use; only an opening begins another.
            self._keep_heads()
            line.mark(OVER)
            for side in (0, 1):
                line.initials[side] = _number(flow.initials[side])
            return line
        rest = flow.at_rest()
        if rest is None or None in rest.sides:
            return None
        self._leave(rest)
        for direction in (0, 1):
            side = direction ^ rest.client_side
            line.initials[direction] = _number(flow.initials[side])
        line.mark(JUDGED)
        return line

    def _leave(self, rest: Rest) -> None:
        """Bring the line to where directions are that are in order."""
        assert self._flow is not None
        for side, left in enumerate(rest.sides):
            if left is not None:
                direction = side ^ rest.client_side
                self._line.next_seqs[direction] = left.next_seq
                unfinished = Unfinished(left.unfinished, left.origin or 0, self._flow.last_ns)
                self._line.keep(direction, unfinished)
                if self._heads and not self._heads[side].is_done:
                    self._keep(direction, self._heads[side].but(len(left.unfinished)))

    def _note_head(self, frame: Frame) -> None:
        """Keep what stood before the first frame of a direction."""
        assert self._flow is not None
        is_turned = self._line.flows[0] != self._flow.flows[0]
        head = self._heads[frame.direction ^ is_turned]
        if not head.is_done:
            self._keep(frame.direction, head.before(frame.body))

    def _keep(self, direction: int, head: Sequence[Piece]) -> None:
        """Keep it segment by segment: each frame in it has the time of its last one."""
        self.fragments += [
            Fragment(
                self._line.number, direction, True, seq, payload, segment.offset,
                segment.at_ns, segment.at_ns,
            )
            for seq, payload, segment in head
        ]  # fmt: skip

    def _told(self, events: Sequence[Event]) -> list[Told]:
        told: list[Told] = []
        for event in events:
            if isinstance(event, Opened):
                self._line = self._connections.appear(self._line, event.connection)
            elif isinstance(event, Frame):
                number = self._line.number
                if self._heads:
                    self._note_head(event)
                told.append(Told(number, event.direction, event.body, event.offset, event.at_ns))
            elif isinstance(event, Closed):
                self._line.mark(OVER)
        return told


def _number(seq: int | None) -> int:
    return UNKNOWN if seq is None else seq
