"""Scribe: what happens on connections, put into the files of a capture."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite import __version__
from kafkalite.capture import pcapng
from kafkalite.capture.judging import Judge, Rules
from kafkalite.capture.model import Endpoint
from kafkalite.capture.notes import InterfaceNote, interface_text
from kafkalite.capture.rotation import DEFAULT_FILE_BYTES, Rotation
from kafkalite.capture.synthetic import Wire
from kafkalite.capture.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.capture.pcapng import Buffer

_SECOND_NS: Final = 1_000_000_000
_NOWHERE: Final = "0.0.0.0"  # noqa: S104 - stands for an address that nobody knows


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """What a recording keeps, and in how large pieces."""

    keep_secrets: bool = False
    """Whether passwords and tokens are written as they are."""
    snap_records: int | None = None
    """So many bytes of each record's key, value and header values are kept; None for all."""
    file_bytes: int = DEFAULT_FILE_BYTES
    """A file that is larger is followed by a new one."""
    file_s: float | None = None
    """So is one that is older."""


class Ends(NamedTuple):
    """Between whom a connection is."""

    client: Endpoint
    broker: Endpoint
    node_id: int
    listener: str


class Scribe:
    """Writes connections down; each is known by a number that its owner chose."""

    def __init__(
        self, directory: str, options: CaptureOptions, tell: Callable[[str], None]
    ) -> None:
        self._rules = Rules(options.snap_records, keep_secrets=options.keep_secrets)
        self._tell = tell
        self._interfaces: dict[tuple[int, str], int] = {}
        self._transcripts: dict[int, Transcript] = {}
        self._rotation = Rotation(
            directory,
            file_bytes=options.file_bytes,
            file_ns=None if options.file_s is None else int(options.file_s * _SECOND_NS),
            head=self._head,
            tail=self._tail,
            tell=tell,
        )

    def begin(self, at_ns: int) -> None:
        """Open the first file; CaptureError when that cannot be."""
        self._rotation.begin(at_ns)

    def opened(self, number: int, at_ns: int, ends: Ends) -> None:
        """Begin a connection that a client has opened."""
        rotation = self._rotation
        rotation.make_ready(at_ns)
        door = (ends.node_id, ends.listener)
        interface = self._interfaces.get(door)
        if interface is None:
            interface = self._interfaces[door] = len(self._interfaces)
            rotation.add((_interface(*door),))
        client = _numeric(ends.client)
        wire = Wire(client, _numeric(ends.broker), interface, at_ns, number)
        self._transcripts[number] = Transcript(wire, str(client), rotation, Judge(self._rules))

    def received(self, number: int, at_ns: int, data: Buffer) -> None:
        """Write down bytes that a client has sent, which must stay as they are until `flush`."""
        transcript = self._transcripts.get(number)
        if transcript is not None:
            self._rotation.make_ready(at_ns)
            try:
                transcript.received(at_ns, data)
            except Exception as fault:  # noqa: BLE001 - whatever it is, the others go on
                self._give_up(number, fault)

    def sent(self, number: int, at_ns: int, data: Buffer) -> None:
        """Write down bytes that a client is sent, likewise."""
        transcript = self._transcripts.get(number)
        if transcript is not None:
            self._rotation.make_ready(at_ns)
            try:
                transcript.sent(at_ns, data)
            except Exception as fault:  # noqa: BLE001 - whatever it is, the others go on
                self._give_up(number, fault)

    def closed(self, number: int, at_ns: int) -> None:
        """End a connection."""
        if number in self._transcripts:
            self._rotation.make_ready(at_ns)
            self._finish(number, at_ns, is_closed=True)

    def _finish(self, number: int, at_ns: int, *, is_closed: bool) -> None:
        try:
            self._transcripts[number].finish(at_ns, is_closed=is_closed)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the others go on
            self._give_up(number, fault)
        else:
            del self._transcripts[number]

    def _give_up(self, number: int, fault: Exception) -> None:
        """Record a connection no further: what is not understood might be a secret."""
        transcript = self._transcripts.pop(number)
        self._tell(
            f"capture has a fault, and {transcript.client} is recorded no further: {fault!r}"
        )

    def lose_all(self) -> None:
        """Give up the connections there are: what passed on them is not known any more."""
        self._transcripts.clear()

    def flush(self) -> None:
        """Hand all that was written down to the operating system."""
        self._rotation.flush()

    def close(self, at_ns: int) -> None:
        """End the recording; connections that are still open have no end in it."""
        for number in tuple(self._transcripts):
            self._finish(number, at_ns, is_closed=False)
        self._rotation.close()

    def _head(self) -> bytes:
        begin = pcapng.section(
            f"kafkalite {__version__}", "Kafka traffic; TCP and IP are made up around its bytes"
        )
        return begin + b"".join(_interface(*each) for each in self._interfaces)

    def _tail(self, at_ns: int) -> bytes:
        return b"".join(pcapng.statistics(each, at_ns) for each in self._interfaces.values())


def _interface(node: int, listener: str) -> bytes:
    note = InterfaceNote(node=node, listener=listener)
    return pcapng.interface(f"node-{node}-{listener}", interface_text(note))


def _numeric(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint whose address fits into a header, whatever it was."""
    host = endpoint.host.partition("%")[0]
    try:
        ipaddress.ip_address(host)
    except ValueError:
        host = _NOWHERE
    return Endpoint(host, endpoint.port & 0xFFFF)
