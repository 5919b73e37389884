"""`IrregularConnection`: processes a connection with gaps, or without its start, by segment.

The segments are processed by the code of `capture`. As soon as a connection is regular
again, its segments are processed in columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack
from typing import TYPE_CHECKING, Final

from kafkalite.capture.model import Closed, Frame, Opened
from kafkalite.capture.reading.flows import Flow
from kafkalite.capture.reading.packets import ACK, SYN, Segment
from kafkalite.lab.columnar.arrays import true_indexes
from kafkalite.lab.columnar.frames.frame_index import UNKNOWN_SEQ
from kafkalite.lab.columnar.frames.partial_frames import Fragment, Head
from kafkalite.lab.columnar.segments.connection_state import (
    CLOSED,
    HAS_FRAMES,
    RECOGNIZED,
    UNKNOWN,
    PartialFrame,
)
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.formats.capture_files import Interface
    from kafkalite.capture.model import Event
    from kafkalite.capture.reading.conversation import CaptureContext
    from kafkalite.capture.reading.flows import FlowState
    from kafkalite.lab.columnar.frames.partial_frames import Piece
    from kafkalite.lab.columnar.segments.connection_state import ConnectionState
    from kafkalite.lab.columnar.segments.connections import Connections

_SEQ_MASK: Final = 0xFFFFFFFF
FIRST_REQUEST: Final = pack(">ihhih", 10, 18, 0, -1, -1)
"""Stands for the first request of a connection that is known to be Kafka."""


class ReassembledFrame(NamedTuple):
    """A complete frame."""

    connection_index: int
    direction: int
    body: bytes
    offset: int
    at_ns: int
    request_seq: int
    """As in `FrameIndex`."""


@dataclass(frozen=True, slots=True)
class RegularState:
    """The state of a regular connection, from which segment processing can continue."""

    interface: Interface
    requests: Sequence[bytes]
    """The requests without a response, each with its length. If the connection is known to be
    Kafka, `FIRST_REQUEST` precedes them."""


class IrregularConnection:
    """The connections between two endpoints, one after another, processed segment by segment."""

    __slots__ = (
        "_connections",
        "_context",
        "_file",
        "_flow",
        "_heads",
        "_is_waiting_for_syn",
        "_state",
        "fragments",
    )

    def __init__(
        self,
        file: str,
        state: ConnectionState,
        connections: Connections,
        context: CaptureContext,
        regular_state: RegularState | None,
    ) -> None:
        self._file = file
        self._state = state
        self._connections = connections
        self._context = context
        self._flow: Flow | None = None
        self._heads: dict[int, Head] = {}
        self.fragments: list[Fragment] = []
        """Bytes before the first frames of connections whose start is not in the capture."""
        # After the end of a connection, only a SYN matters.
        self._is_waiting_for_syn = state.is_marked(CLOSED)
        if regular_state is not None and not state.is_marked(CLOSED):
            self._restore(regular_state)

    def _restore(self, regular_state: RegularState) -> None:
        """Set the state as if the connection had been processed by segment from its beginning."""
        state = self._state
        requests: tuple[Sequence[bytes], Sequence[bytes]] = (regular_state.requests, ())
        first_seqs = [
            (
                int(state.next_seqs[side])
                - len(state.partial_frame(side).data)
                - sum(map(len, requests[side]))
            )
            & _SEQ_MASK
            for side in (0, 1)
        ]
        at_ns = state.first_ns if state.opened_ns is None else state.opened_ns
        for side in true_indexes(state.next_seqs >= 0).tolist():
            syn_flags = SYN | ACK if side else SYN
            parts = [(b"", syn_flags, first_seqs[side] - 1, at_ns, 0)]
            seq = first_seqs[side]
            for part in requests[side]:
                parts.append((part, ACK, seq, at_ns, 0))
                seq += len(part)
            partial, partial_offset, partial_ns = state.partial_frame(side)
            parts += [(partial, ACK, seq, partial_ns, partial_offset)] if partial else []
            for payload, flags, payload_seq, sent_ns, offset in parts:
                segment = Segment(
                    sent_ns, state.flows[side], payload_seq & _SEQ_MASK, first_seqs[1 - side],
                    flags, payload, 0, self._file, offset, regular_state.interface, None,
                )  # fmt: skip
                if self._flow is None:
                    self._flow = Flow(segment, self._context)
                self._flow.process(segment, side)
        assert self._flow is not None
        self._flow.initial_seqs = [None if seq < 0 else seq for seq in state.initial_seqs.tolist()]
        self._flow.take_events()

    def process(self, segment: Segment) -> list[ReassembledFrame]:
        """Process one more segment, and return the frames that it completes."""
        flow = self._flow
        is_opening = segment.flags & SYN != 0
        if self._is_waiting_for_syn and not is_opening:
            return []
        self._is_waiting_for_syn = False
        frames: list[ReassembledFrame] = []
        side = 0 if flow is None or segment.flow == flow.flow_keys[0] else 1
        if flow is not None and is_opening and flow.is_reopened_by(segment, side):
            flow.finish(segment.at_ns, is_closed=True)
            frames += self._frames(flow.take_events())
            flow, side = None, 0
        if flow is None:
            if not (is_opening or segment.payload):
                return frames
            self._flow = flow = Flow(segment, self._context)
            self._heads = {} if is_opening else {0: Head(), 1: Head()}
        if self._heads:
            self._heads[side].add(segment)
        flow.process(segment, side)
        return frames + self._frames(flow.take_events())

    @property
    def buffered_since_ns(self) -> int | None:
        """Time of the earliest buffered bytes; None if nothing is buffered."""
        return None if self._flow is None else self._flow.buffered_since_ns

    def skip_gaps(self, now_ns: int, *, is_forced: bool) -> list[ReassembledFrame]:
        """Skip overdue gaps, or all gaps if `is_forced`, and return the frames found."""
        if self._flow is None or self._flow.buffered_since_ns is None:
            return []
        self._flow.skip_gaps(now_ns, is_forced=is_forced)
        return self._frames(self._flow.take_events())

    def finish(self, now_ns: int) -> list[ReassembledFrame]:
        """Return the remaining frames at the end of the file."""
        if self._flow is None:
            return []
        is_known = self._state.is_marked(HAS_FRAMES)
        if is_known:
            flow_state = self._flow.state()
            if flow_state is not None:
                # The other direction may have no data, and no acknowledgements.
                self._store_flow_state(flow_state)
            self._add_remaining_fragments()
        if self._connections.has_later_part:
            # Acknowledged bytes that are not in this part can be in the later one.
            self._flow.forget_acknowledgements()
        self._flow.finish(now_ns, is_closed=False)
        frames = self._frames(self._flow.take_events())
        if not is_known:
            self._add_remaining_fragments()
        return frames

    def _add_remaining_fragments(self) -> None:
        """Store the bytes of directions in which no frame was found, as fragments.

        The bytes of a later part of a file can be too few to recognise Kafka. Together with the
        bytes of the earlier part, they can be sufficient.
        """
        assert self._flow is not None
        if not (self._connections.is_later_part or self._state.is_marked(HAS_FRAMES)):
            return
        is_first = self._state.flows[0] == self._flow.flow_keys[0]
        for side, head in self._heads.items():
            if not head.is_done:
                self._add_fragments(side if is_first else 1 - side, head.all_but_last(0))

    @property
    def is_open(self) -> bool:
        """Whether a connection between the endpoints is open."""
        return self._flow is not None and not self._flow.is_finished

    @property
    def number(self) -> int:
        """The number of the current connection."""
        return self._state.number

    def update_state(self) -> ConnectionState | None:
        """Update and return the state of the connection; None while it is still irregular."""
        flow, state = self._flow, self._state
        if flow is None:
            return None
        if flow.is_finished or flow.conversation.is_rejected:
            # Its remaining bytes are ignored; only a SYN begins another connection.
            self._add_remaining_fragments()
            state.mark(CLOSED)
            for side in (0, 1):
                state.initial_seqs[side] = _seq_or_unknown(flow.initial_seqs[side])
            return state
        flow_state = flow.state()
        if flow_state is None or None in flow_state.sides:
            return None
        self._store_flow_state(flow_state)
        for direction in (0, 1):
            side = direction ^ flow_state.client_side
            state.initial_seqs[direction] = _seq_or_unknown(flow.initial_seqs[side])
        state.mark(RECOGNIZED)
        return state

    def _store_flow_state(self, flow_state: FlowState) -> None:
        """Store the state of the directions without gaps."""
        assert self._flow is not None
        for side, side_state in enumerate(flow_state.sides):
            if side_state is not None:
                direction = side ^ flow_state.client_side
                self._state.next_seqs[direction] = side_state.next_seq
                partial_frame = PartialFrame(
                    side_state.partial_frame, side_state.frame_offset or 0, self._flow.last_ns
                )
                self._state.set_partial_frame(direction, partial_frame)
                if self._heads and not self._heads[side].is_done:
                    self._add_fragments(
                        direction, self._heads[side].all_but_last(len(side_state.partial_frame))
                    )

    def _add_head_fragments(self, frame: Frame) -> None:
        """Store the bytes before the first frame of a direction."""
        assert self._flow is not None
        is_swapped = self._state.flows[0] != self._flow.flow_keys[0]
        head = self._heads[frame.direction ^ is_swapped]
        if not head.is_done:
            self._add_fragments(frame.direction, head.bytes_before(frame.body))

    def _add_fragments(self, direction: int, head: Sequence[Piece]) -> None:
        """Store one fragment per segment, because frames get the time of their segment."""
        self.fragments += [
            Fragment(
                self._state.number, direction, True, seq, payload, segment.offset,
                segment.at_ns, segment.at_ns, segment.ack if segment.flags & ACK else None,
            )
            for seq, payload, segment in head
        ]  # fmt: skip

    def _frames(self, events: Sequence[Event]) -> list[ReassembledFrame]:
        frames: list[ReassembledFrame] = []
        for event in events:
            if isinstance(event, Opened):
                self._state = self._connections.add_or_update(self._state, event.connection)
            elif isinstance(event, Frame):
                number = self._state.number
                if self._heads:
                    self._add_head_fragments(event)
                seq = UNKNOWN_SEQ if event.request_seq is None else event.request_seq
                frames.append(
                    ReassembledFrame(
                        number, event.direction, event.body, event.offset, event.at_ns, seq
                    )
                )
            elif isinstance(event, Closed):
                self._state.mark(CLOSED)
        return frames


def _seq_or_unknown(seq: int | None) -> int:
    return UNKNOWN if seq is None else seq
