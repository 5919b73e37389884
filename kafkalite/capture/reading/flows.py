"""TCP connections of a capture: opening, segments, close, and reuse of ports."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kafkalite.capture.formats.comments import parse_interface_note, parse_packet_note
from kafkalite.capture.reading.conversation import Conversation
from kafkalite.capture.reading.packets import ACK, FIN, RST, SYN, reverse, sender
from kafkalite.capture.reading.reassembly import Stream
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.capture.model import Event
    from kafkalite.capture.reading.conversation import CaptureContext
    from kafkalite.capture.reading.packets import Segment

MAX_UNDECIDED_NS: Final = 10_000_000_000
"""Maximum time for which bytes of a connection are buffered while its client side is unknown."""
LATE_PACKETS_NS: Final = 60_000_000_000
"""Time after the end of a connection in which late packets still belong to it."""
MAX_CONNECTIONS: Final = 100_000
"""Maximum number of tracked connections; beyond it, idle ones are dropped."""

_SEQ_MASK: Final = 0xFFFFFFFF


class SideState(NamedTuple):
    """State of a direction without missing bytes."""

    next_seq: int
    """Sequence number of the next byte."""
    partial_frame: bytes
    """The received bytes of an incomplete frame, including its length."""
    frame_offset: int | None
    """File offset of the packet in which this frame begins."""


class FlowState(NamedTuple):
    """State of a connection from which reading can continue."""

    client_side: int
    """0 if the client sent the first segment."""
    sides: tuple[SideState | None, SideState | None]
    """None for a side with missing bytes, or with unknown frame boundaries."""


class Flow:
    """One connection, from its first packet in the capture."""

    __slots__ = (
        "_endpoints",
        "_is_ending",
        "_streams",
        "conversation",
        "flow_keys",
        "initial_seqs",
        "is_finished",
        "last_ns",
    )

    def __init__(self, segment: Segment, context: CaptureContext) -> None:
        self.flow_keys = (segment.flow, reverse(segment.flow))
        endpoints = (sender(self.flow_keys[0]), sender(self.flow_keys[1]))
        self.conversation = Conversation(
            endpoints, parse_interface_note(segment.interface.comment), context
        )
        self._endpoints = tuple(str(endpoint) for endpoint in endpoints)
        self.initial_seqs: list[int | None] = [None, None]
        self.last_ns = segment.at_ns
        self.is_finished = False
        self._is_ending = False
        self._streams = (Stream(), Stream())

    @property
    def buffered_since_ns(self) -> int | None:
        """Time of the earliest buffered bytes; None if nothing is buffered."""
        first, second = self._streams
        undecided = self.conversation.undecided_since_ns
        if first.gap_since_ns is None and second.gap_since_ns is None:
            return undecided
        times = (first.gap_since_ns, second.gap_since_ns, undecided)
        return min(time_ns for time_ns in times if time_ns is not None)

    def is_reopened_by(self, segment: Segment, side: int) -> bool:
        """Whether a SYN segment opens a new connection between the same ports."""
        initial_seq = self.initial_seqs[side]
        if initial_seq is not None:
            return initial_seq != segment.seq
        # The first SYN of a side belongs to this connection, unless the side has sent bytes before.
        return self.is_finished or self._streams[side].has_received_bytes

    def process(self, segment: Segment, side: int) -> None:
        """Process one more segment, sent by `side`."""
        self.last_ns = segment.at_ns
        stream, opposite = self._streams[side], self._streams[1 - side]
        flags, seq = segment.flags, segment.seq
        if segment.comment is not None:
            self._read_note(segment.comment, side)
        if flags & SYN:
            self._open(segment, side)
            seq = seq + 1 & _SEQ_MASK
        if flags & ACK:
            opposite.acknowledged = segment.ack
        if (segment.payload or segment.missing) and not (
            self.is_finished or self.conversation.is_rejected
        ):
            self.conversation.process(side, stream.push(segment, seq))
        if stream.gap_since_ns is not None or opposite.gap_since_ns is not None:
            self.skip_gaps(segment.at_ns)
        if flags & FIN:
            self._is_ending = True
            stream.close(seq + len(segment.payload) + segment.missing & _SEQ_MASK)
        if flags & RST or (self._is_ending and self._is_at_end()):
            self.finish(segment.at_ns, is_closed=True)

    def _is_at_end(self) -> bool:
        """Whether all bytes of both sides were received; True at once if it is not Kafka."""
        first, second = self._streams
        return self.conversation.is_rejected or (first.is_at_end and second.is_at_end)

    def _open(self, segment: Segment, side: int) -> None:
        self.initial_seqs[side] = segment.seq
        self._streams[side].begin(segment.seq + 1 & _SEQ_MASK)
        client = side
        if segment.flags & ACK:
            client = 1 - side
            self._streams[client].begin(segment.ack)
        self.conversation.open(client, segment.at_ns)

    def _read_note(self, comment: str, side: int) -> None:
        """Read the recorder's note about a connection that continues from an earlier file."""
        if self._streams[side].has_received_bytes:
            return
        note = parse_packet_note(comment)
        if note.opened is not None:
            client = self._endpoints.index(note.client) if note.client in self._endpoints else None
            self.conversation.resume(client, note.opened)
        if note.inside:
            self.conversation.skip(side, note.inside)

    def skip_gaps(self, now_ns: int, *, is_forced: bool = False) -> None:
        """Skip missing bytes after a timeout, or at once if `is_forced`."""
        for side, stream in enumerate(self._streams):
            while stream.gap_since_ns is not None and (is_forced or stream.is_overdue(now_ns)):
                self.conversation.process(side, stream.skip_gap(now_ns))
        since_ns = self.conversation.undecided_since_ns
        if since_ns is not None and (is_forced or now_ns - since_ns >= MAX_UNDECIDED_NS):
            self.conversation.decide_client_side()
        if self._is_ending and self._is_at_end():
            self.finish(now_ns, is_closed=True)

    def forget_acknowledgements(self) -> None:
        """Do not treat acknowledged bytes after the last received ones as missing."""
        for stream in self._streams:
            stream.acknowledged = None

    def finish(self, at_ns: int, *, is_closed: bool) -> None:
        """End the connection, and release the buffered bytes."""
        if self.is_finished:
            return
        self.is_finished = True
        for side, stream in enumerate(self._streams):
            items = stream.finish(at_ns)
            if not self.conversation.is_rejected:
                self.conversation.process(side, items)
        self.conversation.finish(at_ns, is_closed=is_closed)

    def state(self) -> FlowState | None:
        """Return the state from which reading can continue.

        Returns None if the connection has ended, is not Kafka, or has an unknown client side.
        """
        partial_frames = self.conversation.partial_frames()
        if (
            self.is_finished
            or self.conversation.undecided_since_ns is not None
            or partial_frames is None
        ):
            return None
        first, second = (
            None
            if frame is None or stream.gap_since_ns is not None or stream.next_seq is None
            else SideState(stream.next_seq, frame.data, frame.offset)
            for frame, stream in zip(partial_frames.sides, self._streams, strict=True)
        )
        return FlowState(partial_frames.client_side, (first, second))

    def take_events(self) -> list[Event]:
        """Return the events since the previous call."""
        events = self.conversation.events
        if events:
            self.conversation.events = []
        return events


class Flows:
    """The tracked connections of a capture."""

    __slots__ = (
        "_buffering_flows",
        "_context",
        "_ended_flows",
        "_flows_by_key",
        "earliest_buffered_ns",
    )

    def __init__(self, context: CaptureContext) -> None:
        self._context = context
        self._flows_by_key: dict[bytes, tuple[Flow, int]] = {}
        self._ended_flows: deque[tuple[int, Flow]] = deque()
        self._buffering_flows: dict[Flow, None] = {}
        self.earliest_buffered_ns: int | None = None
        """Time of the earliest buffered bytes; None if no connection has any."""

    @property
    def count(self) -> int:
        """Number of tracked connections, including recently ended ones."""
        return len(self._flows_by_key) // 2

    def process(self, segment: Segment) -> list[Event]:
        """Process one more segment, and return the events that it completes."""
        events: list[Event] = []
        tracked = self._flows_by_key.get(segment.flow)
        is_opening = segment.flags & SYN
        if tracked is not None and is_opening and tracked[0].is_reopened_by(segment, tracked[1]):
            tracked[0].finish(segment.at_ns, is_closed=True)
            events = tracked[0].take_events()
            self._buffering_flows.pop(tracked[0], None)
            tracked = None
        if tracked is None:
            if not (is_opening or segment.payload):
                return events
            tracked = self._track(segment)
        flow, side = tracked
        was_finished = flow.is_finished
        flow.process(segment, side)
        if flow.is_finished and not was_finished:
            self._ended_flows.append((segment.at_ns, flow))
        since_ns = flow.buffered_since_ns
        if since_ns is not None or self._buffering_flows:
            self._update_buffering(flow, since_ns)
        new_events = flow.take_events()
        return events + new_events if events else new_events

    def skip_overdue_gaps(self, now_ns: int, *, is_forced: bool = False) -> list[Event]:
        """Skip overdue missing bytes, and return the resulting events."""
        events: list[Event] = []
        for flow in tuple(self._buffering_flows):
            flow.skip_gaps(now_ns, is_forced=is_forced)
            if flow.is_finished:
                self._ended_flows.append((now_ns, flow))
            self._update_buffering(flow, flow.buffered_since_ns)
            events += flow.take_events()
        times = (flow.buffered_since_ns for flow in self._buffering_flows)
        self.earliest_buffered_ns = min(
            (time_ns for time_ns in times if time_ns is not None), default=None
        )
        return events

    def finish(self, now_ns: int) -> list[Event]:
        """Return the remaining events at the end of the capture."""
        events: list[Event] = []
        for flow, side in self._flows_by_key.values():
            if side == 0:
                flow.finish(now_ns, is_closed=False)
                events += flow.take_events()
        self._flows_by_key.clear()
        self._buffering_flows.clear()
        self.earliest_buffered_ns = None
        return events

    def _update_buffering(self, flow: Flow, since_ns: int | None) -> None:
        if since_ns is not None:
            self._buffering_flows[flow] = None
            if self.earliest_buffered_ns is None or since_ns < self.earliest_buffered_ns:
                self.earliest_buffered_ns = since_ns
        elif flow in self._buffering_flows:
            del self._buffering_flows[flow]
            if not self._buffering_flows:
                self.earliest_buffered_ns = None

    def _track(self, segment: Segment) -> tuple[Flow, int]:
        self._drop_ended(segment.at_ns)
        flow = Flow(segment, self._context)
        for side, key in enumerate(flow.flow_keys):
            self._flows_by_key[key] = (flow, side)
        return flow, 0

    def _drop_ended(self, now_ns: int) -> None:
        """Drop connections that ended long ago, and idle ones above the limit."""
        ended = self._ended_flows
        while ended and (ended[0][0] < now_ns - LATE_PACKETS_NS or len(ended) > MAX_CONNECTIONS):
            self._drop(ended.popleft()[1])
        if len(self._flows_by_key) > 2 * MAX_CONNECTIONS:
            flows = {flow: None for flow, _ in self._flows_by_key.values()}
            idle = sorted(flows, key=lambda flow: flow.last_ns)
            for flow in idle[: MAX_CONNECTIONS // 2]:
                self._drop(flow)
                self._buffering_flows.pop(flow, None)

    def _drop(self, flow: Flow) -> None:
        for key in flow.flow_keys:
            if self._flows_by_key.get(key, (None,))[0] is flow:
                del self._flows_by_key[key]
