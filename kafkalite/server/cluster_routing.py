"""ClusterRouting: passes each connection of a port to the cluster that its client names.

A client names a cluster by the prefix of its client id, `worker-3/`, or by the host name in its TLS
handshake (SNI). The first request decides. Nothing of the routing remains in the path of later
bytes: the connection of the cluster takes the place of the one that read the first bytes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from kafkalite.gateway.error_messages import printable
from kafkalite.security.client_addresses import is_address
from kafkalite.server.connection import Connection
from kafkalite.server.settings import SettingsError
from kafkalite.server.virtual_clusters import CLIENT_ID, ClusterError, check_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.server.addresses import ListenerSpec
    from kafkalite.server.broker import Fork
    from kafkalite.server.listener import ListenerContext
    from kafkalite.server.virtual_clusters import VirtualClusters

SEPARATOR: Final = "/"
"""What follows the name of a cluster in a client id."""
FIRST_REQUEST_TIMEOUT_S: Final = 30.0
"""The time for the first request, so that silent clients do not occupy connections."""
MAX_UNROUTED: Final = 1_000
"""Connections without a first request. Beyond it, the oldest is closed, so that clients that are
silent or attack do not keep others out."""

_LENGTH_END: Final = 14
"""The end of the length of the client id, after the frame length and ten bytes of the header."""
_HEADER_BYTES: Final = 10
"""The bytes of a request before its client id."""
_MAX_FRAME_BYTES: Final = 1 << 28
"""Above what brokers accept, and below the first bytes of other protocols, such as "GET "."""
_MAX_NAME_BYTES: Final = 64
"""The bytes of a client id in which the separator must be: after a name of 63 characters."""
_BUFFER_BYTES: Final = 4096


class ClusterRouting:
    """The clusters of one broker, and the connections that belong to none of them yet."""

    __slots__ = ("_clusters", "_unrouted", "by_client_id")

    def __init__(self, clusters: VirtualClusters, kind: str) -> None:
        """`kind` is `client-id` or `sni`."""
        self._clusters = clusters
        self._unrouted: dict[UnroutedConnection, None] = {}
        self.by_client_id = kind == CLIENT_ID

    @staticmethod
    def check(listeners: Iterable[ListenerSpec]) -> None:
        """Raise SettingsError if clients cannot name a cluster in a handshake."""
        for spec in listeners:
            host = spec.advertised_address(0, 0).host
            if spec.protocol.uses_tls and not is_address(host):
                return
        raise SettingsError(
            "--clusters sni needs a listener with TLS that advertises a host name, such as "
            "--listen SSL://localhost:9093 --advertise SSL://kafka.localhost:9093"
        )

    def new_connection(self, context: ListenerContext, domain: str) -> UnroutedConnection:
        """Return the protocol of a new connection.

        `domain` is the host that the broker's own cluster advertises.
        """
        return UnroutedConnection(self, context, domain)

    def add(self, connection: UnroutedConnection) -> None:
        """Add a connection; closes the oldest one if there are too many."""
        if len(self._unrouted) >= MAX_UNROUTED:
            oldest = next(iter(self._unrouted))
            oldest.close(f"{MAX_UNROUTED} later connections have sent no complete request yet")
        self._unrouted[connection] = None

    def remove(self, connection: UnroutedConnection) -> None:
        """Remove a connection; no effect for an unknown one."""
        self._unrouted.pop(connection, None)

    def close(self) -> None:
        """Close the connections that belong to no cluster yet."""
        for connection in tuple(self._unrouted):
            connection.abort()

    def find(self, name: str) -> Fork | None:
        """Return a running cluster; None if it must be started. Raises ClusterError."""
        found = self._clusters.get(name)
        if found is None:
            check_name(name)
        return found

    async def open(self, name: str) -> Fork:
        """Return a cluster that is started if needed; see `VirtualClusters.open`."""
        return await self._clusters.open(name)


class UnroutedConnection(asyncio.BufferedProtocol):
    """A connection until its client has named a cluster.

    With TLS, it is in the place of the connection and of its protocol.
    """

    __slots__ = (
        "_buffer",
        "_connection",
        "_context",
        "_domain",
        "_opening",
        "_principal",
        "_received",
        "_routing",
        "_timer",
        "_transport",
    )  # fmt: skip

    def __init__(self, routing: ClusterRouting, context: ListenerContext, domain: str) -> None:
        self._routing = routing
        self._context = context
        self._domain = domain
        self._buffer = bytearray(_BUFFER_BYTES)
        self._received = 0
        self._principal: str | None = None
        self._connection: Connection | None = None
        """The connection of the cluster, when it is known."""
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._routing.add(self)
        self._timer = asyncio.get_running_loop().call_later(
            FIRST_REQUEST_TIMEOUT_S, self.close, "the first request takes too long"
        )

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - this class chooses the size
        """Return the rest of a buffer that is larger than what names a cluster."""
        return memoryview(self._buffer)[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        """Pass the connection on if the bytes name a cluster."""
        self._received += nbytes
        try:
            name = self._named_cluster()
            if name is None:
                return
            if not name:
                self._pass_on(self._context)
                return
            cluster = self._routing.find(name)
            if cluster is not None:
                self._pass_to(cluster, name)
                return
        except ClusterError as error:
            self.close(str(error))
            return
        self._transport.pause_reading()
        self._opening = asyncio.ensure_future(self._open(name))

    def _named_cluster(self) -> str | None:
        """Return the name of a cluster; empty for the broker's own, None while bytes are missing.

        Raises ClusterError for an invalid name.
        """
        if self._routing.by_client_id:
            return name_in_client_id(memoryview(self._buffer)[: self._received])
        host = self._transport.get_extra_info("server_name")
        return name_in_host(host, self._domain)

    async def _open(self, name: str) -> None:
        try:
            cluster = await self._routing.open(name)
        except Exception as error:  # noqa: BLE001 - an exception must end this connection only
            self.close(f"the cluster {name} cannot be started: {printable(str(error))}")
            return
        if not self._transport.is_closing():
            self._transport.resume_reading()
            self._pass_to(cluster, name)

    def _pass_to(self, cluster: Fork, name: str) -> None:
        broker, own = cluster.broker, self._context
        context = None
        if broker is not None:
            context = broker.nodes.context_of(own.node.id, own.listener)
        if context is None:
            self.close(f"node {own.node.id} of the cluster {name} does not run")
        else:
            self._pass_on(context)

    def _pass_on(self, context: ListenerContext) -> None:
        """Let a connection of a cluster have the transport, and what was received."""
        self._end()
        self._connection = connection = Connection(context)
        protocol = context.protocol_of(connection)
        transport = self._transport
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._principal is not None:
            connection.set_principal(self._principal)
        received = memoryview(self._buffer)[: self._received]
        while received and not transport.is_closing():
            space = cast("memoryview", protocol.get_buffer(-1))
            count = min(len(space), len(received))
            space[:count] = received[:count]
            # The buffer cannot grow while a memoryview refers to it.
            del space
            protocol.buffer_updated(count)
            received = received[count:]

    def set_principal(self, principal: str) -> None:
        """Note the principal of the client's certificate."""
        self._principal = principal

    def eof_received(self) -> None:
        """Return None, so that the transport is closed."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """Forget the connection."""
        self._end()
        if self._opening is not None:
            self._opening.cancel()

    def close(self, reason: str) -> None:
        """Close the connection, and log the reason."""
        if self._connection is not None:
            self._connection.close(reason)
            return
        self._end()
        address = self._transport.get_extra_info("peername")
        host = address[0] if address else ""
        self._context.warn_about_client(
            host,
            "not routed",
            "connection closed",
            peer=f"{host}:{address[1]}" if address else "?",
            listener=self._context.listener,
            reason=reason,
        )
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._end()
        self._transport.abort()

    def _end(self) -> None:
        self._routing.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def name_in_client_id(received: memoryview) -> str | None:
    """Return the name of a cluster in the client id of a request.

    It is empty if the client id has no separator where the name of a cluster may end, and None
    while bytes are missing. Raises ClusterError for an invalid name.
    """
    if len(received) < _LENGTH_END:
        return None
    # A length of -1 is a client id of null.
    size = int.from_bytes(received[_LENGTH_END - 2 : _LENGTH_END], signed=True)
    if not _HEADER_BYTES + max(size, 0) <= int.from_bytes(received[:4]) <= _MAX_FRAME_BYTES:
        return ""  # not Kafka's protocol: the connection of the broker's own cluster says so
    searched = bytes(received[_LENGTH_END : _LENGTH_END + max(0, min(size, _MAX_NAME_BYTES))])
    name, separator, _ = searched.partition(SEPARATOR.encode())
    if separator:
        if not name:
            return ""
        text = name.decode(errors="replace")
        check_name(text)
        return text
    return None if len(searched) < min(size, _MAX_NAME_BYTES) else ""


def name_in_host(host: str | None, domain: str) -> str:
    """Return the name of a cluster in the host name of a handshake.

    It is empty for other hosts than those below `domain`.
    """
    name, dot, rest = (host or "").lower().rstrip(".").partition(".")
    return name if dot and rest == domain.lower() else ""
