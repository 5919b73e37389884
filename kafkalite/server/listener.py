"""Listener: the sockets on which one node accepts clients, under one listener name."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.system import BIND_OPTION
from kafkalite.server.addresses import Address, AddressError
from kafkalite.server.connection import Connection

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable, Iterable

    from kafkalite.cluster.node import Node, WarnAboutClient
    from kafkalite.cluster.pace import Pace
    from kafkalite.security.tls import TlsServer
    from kafkalite.server.addresses import ListenerSpec
    from kafkalite.server.admission import Admission
    from kafkalite.server.cluster_routing import ClusterRouting
    from kafkalite.server.logging import Log
    from kafkalite.server.memory_queue import MemoryQueue
    from kafkalite.server.sasl_listener import SaslListener
    from kafkalite.server.scheduler import Scheduler
    from kafkalite.server.tls_transport import TlsClient
    from kafkalite.wire.session import SessionSettings

BACKLOG = 4096
"""The maximum length of the kernel's queue, so large that it drops no SYN in a burst of clients."""

_LOOPBACKS = ("127.0.0.1", "::1")
_MAX_PORT_ATTEMPTS = 16
_MAX_TAKEN_PORTS = 100
"""Taken ports after which a node that is added gets no port."""
_UNAVAILABLE_FAMILY = frozenset((errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT))


class PortTakenError(AddressError):
    """An address whose port another socket uses."""


class ListenerContext(NamedTuple):
    """The parts of the broker that a connection of one listener uses."""

    node: Node
    listener: str
    admission: Admission
    session_settings: SessionSettings
    scheduler: Scheduler
    memory_queue: MemoryQueue
    log: Log
    warn_about_client: WarnAboutClient
    protocol_of: Callable[[Connection], asyncio.BufferedProtocol]
    """Returns the protocol for a transport: the connection, or one that records it."""
    sasl: SaslListener | None = None
    """The authentication of clients; None if they do not authenticate by SASL."""
    tls_server: TlsServer | None = None
    """None if connections are not encrypted."""
    routing: ClusterRouting | None = None
    """None if all clients belong to the cluster of the node."""


async def accept(
    loop: asyncio.AbstractEventLoop,
    new_protocol: Callable[[], asyncio.BaseProtocol],
    bound_sockets: Iterable[socket.socket],
    servers: list[asyncio.Server],
    tls: ssl.SSLContext | None = None,
) -> None:
    """Accept clients on bound sockets, which belong to `servers`, also if this is cancelled."""
    # Without `start_serving`, asyncio awaits nothing before the server is returned. A cancellation
    # would leave a socket that nothing closes.
    new_servers = [
        await loop.create_server(
            new_protocol, sock=each, backlog=BACKLOG, ssl=tls, start_serving=False
        )
        for each in bound_sockets
    ]
    servers += new_servers
    for server in new_servers:
        await server.start_serving()


class Listener:
    """The sockets of one listener of one node: bound when created, accepting when started.

    A stopped listener can be bound to its port again by `bind_again`. A relayed listener has no
    sockets: its clients are connected by `new_protocol`.
    """

    __slots__ = (
        "_servers",
        "_sockets",
        "advertised_address",
        "bound_address",
        "context",
        "is_for_controllers",
        "is_relayed",
        "name",
        "new_protocol",
        "node_index",
        "port",
        "protocol",
        "tls_server",
    )

    def __init__(self, spec: ListenerSpec, node_index: int) -> None:
        """Bind the address; raises AddressError if that is impossible."""
        self.name = spec.name
        self.protocol = spec.protocol
        self.is_for_controllers = spec.is_for_controllers
        self.node_index = node_index
        """The distance of the port from the port of the first node."""
        self.is_relayed = spec.is_relayed
        address = spec.listen_address.with_port_offset(node_index)
        self._sockets = [] if spec.is_relayed else bind(address)
        self._servers: list[asyncio.Server] = []
        self.tls_server: TlsServer | None = None
        """TLS with a certificate of the node; None if all nodes have the same one."""
        self.new_protocol: Callable[[], asyncio.BufferedProtocol] | None = None
        """Returns the protocol of the connection of a client; None while none is accepted."""
        self.context: ListenerContext | None = None
        """What connections use; None while none is accepted."""
        self.port: int = self._sockets[0].getsockname()[1] if self._sockets else address.port
        self.bound_address = Address(spec.listen_address.host, self.port)
        self.advertised_address = spec.advertised_address(self.port, node_index)

    async def start(self, loop: asyncio.AbstractEventLoop, context: ListenerContext) -> None:
        """Accept clients; `context` is given to their connections."""
        self.context = context
        self.new_protocol = new_protocol = self._protocol_factory(context)
        bound_sockets, self._sockets = self._sockets, []
        await accept(loop, new_protocol, bound_sockets, self._servers)

    def _protocol_factory(self, context: ListenerContext) -> Callable[[], asyncio.BufferedProtocol]:
        routing, domain = context.routing, self.advertised_address.host

        def new_connection() -> tuple[TlsClient, asyncio.BufferedProtocol]:
            if routing is not None:
                unrouted = routing.new_connection(context, domain)
                return unrouted, unrouted
            connection = Connection(context)
            return connection, context.protocol_of(connection)

        if context.tls_server is not None:
            return _tls_protocol_factory(
                context.tls_server, new_connection, context.node.cluster.pace
            )
        return lambda: new_connection()[1]

    def bind_again(self) -> None:
        """Bind the port of a stopped listener; raises AddressError if it was taken meanwhile."""
        if not self.is_relayed:
            self._sockets = bind(self.bound_address)

    def stop(self) -> None:
        """Accept no further clients; connected ones remain."""
        self.new_protocol = self.context = None
        for server in self._servers:
            server.close()
        for bound_socket in self._sockets:
            bound_socket.close()
        self._servers.clear()
        self._sockets.clear()


def bind_listener(
    spec: ListenerSpec, node_index: int, is_reserved: Callable[[Address], bool]
) -> Listener:
    """Return a listener of the node with this index, or of a later one if its port is taken.

    A port for which `is_reserved` returns true is not used. Raises AddressError if none of the
    ports can be bound.
    """
    for index in range(node_index, node_index + _MAX_TAKEN_PORTS):
        if is_reserved(spec.listen_address.with_port_offset(index)):
            continue
        try:
            return Listener(spec, index)
        except PortTakenError:
            continue
    first = spec.listen_address.with_port_offset(node_index)
    raise PortTakenError(
        f"cannot listen on {first}: it and the {_MAX_TAKEN_PORTS - 1} ports after it are in use"
    )


def _tls_protocol_factory(
    tls_server: TlsServer,
    new_connection: Callable[[], tuple[TlsClient, asyncio.BufferedProtocol]],
    pace: Pace | None,
) -> Callable[[], asyncio.BufferedProtocol]:
    """Return a function that creates the protocol of an encrypted connection."""
    from kafkalite.server.tls_transport import (  # noqa: PLC0415 - only with TLS
        TlsTransport,
        new_receive_buffer,
    )

    receive_buffer = new_receive_buffer()

    def new_protocol() -> asyncio.BufferedProtocol:
        connection, protocol = new_connection()
        return TlsTransport(tls_server, receive_buffer, connection, protocol)

    if pace is None:
        return new_protocol

    from kafkalite.server.delayed_handshakes import (  # noqa: PLC0415 - only with --pace
        DelayedTlsTransport,
    )

    def new_delayed_protocol() -> asyncio.BufferedProtocol:
        connection, protocol = new_connection()
        return DelayedTlsTransport(
            tls_server, receive_buffer, connection, protocol, pace.tls_answer_s
        )

    return new_delayed_protocol


def bind(address: Address) -> list[socket.socket]:
    """Return sockets bound to an address; `localhost` means its IPv4 and its IPv6 address.

    Clients resolve `localhost` to either address, so one socket would be reachable for some only.
    """
    for _ in range(_MAX_PORT_ATTEMPTS):
        try:
            return _bind_all(address)
        except OSError as error:
            is_taken = error.errno == errno.EADDRINUSE
            if is_taken and not address.port:
                continue  # the port chosen for IPv4 was taken for IPv6
            kind = PortTakenError if is_taken else AddressError
            raise kind(f"cannot listen on {address}: {_reason(error)}") from error
    raise AddressError(f"cannot listen on {address}: no port is free")


def _bind_all(address: Address) -> list[socket.socket]:
    hosts = _LOOPBACKS if address.host == "localhost" else (address.host,)
    bound_sockets: list[socket.socket] = []
    port = address.port
    try:
        for host in hosts:
            try:
                bound_socket = _bind_socket(host, port)
            except OSError as error:
                if error.errno in _UNAVAILABLE_FAMILY and host != hosts[0]:
                    continue
                raise
            bound_sockets.append(bound_socket)
            port = bound_socket.getsockname()[1]
    except OSError:
        for bound_socket in bound_sockets:
            bound_socket.close()
        raise
    return bound_sockets


def _bind_socket(host: str, port: int) -> socket.socket:
    # As bytes: for text, getaddrinfo would import the IDNA codec, even for ASCII names.
    name = host.encode() if host.isascii() else host
    family, kind, _, _, socket_address = socket.getaddrinfo(
        name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    # IPPROTO_TCP is explicit because asyncio sets TCP_NODELAY only on sockets of this protocol.
    bound_socket = socket.socket(family, kind, socket.IPPROTO_TCP)
    try:
        bound_socket.setsockopt(socket.SOL_SOCKET, BIND_OPTION, 1)
        if family == socket.AF_INET6:
            bound_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        bound_socket.bind(socket_address)
        # Two sockets can be bound to one port while neither listens, so listen to detect that.
        bound_socket.listen(BACKLOG)
    except OSError:
        bound_socket.close()
        raise
    return bound_socket


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
