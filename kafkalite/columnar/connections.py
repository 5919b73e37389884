"""Whose segments are whose: the connections of a file as they appear in its chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafkalite.capture.notes import interface_note, packet_note
from kafkalite.capture.packets import reverse, sender
from kafkalite.columnar.blocks import comment_of
from kafkalite.columnar.lines import Line, connection_id
from kafkalite.columnar.packets import ACK, SYN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.notes import PacketNote
    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.captured import Interface, Packets
    from kafkalite.columnar.packets import Segments


class Connections:
    """Every connection of one file, and the flows of both its directions."""

    def __init__(self, file: str) -> None:
        self.lines: list[Line] = []
        self._file = file
        self._sides: dict[bytes, tuple[Line, int]] = {}

    def groups(
        self,
        data: Bytes,
        packets: Packets,
        segments: Segments,
        firsts: Ints,
        interfaces: Sequence[Interface],
    ) -> Ints:
        """Return for each flow twice the number of its connection, and one more for responses.

        `firsts` are the first segments of the flows.
        """
        groups = np.empty(len(firsts), np.int64)
        address = segments.address[firsts].tolist()
        is_v6, ports = segments.is_v6[firsts].tolist(), segments.ports[firsts].tolist()
        flags, seq = segments.flags[firsts].tolist(), segments.seq[firsts].tolist()
        for index, at in enumerate(address):
            size = 32 if is_v6[index] else 8
            flow = data[at : at + size].tobytes() + ports[index].to_bytes(4)
            packet = int(segments.packet[firsts[index]])
            line, side = self._find(flow, flags[index], packet, packets, interfaces)
            if line.next_seq[side] is None and not flags[index] & SYN:
                note = packet_note(comment_of(data, packets, packet))
                self._go_on(line, side, note, seq[index])
            groups[index] = 2 * line.number + side
        return groups

    def _find(
        self,
        flow: bytes,
        flags: int,
        packet: int,
        packets: Packets,
        interfaces: Sequence[Interface],
    ) -> tuple[Line, int]:
        known = self._sides.get(flow)
        opens = flags & SYN != 0
        if known is not None and not (opens and known[0].next_seq[known[1]] is not None):
            return known
        is_client = not (opens and flags & ACK)
        client = flow if is_client else reverse(flow)
        interface = interfaces[int(packets.interface[packet])]
        at_ns = int(packets.at_ns[packet])
        opened_ns = at_ns if opens else None
        line = Line(
            number=len(self.lines),
            flows=(client, reverse(client)),
            opened_ns=opened_ns,
            connection=connection_id(
                sender(client), sender(reverse(client)), opened_ns, self._file
            ),
            node_id=interface_note(interface.comments[0] if interface.comments else None).node,
            first_ns=at_ns,
        )
        self.lines.append(line)
        self._sides[client] = line, 0
        self._sides[reverse(client)] = line, 1
        return line, 0 if is_client else 1

    def _go_on(self, line: Line, side: int, note: PacketNote, seq: int) -> None:
        """Take up a connection that our recorder says goes on from another file."""
        if note.opened is None:
            return
        line.next_seq[side] = seq
        line.opened_ns = note.opened
        line.is_judged = True
        line.connection = connection_id(line.client, line.broker, note.opened)
