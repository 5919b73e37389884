"""Whose segments are whose: the connections of a file as they appear in its chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.capture.notes import PacketNote, interface_note, packet_note
from kafkalite.capture.packets import reverse, sender
from kafkalite.columnar.blocks import comment_of
from kafkalite.columnar.lines import Line, connection_id
from kafkalite.columnar.packets import ACK, SYN
from kafkalite.columnar.tables import CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.capture.model import Connection
    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.captured import Interface, Packets
    from kafkalite.columnar.packets import Segments


class Seen(NamedTuple):
    """A chunk's bytes, and the packets and segments in them."""

    data: Bytes
    packets: Packets
    segments: Segments
    interfaces: Sequence[Interface]


class Connections:
    """Every connection of one file, and the flows of both its directions."""

    def __init__(self, file: str) -> None:
        """Follow those of a file; its name makes their numbers where nothing better does."""
        self.lines: list[Line] = []
        self._file = file
        self._sides: dict[bytes, tuple[Line, int]] = {}

    def groups(self, seen: Seen, firsts: Ints) -> Ints:
        """Return for each flow twice the number of its connection, and one more for responses.

        `firsts` are the first segments of the flows.
        """
        groups = np.empty(len(firsts), np.int64)
        segments = seen.segments
        packets = segments.packet[firsts]
        # Near enough: the last time that a chunk began with the connection in it.
        rows = zip(
            _keys(seen.data, segments, firsts),
            (segments.flags[firsts] & SYN != 0).tolist(),
            seen.packets.at_ns[packets].tolist(),
            strict=True,
        )
        sides = self._sides
        for index, (flow, opens, at_ns) in enumerate(rows):
            known = sides.get(flow)
            if known is None or opens or known[0].next_seq[known[1]] is None:
                known = self._met(seen, flow, int(firsts[index]))
            line, side = known
            line.last_ns = at_ns
            groups[index] = 2 * line.number + side
        return groups

    def _met(self, seen: Seen, flow: bytes, first: int) -> tuple[Line, int]:
        """Return whose a flow is that has opened a connection, or goes one on."""
        opens = bool(seen.segments.flags[first] & SYN)
        seq = int(seen.segments.seq[first])
        note = PacketNote() if opens else _note(seen, int(seen.segments.packet[first]))
        line, side = self._find(seen, flow, first, note)
        if line.next_seq[side] is None and not opens and line.exact is None:
            _go_on(line, side, note, seq)
        return line, side

    def known(self, data: Bytes, segments: Segments, firsts: Ints) -> Ints:
        """Return the same without following new ones: -1 stands for those."""
        found = (self._sides.get(flow) for flow in _keys(data, segments, firsts))
        return np.array(
            [-1 if each is None else 2 * each[0].number + each[1] for each in found], np.int64
        )

    def _find(self, seen: Seen, flow: bytes, first: int, note: PacketNote) -> tuple[Line, int]:
        flags, seq = int(seen.segments.flags[first]), int(seen.segments.seq[first])
        packet = int(seen.segments.packet[first])
        known = self._sides.get(flow)
        opens = flags & SYN != 0
        if known is not None and not (opens and _is_over(known[0], known[1], seq)):
            return known
        is_client = not (opens and flags & ACK)
        if not opens:
            is_client = note.opened is None or note.client != str(sender(reverse(flow)))
        client = flow if is_client else reverse(flow)
        interface = seen.interfaces[int(seen.packets.interface[packet])]
        at_ns = int(seen.packets.at_ns[packet])
        comment = interface.comments[0] if interface.comments else None
        line = self._add(client, at_ns if opens else None, at_ns)
        line.node_id = interface_note(comment).node
        line.begins_here = opens
        return line, 0 if is_client else 1

    def _add(self, client: bytes, opened_ns: int | None, first_ns: int) -> Line:
        flows = (client, reverse(client))
        line = Line(
            number=len(self.lines),
            flows=flows,
            opened_ns=opened_ns,
            connection=self._identity(flows, opened_ns),
            first_ns=first_ns,
        )
        self.lines.append(line)
        for side in (0, 1):
            self._sides[flows[side]] = line, side
        return line

    def _identity(self, flows: tuple[bytes, bytes], opened_ns: int | None) -> int:
        return connection_id(sender(flows[0]), sender(flows[1]), opened_ns, self._file)

    def appear(self, line: Line, connection: Connection) -> Line:
        """Return the line of a connection that has appeared between the ends of `line`."""
        client = line.flows[0] if sender(line.flows[0]) == connection.client else line.flows[1]
        if line.has_appeared:
            before, line = line, self._add(client, connection.opened_ns, line.last_ns)
            line.exact = before.exact
        else:
            line.turn(client)
            line.opened_ns = connection.opened_ns
            line.connection = self._identity(line.flows, line.opened_ns)
            line.is_over = False
            for side in (0, 1):
                self._sides[line.flows[side]] = line, side
        line.has_appeared = line.is_judged = True
        line.begins_here = connection.opened_ns is not None
        line.node_id = connection.node_id
        return line


def _keys(data: Bytes, segments: Segments, firsts: Ints) -> Iterator[bytes]:
    """Yield the names of flows as `capture` forms them, by their first segments."""
    address = segments.address[firsts]
    sizes = np.where(segments.is_v6[firsts] == 1, 32, 8)
    memory = data.data
    ports = segments.ports[firsts].astype(">u4").tobytes()
    rows = zip(address.tolist(), (address + sizes).tolist(), strict=True)
    for nth, (start, stop) in enumerate(rows):
        yield bytes(memory[start:stop]) + ports[4 * nth : 4 * nth + 4]


def _is_over(line: Line, side: int, seq: int) -> bool:
    """Whether an opening that begins at `seq` is another connection's than this one, for sure.

    Where the one before has not ended, which of both a segment belongs to is for the exact way.
    """
    return line.exact is None and line.is_over and line.initials[side] != seq


def _note(seen: Seen, packet: int) -> PacketNote:
    return packet_note(comment_of(seen.data, seen.packets, packet))


def _go_on(line: Line, side: int, note: PacketNote, seq: int) -> None:
    """Take up a connection that our recorder says goes on from another file."""
    if note.opened is None or note.inside:
        return
    line.next_seq[side] = seq
    line.opened_ns = note.opened
    line.is_judged = line.has_appeared = True
    line.connection = connection_id(sender(line.flows[0]), sender(line.flows[1]), note.opened)


def table_of(file: str, lines: Sequence[Line]) -> pa.RecordBatch:
    """Return what a file says of its connections."""
    known = [line for line in lines if line.has_appeared]
    rows = [
        (
            file, line.connection, str(line.client), str(line.broker), line.node_id,
            line.opened_ns, line.first_ns, line.last_ns, line.is_over, line.begins_here,
            line.next_seq[0], line.next_seq[1],
        )
        for line in known
    ]  # fmt: skip
    columns = zip(*rows, strict=True) if rows else ((),) * len(CONNECTIONS)
    arrays = [
        pa.array(list(values), each.type) for values, each in zip(columns, CONNECTIONS, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=CONNECTIONS)
