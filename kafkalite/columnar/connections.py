"""Whose segments are whose: the connections of a file as they appear in its chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.capture.notes import PacketNote, interface_note, packet_note
from kafkalite.capture.packets import reverse, sender
from kafkalite.columnar.arrays import where
from kafkalite.columnar.blocks import comment_of
from kafkalite.columnar.flows import Flows
from kafkalite.columnar.lines import (
    APPEARED,
    JUDGED,
    LAST_NS,
    NEXT,
    OVER,
    UNKNOWN,
    Lines,
    connection_id,
    end_text,
)
from kafkalite.columnar.packets import ACK, SYN
from kafkalite.columnar.tables import CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkalite.capture.model import Connection
    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.captured import Interface, Packets
    from kafkalite.columnar.lines import Line
    from kafkalite.columnar.packets import Segments


class Seen(NamedTuple):
    """A chunk's bytes, and the packets and segments in them."""

    data: Bytes
    packets: Packets
    segments: Segments
    interfaces: Sequence[Interface]


class Connections:
    """Every connection of one file, and the flows of both its directions."""

    def __init__(self, file: str, *, are_within: bool = False) -> None:
        """Follow those of a file; its name makes their numbers where nothing better does."""
        self.lines = Lines()
        self.are_within = are_within
        """Whether it is a later part of a file, before which most of them began."""
        self._file = file
        self._flows = Flows()
        self._groups = np.empty(0, np.int64)
        """By flow: twice the number of its connection, and one more for responses."""

    def groups(self, seen: Seen) -> Ints:
        """Return for each segment twice the number of its connection, one more for responses."""
        segments, lines = seen.segments, self.lines
        flows, firsts = self._flows.numbered(seen.data, segments)
        here = flows[firsts]
        self._make_room()
        groups = self._groups[here]
        opens = segments.flags[firsts] & SYN != 0
        is_new = (groups < 0) | opens | (lines.sides[groups, NEXT] < 0)
        for index in where(is_new).tolist():
            self._met(seen, int(here[index]), int(firsts[index]))
        # The other side of a connection whose ports are used again is another one's, too.
        for index in where((self._groups[here] != groups) & ~is_new).tolist():
            self._met(seen, int(here[index]), int(firsts[index]))
        groups = self._groups[here]
        # Near enough: the last time that a chunk began with the connection in it.
        lines.ends[groups >> 1, LAST_NS] = seen.packets.at_ns[segments.packet[firsts]]
        return self._groups[flows]

    def known(self, data: Bytes, segments: Segments) -> Ints:
        """Return the same without following new ones: -1 stands for those."""
        flows, _ = self._flows.numbered(data, segments)
        self._make_room()
        return self._groups[flows]

    def _make_room(self) -> None:
        """Have a place for every flow, and for one more of each new connection."""
        lacking = 2 * self._flows.count - len(self._groups)
        if lacking > 0:
            more = np.full(lacking + len(self._groups), UNKNOWN, np.int64)
            self._groups = np.concatenate([self._groups, more])

    def _met(self, seen: Seen, flow: int, first: int) -> None:
        """Find out whose a flow is that has opened a connection, or goes one on."""
        opens = bool(seen.segments.flags[first] & SYN)
        seq = int(seen.segments.seq[first])
        note = PacketNote() if opens else _note(seen, int(seen.segments.packet[first]))
        line, side = self._find(seen, flow, first, note)
        if line.next_seqs[side] < 0 and not opens and line.exact is None:
            _go_on(line, side, note, seq)

    def _find(self, seen: Seen, flow: int, first: int, note: PacketNote) -> tuple[Line, int]:
        flags, seq = int(seen.segments.flags[first]), int(seen.segments.seq[first])
        packet = int(seen.segments.packet[first])
        group = int(self._groups[flow])
        opens = flags & SYN != 0
        if group >= 0:
            known = self.lines[group >> 1]
            if not (opens and _is_over(known, group & 1, seq)):
                return known, group & 1
        name = self._flows.name(flow)
        is_client = not (opens and flags & ACK)
        if not opens:
            is_client = note.opened is None or note.client != end_text(reverse(name))
        interface = seen.interfaces[int(seen.packets.interface[packet])]
        at_ns = int(seen.packets.at_ns[packet])
        comment = interface.comments[0] if interface.comments else None
        line = self._add(name if is_client else reverse(name), at_ns if opens else None, at_ns)
        line.node_id = interface_note(comment).node
        line.begins_here = opens
        return line, 0 if is_client else 1

    def _add(self, client: bytes, opened_ns: int | None, first_ns: int) -> Line:
        flows = (client, reverse(client))
        line = self.lines.add(flows, opened_ns, self._identity(flows, opened_ns), first_ns)
        self._place(line)
        return line

    def _place(self, line: Line) -> None:
        """Let the flows of a connection be known as its own."""
        for side in (0, 1):
            number = self._flows.number(line.flows[side])
            if number >= len(self._groups):
                self._make_room()
            self._groups[number] = 2 * line.number + side

    def _identity(self, flows: tuple[bytes, bytes], opened_ns: int | None) -> int:
        return connection_id(end_text(flows[0]), end_text(flows[1]), opened_ns, self._file)

    def appear(self, line: Line, connection: Connection) -> Line:
        """Return the line of a connection that has appeared between the ends of `line`."""
        client = line.flows[0] if sender(line.flows[0]) == connection.client else line.flows[1]
        if line.is_marked(APPEARED):
            before, line = line, self._add(client, connection.opened_ns, line.last_ns)
            line.exact = before.exact
        else:
            line.turn(client)
            line.opened_ns = connection.opened_ns
            line.connection = self._identity(line.flows, line.opened_ns)
            line.mark(OVER, False)
            self._place(line)
        line.mark(APPEARED | JUDGED)
        line.begins_here = connection.opened_ns is not None
        line.node_id = connection.node_id
        return line


def _is_over(line: Line, side: int, seq: int) -> bool:
    """Whether an opening that begins at `seq` is another connection's than this one, for sure.

    Where the one before has not ended, which of both a segment belongs to is for the exact way.
    """
    return line.exact is None and line.is_marked(OVER) and line.initials[side] != seq


def _note(seen: Seen, packet: int) -> PacketNote:
    return packet_note(comment_of(seen.data, seen.packets, packet))


def _go_on(line: Line, side: int, note: PacketNote, seq: int) -> None:
    """Take up a connection that our recorder says goes on from another file."""
    if note.opened is None or note.inside:
        return
    line.next_seqs[side] = seq
    line.opened_ns = note.opened
    line.mark(JUDGED | APPEARED)
    line.connection = connection_id(*line.names, note.opened)


def table_of(
    file: str, lines: Sequence[Line], kept: Collection[int] = frozenset()
) -> pa.RecordBatch:
    """Return what a file says of its connections, and of `kept` ones that it does not know."""
    known = [line for line in lines if line.is_marked(APPEARED) or line.number in kept]
    rows = [
        (
            file, line.connection, *line.names, line.node_id, line.opened_ns, line.first_ns,
            line.last_ns, line.is_marked(OVER), line.begins_here,
            *(None if seq < 0 else seq for seq in line.next_seqs.tolist()),
        )
        for line in known
    ]  # fmt: skip
    columns = zip(*rows, strict=True) if rows else ((),) * len(CONNECTIONS)
    arrays = [
        pa.array(list(values), each.type) for values, each in zip(columns, CONNECTIONS, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=CONNECTIONS)
