"""One connection, written down: its frames as packets, each told from its request to its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalite.capture.cutting import HEAD_BYTES, LENGTH_BYTES, Cutter
from kafkalite.capture.messages import CORRELATION_BYTES
from kafkalite.capture.notes import PacketNote, packet_text

if TYPE_CHECKING:
    from kafkalite.capture.cutting import Piece
    from kafkalite.capture.judging import Judge
    from kafkalite.capture.pcapng import Buffer
    from kafkalite.capture.rotation import Rotation
    from kafkalite.capture.synthetic import Way, Wire


class Transcript:
    """What is known of one connection, from its handshake to its farewell."""

    __slots__ = ("_answers", "_judge", "_requests", "_rotation", "_wire", "client")

    def __init__(self, wire: Wire, client: str, rotation: Rotation, judge: Judge) -> None:
        self._wire = wire
        self.client = client
        """The client's end, as people write it."""
        self._judge = judge
        requests = Cutter(
            judge.plain_requests, judge.request, HEAD_BYTES, keeps_raw=judge.keeps_raw
        )
        answers = Cutter(
            judge.plain_responses,
            judge.response,
            LENGTH_BYTES + CORRELATION_BYTES,
            keeps_raw=judge.keeps_raw,
        )
        self._rotation = rotation
        self._requests = _Side(requests, wire.to_broker, rotation.serial)
        self._answers = _Side(answers, wire.to_client, rotation.serial)
        for block in wire.open():
            rotation.add(block)

    def received(self, at_ns: int, data: Buffer) -> None:
        """Write down bytes from the client."""
        side = self._requests
        pieces: list[Piece] = []
        inside = side.cutter.inside
        side.cutter.feed(data, pieces)
        if pieces:
            self._write(at_ns, side, self._answers, pieces, inside)

    def sent(self, at_ns: int, data: Buffer) -> None:
        """Write down bytes to the client."""
        side = self._answers
        pieces: list[Piece] = []
        inside = side.cutter.inside
        side.cutter.feed(data, pieces)
        if pieces:
            self._write(at_ns, side, self._requests, pieces, inside)

    def finish(self, at_ns: int, *, is_closed: bool) -> None:
        """Write down what is left of both directions; nothing more will come."""
        for side, other in ((self._requests, self._answers), (self._answers, self._requests)):
            pieces: list[Piece] = []
            inside = side.cutter.inside
            side.cutter.finish(pieces)
            if pieces:
                self._write(at_ns, side, other, pieces, inside)
        if is_closed:
            note = None
            if self._requests.file != self._rotation.serial:
                note = packet_text(self._introduction(PacketNote(), 0))
            for block in self._wire.close(at_ns, note):
                self._rotation.add(block)

    def _write(
        self, at_ns: int, side: _Side, other: _Side, pieces: list[Piece], inside: int
    ) -> None:
        rotation, block = self._rotation, side.way.block
        interface, acknowledged = self._wire.interface, other.way.sequence
        if side.file != rotation.serial:
            side.file = rotation.serial
            # What a reader of this file alone could not know.
            first, said = pieces[0]
            pieces[0] = (first, self._introduction(said or PacketNote(), inside))
        for data, note in pieces:
            comment = None if note is None else packet_text(note)
            rotation.add(block(interface, at_ns, acknowledged, data, comment=comment))

    def _introduction(self, note: PacketNote, inside: int) -> PacketNote:
        software, version = self._judge.software or (None, None)
        return replace(
            note,
            opened=self._wire.opened_ns,
            inside=inside or None,
            client=self.client,
            software=software,
            software_version=version,
        )


class _Side:
    """One direction: how it is cut, what its packets are like, and which file last had one."""

    __slots__ = ("cutter", "file", "way")

    def __init__(self, cutter: Cutter, way: Way, file: int) -> None:
        self.cutter = cutter
        self.way = way
        self.file = file
