"""`Connections`: assigns the segments of a chunk to the connections of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kafkalite.capture.formats.comments import PacketNote, parse_interface_note, parse_packet_note
from kafkalite.capture.reading.packets import reverse, sender
from kafkalite.lab.columnar.arrays import true_indexes
from kafkalite.lab.columnar.files.pcapng import comment_of
from kafkalite.lab.columnar.segments.connection_state import (
    CLOSED,
    HAS_FRAMES,
    LAST_NS,
    NEXT_SEQ,
    RECOGNIZED,
    UNKNOWN,
    ConnectionStates,
    connection_id,
    sender_text,
)
from kafkalite.lab.columnar.segments.flows import Flows
from kafkalite.lab.columnar.segments.packets import ACK, SYN
from kafkalite.lab.columnar.tables import CONNECTIONS
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkalite.capture.model import Connection
    from kafkalite.lab.columnar.arrays import Bytes, Ints
    from kafkalite.lab.columnar.files.packet_index import Interface, Packets
    from kafkalite.lab.columnar.segments.connection_state import ConnectionState
    from kafkalite.lab.columnar.segments.packets import Segments


class ChunkPackets(NamedTuple):
    """A chunk's bytes, with its packets and segments."""

    data: Bytes
    packets: Packets
    segments: Segments
    interfaces: Sequence[Interface]


class Connections:
    """Every connection of one file, and the flows of both directions."""

    def __init__(
        self, file: str, *, is_later_part: bool = False, has_later_part: bool = False
    ) -> None:
        """Create an empty table; `file` is part of the ids of connections without an opening."""
        self.states = ConnectionStates()
        self.is_later_part = is_later_part
        """Whether this is a later part of a file, so that most connections began before it."""
        self.has_later_part = has_later_part
        """Whether the file has a later part, in which most connections continue."""
        self._file = file
        self._flows = Flows()
        self._direction_ids = np.empty(0, np.int64)
        """By flow: twice the number of its connection, plus one for responses."""

    def direction_ids(self, chunk: ChunkPackets) -> Ints:
        """Return for each segment twice the number of its connection, plus one for responses.

        Unknown connections are added.
        """
        segments, states = chunk.segments, self.states
        flows, firsts = self._flows.find_or_add_all(chunk.data, segments)
        active_flows = flows[firsts]
        self._grow()
        direction_ids = self._direction_ids[active_flows]
        is_opening = segments.flags[firsts] & SYN != 0
        is_new = (
            (direction_ids < 0) | is_opening | (states.direction_rows[direction_ids, NEXT_SEQ] < 0)
        )
        for index in true_indexes(is_new).tolist():
            self._assign(chunk, int(active_flows[index]), int(firsts[index]))
        # If ports are reused, the other direction belongs to the new connection, too.
        for index in true_indexes(
            (self._direction_ids[active_flows] != direction_ids) & ~is_new
        ).tolist():
            self._assign(chunk, int(active_flows[index]), int(firsts[index]))
        direction_ids = self._direction_ids[active_flows]
        # Approximate: the time of the connection's first packet in the chunk.
        states.connection_rows[direction_ids >> 1, LAST_NS] = chunk.packets.at_ns[
            segments.packet[firsts]
        ]
        return self._direction_ids[flows]

    def known_direction_ids(self, data: Bytes, segments: Segments) -> Ints:
        """Return the same as `direction_ids`, but -1 for unknown connections."""
        flows, _ = self._flows.find_or_add_all(data, segments)
        self._grow()
        return self._direction_ids[flows]

    def _grow(self) -> None:
        """Allocate entries for all flows, and for flows that new connections add."""
        missing = 2 * self._flows.count - len(self._direction_ids)
        if missing > 0:
            more = np.full(missing + len(self._direction_ids), UNKNOWN, np.int64)
            self._direction_ids = np.concatenate([self._direction_ids, more])

    def _assign(self, chunk: ChunkPackets, flow: int, row: int) -> None:
        """Find or add the connection of a flow; continue one that began in another file."""
        is_opening = bool(chunk.segments.flags[row] & SYN)
        seq = int(chunk.segments.seq[row])
        note = PacketNote() if is_opening else _packet_note(chunk, int(chunk.segments.packet[row]))
        state, side = self._find_or_add(chunk, flow, row, note)
        if state.next_seqs[side] < 0 and not is_opening and state.irregular is None:
            _resume_from_note(state, side, note, seq)

    def _find_or_add(
        self, chunk: ChunkPackets, flow: int, row: int, note: PacketNote
    ) -> tuple[ConnectionState, int]:
        flags, seq = int(chunk.segments.flags[row]), int(chunk.segments.seq[row])
        packet = int(chunk.segments.packet[row])
        direction_id = int(self._direction_ids[flow])
        is_opening = flags & SYN != 0
        if direction_id >= 0:
            known = self.states[direction_id >> 1]
            if not (is_opening and _opens_new_connection(known, direction_id & 1, seq)):
                return known, direction_id & 1
        name = self._flows.flow(flow)
        is_client = not (is_opening and flags & ACK)
        if not is_opening:
            is_client = note.opened is None or note.client != sender_text(reverse(name))
        interface = chunk.interfaces[int(chunk.packets.interface[packet])]
        at_ns = int(chunk.packets.at_ns[packet])
        comment = interface.comments[0] if interface.comments else None
        state = self._add(
            name if is_client else reverse(name), at_ns if is_opening else None, at_ns
        )
        state.node_id = parse_interface_note(comment).node
        state.has_opening = is_opening
        return state, 0 if is_client else 1

    def _add(self, client: bytes, opened_ns: int | None, first_ns: int) -> ConnectionState:
        flows = (client, reverse(client))
        state = self.states.add(flows, opened_ns, self._connection_id(flows, opened_ns), first_ns)
        self._register_flows(state)
        return state

    def _register_flows(self, state: ConnectionState) -> None:
        """Assign both flows of a connection to it."""
        for side in (0, 1):
            number = self._flows.find_or_add(state.flows[side])
            if number >= len(self._direction_ids):
                self._grow()
            self._direction_ids[number] = 2 * state.number + side

    def _connection_id(self, flows: tuple[bytes, bytes], opened_ns: int | None) -> int:
        return connection_id(sender_text(flows[0]), sender_text(flows[1]), opened_ns, self._file)

    def add_or_update(self, state: ConnectionState, connection: Connection) -> ConnectionState:
        """Store a connection that the scalar code has recognised, and return its state.

        It is a new connection if `state` has frames already.
        """
        client = state.flows[0] if sender(state.flows[0]) == connection.client else state.flows[1]
        if state.is_marked(HAS_FRAMES):
            previous, state = state, self._add(client, connection.opened_ns, state.last_ns)
            state.irregular = previous.irregular
        else:
            state.set_client(client)
            state.opened_ns = connection.opened_ns
            state.connection_id = self._connection_id(state.flows, state.opened_ns)
            state.mark(CLOSED, False)
            self._register_flows(state)
        state.mark(HAS_FRAMES | RECOGNIZED)
        state.has_opening = connection.opened_ns is not None
        state.node_id = connection.node_id
        return state


def _opens_new_connection(state: ConnectionState, side: int, seq: int) -> bool:
    """Whether a SYN with sequence number `seq` certainly opens another connection.

    If the earlier connection has not ended, the scalar code decides which one the segments belong
    to.
    """
    return state.irregular is None and state.is_marked(CLOSED) and state.initial_seqs[side] != seq


def _packet_note(chunk: ChunkPackets, packet: int) -> PacketNote:
    return parse_packet_note(comment_of(chunk.data, chunk.packets, packet))


def _resume_from_note(state: ConnectionState, side: int, note: PacketNote, seq: int) -> None:
    """Continue a connection that began in another file, from the note of kafkalite's recorder."""
    if note.opened is None or note.inside:
        return
    state.next_seqs[side] = seq
    state.opened_ns = note.opened
    state.mark(RECOGNIZED | HAS_FRAMES)
    state.connection_id = connection_id(*state.endpoint_names, note.opened)


def connection_table(
    file: str, states: Sequence[ConnectionState], included_numbers: Collection[int] = frozenset()
) -> pa.RecordBatch:
    """Return the table of a file's connections.

    It has the connections with frames, and those whose number is in `included_numbers`.
    """
    known = [
        state for state in states if state.is_marked(HAS_FRAMES) or state.number in included_numbers
    ]
    rows = [
        (
            file, state.connection_id, *state.endpoint_names, state.node_id, state.opened_ns,
            state.first_ns, state.last_ns, state.is_marked(CLOSED), state.has_opening,
            *(None if seq < 0 else seq for seq in state.next_seqs.tolist()),
        )
        for state in known
    ]  # fmt: skip
    columns = zip(*rows, strict=True) if rows else ((),) * len(CONNECTIONS)
    arrays = [
        pa.array(list(values), each.type) for values, each in zip(columns, CONNECTIONS, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=CONNECTIONS)
