"""Listener: the sockets on which one node waits for clients, under one listener name."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.server.addresses import Address, AddressError
from kafkalite.server.connection import Connection

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from kafkalite.apis.context import RequestContext, Services, Unsent
    from kafkalite.capture.recorder import Recorder
    from kafkalite.server.addresses import ListenerSpec
    from kafkalite.server.admission import Admission
    from kafkalite.server.logging import Log
    from kafkalite.wire.frames import ReceiveBuffers
    from kafkalite.wire.session import Owed, Pieces

BACKLOG = 4096
"""Connections the kernel keeps for us; a burst of clients must not meet dropped SYNs."""

_LOOPBACKS = ("127.0.0.1", "::1")
_PORT_TRIES = 16
_NO_SUCH_FAMILY = frozenset((errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT))


class Door(NamedTuple):
    """What a connection through one listener of one node needs to know."""

    services: Services
    node_id: int
    listener: str
    admission: Admission
    dispatch: Callable[[RequestContext, bytearray, int, int, Pieces], int | Owed]
    buffers: ReceiveBuffers
    max_request_bytes: int
    max_kept_bytes: int
    unsent: Unsent
    log: Log
    settle: Callable[[RequestContext, bytearray, Pieces], None] | None = None
    """Finishes what requests that came together have gathered; None: they gather nothing."""
    recorder: Recorder | None = None
    """Where all that passes is written down; None: nowhere."""


class Listener:
    """One node's sockets of one listener: bound at once, open to clients when started."""

    __slots__ = ("_servers", "_sockets", "address", "bound", "name", "port")

    def __init__(self, spec: ListenerSpec, node: int) -> None:
        """Bind; AddressError when the address cannot be had."""
        self.name = spec.name
        self._sockets = bind(spec.listen.shifted(node))
        self._servers: list[asyncio.Server] = []
        self.port: int = self._sockets[0].getsockname()[1]
        self.bound = Address(spec.listen.host, self.port)
        self.address = spec.told(self.port, node)
        """What clients are told."""

    async def start(self, loop: asyncio.AbstractEventLoop, door: Door) -> None:
        """Let clients in by `door`."""
        kind = _connections if door.recorder is None else _recorded_connections
        while self._sockets:
            bound = self._sockets.pop()
            server = await loop.create_server(kind(door), sock=bound, backlog=BACKLOG)
            self._servers.append(server)

    def stop(self) -> None:
        """Let nobody in any more; clients that are in stay."""
        for server in self._servers:
            server.close()
        for bound in self._sockets:
            bound.close()
        self._servers.clear()
        self._sockets.clear()


def _connections(door: Door) -> Callable[[], Connection]:
    return lambda: Connection(door)


def _recorded_connections(door: Door) -> Callable[[], Connection]:
    from kafkalite.server.tapping import RecordedConnection  # noqa: PLC0415 - rarely used

    return lambda: RecordedConnection(door)


def bind(address: Address) -> list[socket.socket]:
    """Return sockets bound to an address: for `localhost` its IPv4 and its IPv6 one.

    Clients take either for `localhost`, so one alone would be found by some of them only.
    """
    for _ in range(_PORT_TRIES):
        try:
            return _bind_all(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and not address.port:
                continue  # the port chosen for IPv4 was taken for IPv6
            raise AddressError(f"cannot listen on {address}: {_reason(error)}") from error
    raise AddressError(f"cannot listen on {address}: no port is free")


def _bind_all(address: Address) -> list[socket.socket]:
    hosts = _LOOPBACKS if address.host == "localhost" else (address.host,)
    bound: list[socket.socket] = []
    port = address.port
    try:
        for host in hosts:
            try:
                one = _bind_one(host, port)
            except OSError as error:
                if error.errno in _NO_SUCH_FAMILY and host != hosts[0]:
                    continue
                raise
            bound.append(one)
            port = one.getsockname()[1]
    except OSError:
        for one in bound:
            one.close()
        raise
    return bound


def _bind_one(host: str, port: int) -> socket.socket:
    # Given as text, a host's name brings in the tables of international names, ASCII or not.
    name = host.encode() if host.isascii() else host
    family, kind, _, _, where = socket.getaddrinfo(
        name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    # Spelled out, for asyncio sets TCP_NODELAY on sockets of this protocol number alone.
    one = socket.socket(family, kind, socket.IPPROTO_TCP)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        one.bind(where)
        # Two sockets can be bound to one port as long as neither listens: listening tells.
        one.listen(BACKLOG)
    except OSError:
        one.close()
        raise
    return one


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
