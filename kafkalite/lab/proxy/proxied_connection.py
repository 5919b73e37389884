"""`ProxiedConnection`: a client's connection, and the connection to a node that serves it.

Bytes are forwarded as they arrive. The recording has the bytes that the cluster receives and sends,
with the cluster's addresses. If one side does not read, the proxy stops reading from the other
side, so that memory stays bounded.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from kafkalite.capture.model import Endpoint
from kafkalite.client.connection import SETUP_TIMEOUT_S
from kafkalite.lab.proxy.reachability import UnreachableError, connect_to_first
from kafkalite.lab.proxy.requests import RequestStream
from kafkalite.lab.proxy.responses import ResponseStream
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from kafkalite.lab.proxy.address_rewriting import GetProxyAddresses
    from kafkalite.lab.proxy.reachability import ReachabilityLog
    from kafkalite.server.addresses import Address
    from kafkalite.server.logging import Log

WRITE_HIGH_BYTES = 1024 * 1024
"""Number of unsent bytes to one side above which the other side is not read."""

MAX_PENDING_REQUESTS = 10_000
"""Number of pending requests on one connection above which no more are read."""

LINGER_S = 2.0
"""Time in which a closed connection sends its last bytes."""

UNKNOWN_NODE = -1
"""The recorded id of an unknown node; clients use the same id for bootstrap addresses."""

_NOT_CONNECTED, _WRITE_BUFFER_FULL, _TOO_MANY_PENDING = 1, 2, 4
"""Reasons for not reading from a side."""


class Tap(Protocol):
    """Records the bytes of one connection."""

    is_lost: bool

    def begin(self) -> None:
        """Resume recording after a loss (`is_lost`); both directions are at a frame boundary."""

    def received(self, data: bytes) -> None:
        """Record bytes from the client."""

    def sent(self, pieces: Sequence[bytes]) -> None:
        """Record bytes from the cluster."""

    def close(self) -> None:
        """Record that the connection was closed."""


class Recorder(Protocol):
    """Records connections."""

    def open(self, *, client: Endpoint, broker: Endpoint, node_id: int, listener: str) -> Tap:
        """Record that a connection was opened."""


@dataclass(slots=True)
class Totals:
    """Counts of the proxy."""

    connections: int = 0
    requests: int = 0
    from_clients_bytes: int = 0
    to_clients_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class ProxyContext:
    """State that all connections of a proxy share."""

    log: Log
    proxy_addresses: GetProxyAddresses
    upstream_tls: ssl.SSLContext | None
    max_request_bytes: int
    recorder: Recorder | None = None
    """None before the proxy accepts connections."""
    totals: Totals = field(default_factory=Totals)
    connections: set[ProxiedConnection] = field(default_factory=set)
    recorded_endpoints: set[tuple[Endpoint, Endpoint]] = field(default_factory=set)
    """(client, broker) of each connection that is being recorded; the pairs must be unique."""
    is_empty: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while there are no connections."""

    def __post_init__(self) -> None:
        self.is_empty.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerRoute:
    """The node that a listener's connections are forwarded to."""

    context: ProxyContext
    get_addresses: Callable[[], Sequence[Address]]
    """Returns the addresses of the node; the first that accepts a connection is used."""
    get_node_id: Callable[[Address], int]
    """Returns the id of the node at the address that was used."""
    reachability: ReachabilityLog


class _Side(asyncio.Protocol):
    """One of the two sockets of a proxied connection."""

    __slots__ = ("_connection", "_on_data", "_pause_reasons", "has_received_eof", "transport")

    def __init__(self, connection: ProxiedConnection, on_data: Callable[[bytes], None]) -> None:
        self._connection = connection
        self._on_data = on_data
        self._pause_reasons = 0
        self.has_received_eof = False
        """Whether the peer has closed its sending direction."""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = opened = cast("asyncio.Transport", transport)
        opened.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        with suppress(OSError, AttributeError):  # the peer has closed already
            sock = opened.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Otherwise the crash of a peer's machine would not be detected.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._connection.on_connected(self)

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def eof_received(self) -> bool:
        """Forward the end of this side's data; return whether its socket stays open for writing."""
        assert self.transport is not None
        self._connection.on_eof(self)
        return self.transport.can_write_eof()

    def pause_writing(self) -> None:
        self._connection.opposite_side(self).pause_reading(_WRITE_BUFFER_FULL)

    def resume_writing(self) -> None:
        self._connection.opposite_side(self).resume_reading(_WRITE_BUFFER_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.on_connection_lost(self, exc)

    def pause_reading(self, reason: int) -> None:
        """Stop reading."""
        if not self._pause_reasons and self.transport is not None:
            self.transport.pause_reading()
        self._pause_reasons |= reason

    def resume_reading(self, reason: int) -> None:
        """Remove a reason for not reading; resume reading if no reason remains."""
        was_paused, self._pause_reasons = self._pause_reasons, self._pause_reasons & ~reason
        if was_paused and not self._pause_reasons and self.transport is not None:
            self.transport.resume_reading()

    def endpoint(self, name: str) -> Endpoint:
        """Return the socket's remote ("peername") or local ("sockname") endpoint."""
        assert self.transport is not None
        address = self.transport.get_extra_info(name) or ("::", 0)
        return Endpoint(*address[:2])

    def write_eof(self) -> None:
        """Close the sending direction; with TLS, close the socket."""
        if self.transport is not None and not self.transport.is_closing():
            if self.transport.can_write_eof():
                self.transport.write_eof()
            else:
                self.close()

    def close(self) -> None:
        """Close after the buffered bytes are sent, or at the latest after `LINGER_S`."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        transport.close()
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(LINGER_S, transport.abort)


class ProxiedConnection:
    """A client's connection that is forwarded to a node of the cluster."""

    def __init__(self, route: ListenerRoute) -> None:
        context = route.context
        self._route = route
        self._context = context
        self.client = _Side(self, self._on_client_data)
        self._upstream = _Side(self, self._on_upstream_data)
        self._requests = RequestStream(context.max_request_bytes)
        self._responses = ResponseStream(self._requests.pending, context.proxy_addresses)
        self._early_data: list[bytes] = []
        """Data of the client that arrived before the connection to the node was open."""
        self._is_eof_pending = False
        """Whether the client's end of data still has to be forwarded."""
        self._tap: Tap | None = None
        self._recorded_endpoints: tuple[Endpoint, Endpoint] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._peer = "?"

    def opposite_side(self, side: _Side) -> _Side:
        """Return the other side."""
        return self._upstream if side is self.client else self.client

    def on_connected(self, side: _Side) -> None:
        """Start to connect to the cluster, if `side` is the client's."""
        if side is not self.client:
            return
        self._peer = str(side.endpoint("peername"))
        self._context.connections.add(self)
        self._context.is_empty.clear()
        self._context.totals.connections += 1
        side.pause_reading(_NOT_CONNECTED)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def close(self, reason: str | None = None) -> None:
        """Close both sides; log a warning if a reason is given."""
        if reason is not None:
            self._context.log.warning("connection closed", peer=self._peer, reason=reason)
        if self._connecting is not None:
            self._connecting.cancel()
        self.client.close()
        self._upstream.close()

    def on_eof(self, side: _Side) -> None:
        """Forward the end of a side's data; close both sides if both have ended."""
        side.has_received_eof = True
        if self.opposite_side(side).has_received_eof:
            self.close()
        elif side is not self.client:
            self.client.write_eof()
        else:
            self._is_eof_pending = True
            if self._tap is not None:
                self._forward_eof()

    def on_connection_lost(self, side: _Side, error: Exception | None) -> None:
        """Close the other side, because `side` was lost."""
        if side not in (self.client, self._upstream):
            return  # the side belongs to an earlier attempt to connect
        if error is not None:
            side_name = "client" if side is self.client else "upstream"
            self._context.log.info(
                "connection lost", peer=self._peer, by=side_name, reason=str(error)
            )
        side.transport = None
        self.close()
        if self.client.transport is None and self._upstream.transport is None:
            self._unregister()

    async def _connect(self) -> None:
        try:
            await self._connect_upstream()
        except Exception as error:  # noqa: BLE001 - a bug must only affect this connection
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Log an unexpected exception, and close the connection."""
        self._context.log.error("connection closed", exception=error, peer=self._peer)
        self._connecting = None
        self.close()

    async def _connect_upstream(self) -> None:
        """Connect to the first address that accepts, and forward the data received before."""
        try:
            address = await connect_to_first(
                self._new_upstream_side,
                self._route.get_addresses(),
                self._context.upstream_tls,
                SETUP_TIMEOUT_S,
            )
        except UnreachableError as error:
            self._route.reachability.report_failure(str(error))
            self._connecting = None
            self.close()
        else:
            self._route.reachability.report_success()
            self._on_upstream_connected(address)

    def _new_upstream_side(self) -> _Side:
        self._upstream = _Side(self, self._on_upstream_data)
        return self._upstream

    def _on_upstream_connected(self, address: Address) -> None:
        self._connecting = None
        upstream, recorder = self._upstream.transport, self._context.recorder
        if upstream is None or self.client.transport is None or recorder is None:
            self.close()
            return
        self._recorded_endpoints = endpoints = self._unique_endpoints()
        self._tap = recorder.open(
            client=endpoints[0],
            broker=endpoints[1],
            node_id=self._route.get_node_id(address),
            listener="PLAINTEXT" if self._context.upstream_tls is None else "SSL",
        )
        early, self._early_data = self._early_data, []
        for data in early:
            self._tap.received(data)
            upstream.write(data)
        self.client.resume_reading(_NOT_CONNECTED)
        if self._is_eof_pending:
            self._forward_eof()

    def _unique_endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Return the (client, broker) endpoints to record, which must be unique.

        A client may connect to two listeners of the same node from one port. In this case the
        client's port is recorded as the proxy's own port, or as the next unused one.
        """
        client = self.client.endpoint("peername")
        broker = self._upstream.endpoint("peername")
        used, port = self._context.recorded_endpoints, self._upstream.endpoint("sockname").port
        while (client, broker) in used:
            client = Endpoint(client.host, port)
            port = port % 0xFFFF + 1
        used.add((client, broker))
        return client, broker

    def _on_client_data(self, data: bytes) -> None:
        self._context.totals.from_clients_bytes += len(data)
        if self._tap is not None and self._tap.is_lost and self._is_at_frame_boundary():
            self._tap.begin()
        try:
            self._requests.feed(data)
        except ProtocolViolation as violation:
            self.close(violation.reason)
            return
        if self._tap is None:
            self._early_data.append(data)
            return
        self._tap.received(data)
        if self._upstream.transport is not None:
            self._upstream.transport.write(data)
        if len(self._requests.pending) > MAX_PENDING_REQUESTS:
            self.client.pause_reading(_TOO_MANY_PENDING)

    def _is_at_frame_boundary(self) -> bool:
        return self._requests.is_at_frame_boundary and self._responses.is_at_frame_boundary

    def _on_upstream_data(self, data: bytes) -> None:
        if self._tap is not None:
            self._tap.sent((data,))
        try:
            pieces = self._responses.feed(data)
        except ProtocolViolation as violation:
            self.close(f"upstream: {violation.reason}")
            return
        client = self.client.transport
        if client is not None and pieces:
            self._context.totals.to_clients_bytes += sum(map(len, pieces))
            client.writelines(pieces)
        if len(self._requests.pending) <= MAX_PENDING_REQUESTS:
            self.client.resume_reading(_TOO_MANY_PENDING)
        if self._is_eof_pending:
            self._forward_eof()

    def _forward_eof(self) -> None:
        """Forward the client's end of data; with TLS, close when no response is pending."""
        upstream = self._upstream.transport
        if upstream is None or upstream.is_closing():
            return
        if upstream.can_write_eof():
            upstream.write_eof()
            self._is_eof_pending = False
        elif self._responses.is_at_frame_boundary:
            self.close()

    def _unregister(self) -> None:
        context = self._context
        if self not in context.connections:
            return
        context.connections.remove(self)
        context.totals.requests += self._requests.request_count
        if self._tap is not None:
            self._tap.close()
        if self._recorded_endpoints is not None:
            context.recorded_endpoints.discard(self._recorded_endpoints)
        if not context.connections:
            context.is_empty.set()
