"""Link: a client's connection and the one to the cluster that it goes on by.

Bytes are copied as they come, and kept by the recorder as the cluster knows them. Whoever does not
take what is sent to him stops the other side from being read, so that memory stays bounded.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from kafkalite.capture.model import Endpoint
from kafkalite.control import kafka_client
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.proxy.requests import RequestStream
from kafkalite.proxy.responses import ResponseStream

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from kafkalite.proxy.rewriting import Tell
    from kafkalite.server.addresses import Address
    from kafkalite.server.logging import Log

WRITE_HIGH_BYTES = 1024 * 1024
"""What a side has not taken; beyond it the other is not read."""

MAX_UNANSWERED = 10_000
"""Requests under way on one connection; beyond them no more are read."""

LINGER_S = 2.0
"""How long a connection that must end waits for its last bytes to leave."""

CONNECT_S = 10.0
"""How long a node may take to let us in; as in Java."""

UNKNOWN_NODE = -1
"""The id of a node that was found by a bootstrap address, as in clients."""

_UNCONNECTED, _FULL, _UNANSWERED = 1, 2, 4
"""Why a side is not read."""


class Tap(Protocol):
    """Keeps what goes over one connection."""

    is_lost: bool

    def begin(self) -> None:
        """Keep what comes from here on, where no frame is under way; `is_lost` until then."""

    def received(self, data: bytes) -> None:
        """Keep what the client sent."""

    def sent(self, pieces: Sequence[bytes]) -> None:
        """Keep what the cluster sent."""

    def close(self) -> None:
        """Note that the connection is gone."""


class Recorder(Protocol):
    """Keeps what goes over connections."""

    def open(self, *, client: Endpoint, broker: Endpoint, node_id: int, listener: str) -> Tap:
        """Note that a connection is made."""


@dataclass(slots=True)
class Totals:
    """What went through the proxy."""

    connections: int = 0
    requests: int = 0
    from_clients_bytes: int = 0
    to_clients_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What all links of a proxy share."""

    log: Log
    tell: Tell
    upstream_tls: ssl.SSLContext | None
    max_request_bytes: int
    recorder: Recorder | None = None
    """None before there are links."""
    totals: Totals = field(default_factory=Totals)
    links: set[Link] = field(default_factory=set)
    pairs: set[tuple[Endpoint, Endpoint]] = field(default_factory=set)
    """Both ends of every connection that is recorded now: none may be taken for another."""
    is_empty: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while there are no links."""

    def __post_init__(self) -> None:
        self.is_empty.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What the links through one listener have in common."""

    surroundings: Surroundings
    addresses: Callable[[], Sequence[Address]]
    """Where it leads: the first that answers is taken."""
    node_id: Callable[[Address], int]
    """Which node is at the one that was taken."""


class _Side(asyncio.Protocol):
    """One of a link's two sockets."""

    __slots__ = ("_held", "_link", "_take", "has_ended", "transport")

    def __init__(self, link: Link, take: Callable[[bytes], None]) -> None:
        self._link = link
        self._take = take
        self._held = 0
        self.has_ended = False
        """Whether it sends no more."""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = made = cast("asyncio.Transport", transport)
        made.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        with suppress(OSError, AttributeError):  # a peer that has left already
            ours = made.get_extra_info("socket")
            ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Or a peer whose machine went down would never be missed.
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._link.made(self)

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def eof_received(self) -> bool:
        """Let the other side know; what it still sends may pass, where TLS does not forbid it."""
        assert self.transport is not None
        self._link.ended(self)
        return self.transport.can_write_eof()

    def pause_writing(self) -> None:
        self._link.other(self).hold(_FULL)

    def resume_writing(self) -> None:
        self._link.other(self).release(_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.lost(self, exc)

    def hold(self, reason: int) -> None:
        """Read no more."""
        if not self._held and self.transport is not None:
            self.transport.pause_reading()
        self._held |= reason

    def release(self, reason: int) -> None:
        """Read on, unless there is another reason not to."""
        was_held, self._held = self._held, self._held & ~reason
        if was_held and not self._held and self.transport is not None:
            self.transport.resume_reading()

    def endpoint(self, name: str) -> Endpoint:
        """Return one end of the socket, `peername` or `sockname`."""
        assert self.transport is not None
        address = self.transport.get_extra_info(name) or ("::", 0)
        return Endpoint(*address[:2])

    def finish(self) -> None:
        """Send no more, if the other end is to read what was sent; TLS has no such thing."""
        if self.transport is not None and not self.transport.is_closing():
            if self.transport.can_write_eof():
                self.transport.write_eof()
            else:
                self.close()

    def close(self) -> None:
        """Close once everything has left, soon in any case."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        transport.close()
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(LINGER_S, transport.abort)


class Link:
    """A client's connection, led on to the cluster."""

    def __init__(self, way: Way) -> None:
        surroundings = way.surroundings
        self._way = way
        self._around = surroundings
        self.client = _Side(self, self._from_client)
        self._upstream = _Side(self, self._from_upstream)
        self._requests = RequestStream(surroundings.max_request_bytes)
        self._responses = ResponseStream(self._requests.unanswered, surroundings.tell)
        self._early: list[bytes] = []
        """What came before the cluster could be told."""
        self._is_finished = False
        """Whether the client will send no more, and the cluster has not been told."""
        self._tap: Tap | None = None
        self._pair: tuple[Endpoint, Endpoint] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._peer = "?"

    def other(self, side: _Side) -> _Side:
        """Return the side across."""
        return self._upstream if side is self.client else self.client

    def made(self, side: _Side) -> None:
        """Connect to the cluster once a client is there."""
        if side is not self.client:
            return
        self._peer = str(side.endpoint("peername"))
        self._around.links.add(self)
        self._around.is_empty.clear()
        self._around.totals.connections += 1
        side.hold(_UNCONNECTED)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def end(self, reason: str | None = None) -> None:
        """Close both sides; `reason` is what the log shall say."""
        if reason is not None:
            self._around.log.warning("connection closed", peer=self._peer, reason=reason)
        if self._connecting is not None:
            self._connecting.cancel()
        self.client.close()
        self._upstream.close()

    def ended(self, side: _Side) -> None:
        """Pass on that a side sends no more; when neither does, that is the end."""
        side.has_ended = True
        if self.other(side).has_ended:
            self.end()
        elif side is not self.client:
            self.client.finish()
        else:
            self._is_finished = True
            if self._tap is not None:
                self._finish()

    def lost(self, side: _Side, fault: Exception | None) -> None:
        """Close the other side when one is gone."""
        if side not in (self.client, self._upstream):
            return  # an attempt to connect that another has followed
        if fault is not None:
            whose = "client" if side is self.client else "upstream"
            self._around.log.info("connection lost", peer=self._peer, by=whose, reason=str(fault))
        side.transport = None
        self.end()
        if self.client.transport is None and self._upstream.transport is None:
            self._forget()

    async def _connect(self) -> None:
        try:
            await self._reach()
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is this connection's alone
            self._fail(fault)

    def _fail(self, fault: Exception) -> None:
        """End a connection over a fault of ours."""
        self._around.log.error("connection closed", exception=fault, peer=self._peer)
        self._connecting = None
        self.end()

    async def _reach(self) -> None:
        """Connect to the first address that answers, and pass on what has come meanwhile."""
        loop = asyncio.get_running_loop()
        tls = self._around.upstream_tls
        reasons = []
        for address in self._way.addresses():
            try:
                kafka_client.check_address(address)  # the cluster may have told any
                async with asyncio.timeout(CONNECT_S):
                    await loop.create_connection(
                        self._fresh_upstream,
                        address.host,
                        address.port,
                        ssl=tls,
                        server_hostname=address.host if tls else None,
                    )
            except kafka_client.UnreachableError:
                reasons.append(f"{address}: none can be there")
            except TimeoutError:
                reasons.append(f"{address}: nothing within {CONNECT_S:g} s")
            except kafka_client.CANNOT_CONNECT as error:
                reasons.append(f"{address}: {kafka_client.why(error)}")
            else:
                self._connected(address)
                return
        self._connecting = None
        self.end(f"no broker answers at {'; '.join(reasons)}")

    def _fresh_upstream(self) -> _Side:
        self._upstream = _Side(self, self._from_upstream)
        return self._upstream

    def _connected(self, address: Address) -> None:
        self._connecting = None
        upstream, recorder = self._upstream.transport, self._around.recorder
        if upstream is None or self.client.transport is None or recorder is None:
            self.end()
            return
        self._pair = pair = self._claimed_pair()
        self._tap = recorder.open(
            client=pair[0],
            broker=pair[1],
            node_id=self._way.node_id(address),
            listener="PLAINTEXT" if self._around.upstream_tls is None else "SSL",
        )
        early, self._early = self._early, []
        for data in early:
            self._tap.received(data)
            upstream.write(data)
        self.client.release(_UNCONNECTED)
        if self._is_finished:
            self._finish()

    def _claimed_pair(self) -> tuple[Endpoint, Endpoint]:
        """Return who talks to whom, as the record shall have it.

        A client may use one port for two of our listeners that lead to the same node. Then our own
        port to the node takes its place, or the next one that makes a difference.
        """
        client = self.client.endpoint("peername")
        broker = self._upstream.endpoint("peername")
        taken, port = self._around.pairs, self._upstream.endpoint("sockname").port
        while (client, broker) in taken:
            client = Endpoint(client.host, port)
            port = port % 0xFFFF + 1
        taken.add((client, broker))
        return client, broker

    def _from_client(self, data: bytes) -> None:
        self._around.totals.from_clients_bytes += len(data)
        if self._tap is not None and self._tap.is_lost and self._is_between():
            self._tap.begin()
        try:
            self._requests.feed(data)
        except ProtocolViolation as violation:
            self.end(violation.reason)
            return
        if self._tap is None:
            self._early.append(data)
            return
        self._tap.received(data)
        if self._upstream.transport is not None:
            self._upstream.transport.write(data)
        if len(self._requests.unanswered) > MAX_UNANSWERED:
            self.client.hold(_UNANSWERED)

    def _is_between(self) -> bool:
        return self._requests.is_between and self._responses.is_between

    def _from_upstream(self, data: bytes) -> None:
        if self._tap is not None:
            self._tap.sent((data,))
        try:
            pieces = self._responses.feed(data)
        except ProtocolViolation as violation:
            self.end(f"upstream: {violation.reason}")
            return
        client = self.client.transport
        if client is not None and pieces:
            self._around.totals.to_clients_bytes += sum(map(len, pieces))
            client.writelines(pieces)
        if len(self._requests.unanswered) <= MAX_UNANSWERED:
            self.client.release(_UNANSWERED)
        if self._is_finished:
            self._finish()

    def _finish(self) -> None:
        """Let the cluster know that the client sends no more: by TLS, once nothing is owed."""
        upstream = self._upstream.transport
        if upstream is None or upstream.is_closing():
            return
        if upstream.can_write_eof():
            upstream.write_eof()
            self._is_finished = False
        elif self._responses.is_between:
            self.end()

    def _forget(self) -> None:
        around = self._around
        if self not in around.links:
            return
        around.links.remove(self)
        around.totals.requests += self._requests.seen
        if self._tap is not None:
            self._tap.close()
        if self._pair is not None:
            around.pairs.discard(self._pair)
        if not around.links:
            around.is_empty.set()
