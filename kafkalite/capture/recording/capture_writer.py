"""`CaptureWriter`: writes connections to capture files."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite import __version__
from kafkalite.capture.formats import pcapng
from kafkalite.capture.formats.comments import InterfaceNote, encode_interface_note
from kafkalite.capture.formats.tcp_packets import TcpConnection
from kafkalite.capture.model import Endpoint
from kafkalite.capture.recording.connection_writer import ConnectionWriter
from kafkalite.capture.recording.file_rotation import DEFAULT_FILE_BYTES, FileRotation
from kafkalite.capture.recording.frame_policy import FramePolicy, FrameRules
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.capture.formats.pcapng import Buffer

_UNKNOWN_HOST: Final = "0.0.0.0"  # noqa: S104 - represents an unknown address


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """Options of a recording."""

    keep_secrets: bool = False
    """Whether passwords and tokens are written unchanged."""
    max_field_bytes: int | None = None
    """Maximum bytes of each record's key, value and header values; None for no limit."""
    file_bytes: int = DEFAULT_FILE_BYTES
    """File size in bytes after which a new file begins."""
    file_s: float | None = None
    """File age in seconds after which a new file begins; None for no limit."""


class OpenedConnection(NamedTuple):
    """The endpoints of a connection, and the broker's node id and listener."""

    client: Endpoint
    broker: Endpoint
    node_id: int
    listener: str


class CaptureWriter:
    """Writes connections to capture files; the caller chooses the number of each connection."""

    def __init__(
        self, directory: str, options: CaptureOptions, warn: Callable[[str], None]
    ) -> None:
        self._rules = FrameRules(options.max_field_bytes, keep_secrets=options.keep_secrets)
        self._warn = warn
        self._interfaces: dict[tuple[int, str], int] = {}
        self._connections: dict[int, ConnectionWriter] = {}
        self._rotation = FileRotation(
            directory,
            file_bytes=options.file_bytes,
            file_ns=None
            if options.file_s is None
            else int(options.file_s * NANOSECONDS_PER_SECOND),
            header=self._file_header,
            trailer=self._trailer,
            warn=warn,
        )

    def begin(self, at_ns: int) -> None:
        """Open the first file; raises CaptureError if that fails."""
        self._rotation.begin(at_ns)

    def open_connection(self, number: int, at_ns: int, connection: OpenedConnection) -> None:
        """Start to write a connection that a client has opened."""
        rotation = self._rotation
        rotation.rotate_if_due(at_ns)
        node_listener = (connection.node_id, connection.listener)
        interface = self._interfaces.get(node_listener)
        if interface is None:
            interface = self._interfaces[node_listener] = len(self._interfaces)
            rotation.add((_interface_block(*node_listener),))
        client = _with_numeric_address(connection.client)
        tcp = TcpConnection(
            client, _with_numeric_address(connection.broker), interface, at_ns, number
        )
        self._connections[number] = ConnectionWriter(
            tcp, str(client), rotation, FramePolicy(self._rules)
        )

    def write_received(self, number: int, at_ns: int, data: Buffer) -> None:
        """Write bytes that a client sent; they must not change until `flush`."""
        self._write(number, at_ns, data, ConnectionWriter.write_received)

    def write_sent(self, number: int, at_ns: int, data: Buffer) -> None:
        """Write bytes that are sent to a client; they must not change until `flush`."""
        self._write(number, at_ns, data, ConnectionWriter.write_sent)

    def _write(
        self,
        number: int,
        at_ns: int,
        data: Buffer,
        write: Callable[[ConnectionWriter, int, Buffer], None],
    ) -> None:
        connection = self._connections.get(number)
        if connection is not None:
            self._rotation.rotate_if_due(at_ns)
            try:
                write(connection, at_ns, data)
            except Exception as error:  # noqa: BLE001 - other connections are still recorded
                self._abandon(number, error)

    def close_connection(self, number: int, at_ns: int) -> None:
        """Write the end of a connection."""
        if number in self._connections:
            self._rotation.rotate_if_due(at_ns)
            self._finish_connection(number, at_ns, is_closed=True)

    def _finish_connection(self, number: int, at_ns: int, *, is_closed: bool) -> None:
        try:
            self._connections[number].finish(at_ns, is_closed=is_closed)
        except Exception as error:  # noqa: BLE001 - other connections are still recorded
            self._abandon(number, error)
        else:
            del self._connections[number]

    def _abandon(self, number: int, error: Exception) -> None:
        """Stop recording a connection, because bytes that cannot be parsed may be secret."""
        connection = self._connections.pop(number)
        self._warn(f"stopped recording {connection.client} after an internal error: {error!r}")

    def drop_connections(self) -> None:
        """Stop recording all open connections, because bytes of them were lost."""
        self._connections.clear()

    def flush(self) -> None:
        """Hand all written bytes to the operating system."""
        self._rotation.flush()

    def close(self, at_ns: int) -> None:
        """End the recording; connections that are still open get no closing packets."""
        for number in tuple(self._connections):
            self._finish_connection(number, at_ns, is_closed=False)
        self._rotation.close()

    def _file_header(self) -> bytes:
        section = pcapng.section(
            f"kafkalite {__version__}", "Kafka traffic; TCP and IP are made up around its bytes"
        )
        return section + b"".join(_interface_block(*each) for each in self._interfaces)

    def _trailer(self, at_ns: int) -> bytes:
        return b"".join(pcapng.statistics(each, at_ns) for each in self._interfaces.values())


def _interface_block(node: int, listener: str) -> bytes:
    note = InterfaceNote(node=node, listener=listener)
    return pcapng.interface(f"node-{node}-{listener}", encode_interface_note(note))


def _with_numeric_address(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint with a numeric address; an unknown address becomes 0.0.0.0."""
    host = endpoint.host.partition("%")[0]
    try:
        ipaddress.ip_address(host)
    except ValueError:
        host = _UNKNOWN_HOST
    return Endpoint(host, endpoint.port & 0xFFFF)
