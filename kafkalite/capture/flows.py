"""The TCP connections of a capture: opened, carried on, closed, and their ports used again."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.capture.dialogue import Dialogue
from kafkalite.capture.notes import interface_note, packet_note
from kafkalite.capture.packets import ACK, FIN, RST, SYN, reverse, sender
from kafkalite.capture.reassembly import Stream

if TYPE_CHECKING:
    from kafkalite.capture.dialogue import Setting
    from kafkalite.capture.model import Event
    from kafkalite.capture.packets import Segment

UNDECIDED_NS: Final = 10_000_000_000
"""How long what a connection says is kept while it is not known who is who."""
STRAGGLERS_NS: Final = 60_000_000_000
"""How long after its end packets of a connection may still come."""
MAX_CONNECTIONS: Final = 100_000
"""How many connections are followed at once; beyond, those that were silent longest are not."""

_MASK: Final = 0xFFFFFFFF


class SideRest(NamedTuple):
    """All that is to be known of a direction with which everything is in order."""

    next_seq: int
    """The number of the byte that comes next."""
    unfinished: bytes
    """What there is of a frame that is not whole, its length included."""
    origin: int | None
    """Where in the file the packet stands that this frame begins in."""


class Rest(NamedTuple):
    """What is to be known of a connection to go on with it, by side; None where it is not."""

    client_side: int
    """0 where the first segment of it was the client's."""
    sides: tuple[SideRest | None, SideRest | None]


class Flow:
    """One connection, from the first of its packets that the capture has."""

    __slots__ = (
        "_ends",
        "_is_ending",
        "_streams",
        "dialogue",
        "flows",
        "initials",
        "is_over",
        "last_ns",
    )

    def __init__(self, segment: Segment, setting: Setting) -> None:
        self.flows = (segment.flow, reverse(segment.flow))
        ends = (sender(self.flows[0]), sender(self.flows[1]))
        self.dialogue = Dialogue(ends, interface_note(segment.interface.comment), setting)
        self._ends = tuple(str(end) for end in ends)
        self.initials: list[int | None] = [None, None]
        self.last_ns = segment.at_ns
        self.is_over = False
        self._is_ending = False
        self._streams = (Stream(), Stream())

    @property
    def since_ns(self) -> int | None:
        """Since when there is something that cannot be told yet; None where there is nothing."""
        first, second = self._streams
        undecided = self.dialogue.undecided_since_ns
        if first.since_ns is None and second.since_ns is None:
            return undecided
        times = (first.since_ns, second.since_ns, undecided)
        return min(each for each in times if each is not None)

    def begins_anew(self, segment: Segment, side: int) -> bool:
        """Whether a segment that opens a connection opens another than this one."""
        known = self.initials[side]
        if known is not None:
            return known != segment.seq
        # A side whose opening was not seen has not spoken yet, if it is only now opening.
        return self.is_over or self._streams[side].has_moved

    def take(self, segment: Segment, side: int) -> None:
        """Follow one more segment, which `side` sent."""
        self.last_ns = segment.at_ns
        stream, other = self._streams[side], self._streams[1 - side]
        flags, seq = segment.flags, segment.seq
        if segment.comment is not None:
            self._read_note(segment.comment, side)
        if flags & SYN:
            self._open(segment, side)
            seq = seq + 1 & _MASK
        if flags & ACK:
            other.acknowledged = segment.ack
        if (segment.payload or segment.missing) and not (self.is_over or self.dialogue.is_refused):
            self.dialogue.run(side, stream.push(segment, seq))
        if stream.since_ns is not None or other.since_ns is not None:
            self.wait_no_longer(segment.at_ns)
        if flags & FIN:
            self._is_ending = True
            stream.close(seq + len(segment.payload) + segment.missing & _MASK)
        if flags & RST or (self._is_ending and self._is_at_end()):
            self.finish(segment.at_ns, is_closed=True)

    def _is_at_end(self) -> bool:
        """Whether both sides have said their last; where nobody listens, one is enough."""
        first, second = self._streams
        return self.dialogue.is_refused or (first.is_at_end and second.is_at_end)

    def _open(self, segment: Segment, side: int) -> None:
        self.initials[side] = segment.seq
        self._streams[side].begin(segment.seq + 1 & _MASK)
        client = side
        if segment.flags & ACK:
            client = 1 - side
            self._streams[client].begin(segment.ack)
        self.dialogue.open(client, segment.at_ns)

    def _read_note(self, comment: str, side: int) -> None:
        """Take what our own captures say of connections that go on from one file to the next."""
        if self._streams[side].has_moved:
            return
        note = packet_note(comment)
        if note.opened is not None:
            client = self._ends.index(note.client) if note.client in self._ends else None
            self.dialogue.resume(client, note.opened)
        if note.inside:
            self.dialogue.skip(side, note.inside)

    def wait_no_longer(self, now_ns: int, *, at_all: bool = False) -> None:
        """Give up what has been missing for too long, or all that is."""
        for side, stream in enumerate(self._streams):
            while stream.since_ns is not None and (at_all or stream.overdue(now_ns)):
                self.dialogue.run(side, stream.give_up(now_ns))
        since = self.dialogue.undecided_since_ns
        if since is not None and (at_all or now_ns - since >= UNDECIDED_NS):
            self.dialogue.settle()
        if self._is_ending and self._is_at_end():
            self.finish(now_ns, is_closed=True)

    def finish(self, at_ns: int, *, is_closed: bool) -> None:
        """Tell what is left."""
        if self.is_over:
            return
        self.is_over = True
        for side, stream in enumerate(self._streams):
            run = stream.finish(at_ns)
            if not self.dialogue.is_refused:
                self.dialogue.run(side, run)
        self.dialogue.finish(at_ns, is_closed=is_closed)

    def at_rest(self) -> Rest | None:
        """Return where the connection is; None where that is not known of either side."""
        rests = self.dialogue.rests()
        if self.is_over or self.dialogue.undecided_since_ns is not None or rests is None:
            return None
        first, second = (
            None
            if left is None or stream.since_ns is not None or stream.next_seq is None
            else SideRest(stream.next_seq, left.data, left.offset)
            for left, stream in zip(rests.sides, self._streams, strict=True)
        )
        return Rest(rests.client_side, (first, second))

    def told(self) -> list[Event]:
        """Return what has become known since this was asked last."""
        events = self.dialogue.events
        if events:
            self.dialogue.events = []
        return events


class Flows:
    """Every connection of a capture that is being followed."""

    __slots__ = ("_ended", "_setting", "_table", "_waiting", "low_ns")

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._table: dict[bytes, tuple[Flow, int]] = {}
        self._ended: deque[tuple[int, Flow]] = deque()
        self._waiting: dict[Flow, None] = {}
        self.low_ns: int | None = None
        """The earliest time of which something may yet be told; None where nothing is open."""

    @property
    def count(self) -> int:
        """How many connections are followed, those included that ended a moment ago."""
        return len(self._table) // 2

    def take(self, segment: Segment) -> list[Event]:
        """Return what one more segment makes known."""
        events: list[Event] = []
        found = self._table.get(segment.flow)
        is_opening = segment.flags & SYN
        if found is not None and is_opening and found[0].begins_anew(segment, found[1]):
            found[0].finish(segment.at_ns, is_closed=True)
            events = found[0].told()
            self._waiting.pop(found[0], None)
            found = None
        if found is None:
            if not (is_opening or segment.payload):
                return events
            found = self._follow(segment)
        flow, side = found
        was_over = flow.is_over
        flow.take(segment, side)
        if flow.is_over and not was_over:
            self._ended.append((segment.at_ns, flow))
        since = flow.since_ns
        if since is not None or self._waiting:
            self._note_wait(flow, since)
        told = flow.told()
        return events + told if events else told

    def sweep(self, now_ns: int, *, at_all: bool = False) -> list[Event]:
        """Return what is known once nothing is waited for any longer that is overdue."""
        events: list[Event] = []
        for flow in tuple(self._waiting):
            flow.wait_no_longer(now_ns, at_all=at_all)
            if flow.is_over:
                self._ended.append((now_ns, flow))
            self._note_wait(flow, flow.since_ns)
            events += flow.told()
        times = (flow.since_ns for flow in self._waiting)
        self.low_ns = min((each for each in times if each is not None), default=None)
        return events

    def finish(self, now_ns: int) -> list[Event]:
        """Return what is left at the end of the capture."""
        events: list[Event] = []
        for flow, side in self._table.values():
            if side == 0:
                flow.finish(now_ns, is_closed=False)
                events += flow.told()
        self._table.clear()
        self._waiting.clear()
        self.low_ns = None
        return events

    def _note_wait(self, flow: Flow, since: int | None) -> None:
        if since is not None:
            self._waiting[flow] = None
            if self.low_ns is None or since < self.low_ns:
                self.low_ns = since
        elif flow in self._waiting:
            del self._waiting[flow]
            if not self._waiting:
                self.low_ns = None

    def _follow(self, segment: Segment) -> tuple[Flow, int]:
        self._forget(segment.at_ns)
        flow = Flow(segment, self._setting)
        for side, key in enumerate(flow.flows):
            self._table[key] = (flow, side)
        return flow, 0

    def _forget(self, now_ns: int) -> None:
        """Drop connections of which no more is to be expected."""
        ended = self._ended
        while ended and (ended[0][0] < now_ns - STRAGGLERS_NS or len(ended) > MAX_CONNECTIONS):
            self._drop(ended.popleft()[1])
        if len(self._table) > 2 * MAX_CONNECTIONS:
            flows = {flow: None for flow, _ in self._table.values()}
            silent = sorted(flows, key=lambda flow: flow.last_ns)
            for flow in silent[: MAX_CONNECTIONS // 2]:
                self._drop(flow)
                self._waiting.pop(flow, None)

    def _drop(self, flow: Flow) -> None:
        for key in flow.flows:
            if self._table.get(key, (None,))[0] is flow:
                del self._table[key]
