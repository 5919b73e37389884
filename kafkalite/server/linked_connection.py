"""LinkedConnection: the connection of a client whose link may be slow, interrupted or half-open.

It is between the transport and the connection while there are rules for links. Other connections
have none, so they cost nothing. The bytes of a link that is cut wait, because TCP sends them again
when the network is back: those of the client in the socket, those of the broker here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from kafkalite.server.lane import Lane
from kafkalite.server.link_rules import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.server.connection import Connection
    from kafkalite.server.link_rules import Shape
    from kafkalite.server.recording import RecordedConnection

MAX_TRAVELLING_BYTES: Final = 256 * 1024
"""Bytes in one direction above which no more are accepted until some have arrived."""

_CLIENT_ID_START: Final = 14
"""Where the client id is in a frame, after its length of two bytes."""
_LENGTH_START: Final = 12


class LinkOwner(Protocol):
    """The links of a cluster."""

    @property
    def clock(self) -> Clock:
        """The clock of the broker."""

    @property
    def entropy(self) -> Entropy:
        """The randomness of the jitter."""

    @property
    def receive_buffer(self) -> bytearray:
        """A buffer that all connections share: each empties it within one call."""

    def reshape(self, linked: LinkedConnection) -> None:
        """Set the shapes of a connection, whose client id is known now."""

    def remove(self, linked: LinkedConnection) -> None:
        """Forget a connection whose socket is closed."""

    def add_forgotten(self, linked: LinkedConnection) -> None:
        """Limit the number of connections that ended for the broker only."""


class LinkedConnection(asyncio.BufferedProtocol):
    """The protocol of a transport, and the transport of a connection or of its recording."""

    __slots__ = (
        "_has_ended",
        "_incoming",
        "_inner",
        "_is_closing",
        "_is_forgotten",
        "_is_inner_reading",
        "_is_reading",
        "_is_socket_writable",
        "_is_writable",
        "_outgoing",
        "_owner",
        "_transport",
        "client_id",
        "connection",
        "half_open_links",
        "is_connected",
    )

    def __init__(
        self,
        owner: LinkOwner,
        connection: Connection,
        inner: Connection | RecordedConnection,
    ) -> None:
        """`inner` gets the bytes: the connection, or its recording."""
        self._owner = owner
        self.connection = connection
        self._inner: Any = inner
        self._transport: asyncio.Transport
        self.is_connected = False
        """Whether the event loop has announced the connection, which it does after its creation."""
        self.client_id: str | None = None
        """The client id of the first request; None while it is unknown."""
        self.half_open_links: set[str] = set()
        """The ids of the links for which the broker has forgotten the connection."""
        self._incoming = Lane(owner.clock, owner.entropy, self._deliver_to_inner)
        self._outgoing = Lane(owner.clock, owner.entropy, self._deliver_to_socket)
        self._is_reading = True
        self._is_inner_reading = True
        self._is_socket_writable = True
        self._is_writable = True
        """Whether the connection may write."""
        self._is_closing = False
        self._has_ended = False
        """Whether the client has sent its last byte."""
        self._is_forgotten = False
        """Whether the connection has ended for the broker, but not for the client."""

    @classmethod
    def attach(cls, owner: LinkOwner, connection: Connection) -> LinkedConnection:
        """Return a LinkedConnection between a connection that is served and its transport."""
        inner: Any = connection.transport.get_protocol()
        linked = cls(owner, connection, inner)
        linked.client_id = connection.client_id
        transport = connection.transport
        linked._is_reading = linked._is_inner_reading = connection.is_reading
        linked._is_socket_writable = linked._is_writable = connection.is_writable
        linked._transport = inner.replace_transport(linked)
        linked.is_connected = True
        transport.set_protocol(linked)
        return linked

    def detach(self) -> bool:
        """Connect transport and connection directly, if no byte is on its way; return whether."""
        is_idle = self.is_connected and not (self._incoming.size or self._outgoing.size)
        if not is_idle or self.is_closing() or self._has_ended:
            return False
        self._inner.replace_transport(self._transport)
        self._transport.set_protocol(self._inner)
        return True

    def change(self, incoming: Shape, outgoing: Shape) -> None:
        """Use these shapes from now on, as soon as there is a connection."""
        if not self.is_connected:
            return
        self._outgoing.change(outgoing)
        self._incoming.change(incoming)
        self._update_reading()
        self._update_writing()
        self.end_if_healed()

    @property
    def is_changed(self) -> bool:
        """Whether the link is slow, interrupted or half-open."""
        shapes = self._incoming.shape, self._outgoing.shape
        return bool(self.half_open_links) or shapes != (UNCHANGED, UNCHANGED)

    def forget(self) -> None:
        """End the connection for the broker; the client does not notice it."""
        if self._is_forgotten:
            return
        self._is_forgotten = True
        self._incoming.close()
        self._update_reading()
        inner = self._inner
        asyncio.get_running_loop().call_soon(inner.connection_lost, None)
        self._owner.add_forgotten(self)

    def end_if_healed(self) -> None:
        """Close the socket of a connection that the broker has forgotten, if the link is healed."""
        is_interrupted = self.half_open_links or self._outgoing.shape.is_cut
        if self._is_forgotten and not is_interrupted and not self._outgoing.size:
            self._transport.close()

    def abort_socket(self) -> None:
        """Close the socket immediately, although the link may be cut."""
        self._transport.abort()

    # The protocol of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve a new connection."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_connected = True
        self._inner.connection_made(self)
        self._owner.reshape(self)
        # uvloop begins to read when `connection_made` returns, even if reading was paused in it.
        asyncio.get_running_loop().call_soon(self._pause_again)

    def _pause_again(self) -> None:
        if not (self._is_reading or self._transport.is_closing()):
            self._pause_transport()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - one size for all reads
        """Return the buffer for received bytes."""
        return memoryview(self._owner.receive_buffer)

    def buffer_updated(self, nbytes: int) -> None:
        """Let received bytes begin their way."""
        received = memoryview(self._owner.receive_buffer)[:nbytes]
        if self.client_id is None:
            self.client_id = client_id_of(received)
            self._owner.reshape(self)
        self._incoming.send(received)
        self._update_reading()

    def eof_received(self) -> bool | None:
        """Close the transport when all bytes before the end have arrived."""
        self._has_ended = True
        if self._incoming.size:
            return True
        self._inner.eof_received()
        return None

    def pause_writing(self) -> None:
        """Let the connection serve no more: the client does not read."""
        self._is_socket_writable = False
        self._update_writing()

    def resume_writing(self) -> None:
        """Let the connection serve again: the client reads."""
        self._is_socket_writable = True
        self._update_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection: the socket is closed."""
        self._incoming.close()
        self._outgoing.close()
        self._owner.remove(self)
        if not self._is_forgotten:
            self._inner.connection_lost(exc)

    def _deliver_to_inner(self, data: memoryview) -> memoryview:
        while data and self._is_inner_reading and not self.is_closing():
            space = self._inner.get_buffer(len(data))
            count = min(len(space), len(data))
            space[:count] = data[:count]
            del space
            self._inner.buffer_updated(count)
            data = data[count:]
        if self.is_closing():
            return data[:0]
        if self._has_ended and not (data or self._incoming.size):
            self._transport.close()
        elif not self._incoming.size:
            self._update_reading()
        return data

    def _deliver_to_socket(self, data: memoryview) -> memoryview:
        if not self._transport.is_closing():
            self._transport.write(data)
        if not self._outgoing.size:
            if self._is_closing and not self._is_forgotten:
                self._transport.close()
            self.end_if_healed()
            self._update_writing()
        return data[:0]

    def _update_reading(self) -> None:
        may_read = (
            self._is_inner_reading
            and not self._incoming.shape.is_cut
            and self._incoming.size <= MAX_TRAVELLING_BYTES
            and not (self._is_closing or self._is_forgotten)
        )
        if may_read is self._is_reading or self._transport.is_closing():
            return
        self._is_reading = may_read
        if may_read:
            self._transport.resume_reading()
        else:
            self._pause_transport()

    def _pause_transport(self) -> None:
        transport: Any = self._transport
        if self._is_inner_reading and getattr(transport, "is_in_handshake", False):
            # A new connection is accepted, also by TLS.
            transport.pause_after_handshake()
        else:
            transport.pause_reading()

    def _update_writing(self) -> None:
        may_write = self._is_socket_writable and self._outgoing.size <= MAX_TRAVELLING_BYTES
        if may_write is self._is_writable or self._is_forgotten:
            return
        self._is_writable = may_write
        if may_write:
            self._inner.resume_writing()
        else:
            self._inner.pause_writing()

    # The transport of the connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Let bytes begin their way to the client."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Let all pieces begin their way to the client."""
        if self.is_closing():
            return
        for data in list_of_data:
            self._outgoing.send(memoryview(data))
        self._update_writing()

    def close(self) -> None:
        """Close when all bytes are sent; if the link is cut, the client does not notice it."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._outgoing.shape.is_cut:
            self.forget()
        elif not self._outgoing.size:
            self._transport.close()

    def abort(self) -> None:
        """Close when the bytes on their way have arrived; the connection ends immediately.

        If the link is cut, the client does not notice it.
        """
        self._is_closing = True
        if self._outgoing.shape.is_cut or self._outgoing.size:
            self.forget()
        elif not self._is_forgotten:
            self._transport.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be closed."""
        return self._is_closing or self._is_forgotten or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Receive nothing more."""
        self._is_inner_reading = False
        self._is_reading = False
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again, beginning with the bytes that have arrived."""
        self._is_inner_reading = True
        # Later: this is called while requests are being served.
        asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        if self._is_inner_reading and not self.is_closing():
            self._incoming.resume()
            self._update_reading()

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the connection, or its recording."""
        protocol: asyncio.BaseProtocol = self._inner
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Deliver bytes to another protocol from now on."""
        self._inner = protocol

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that have not been sent."""
        return self._outgoing.size + self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the sizes at which the socket pauses and resumes writing."""
        self._transport.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as asyncio
        """Return a fact about the socket."""
        return self._transport.get_extra_info(name, default)


def client_id_of(frame: memoryview) -> str | None:
    """Return the client id in the beginning of a request, None if it is not complete."""
    if len(frame) < _CLIENT_ID_START:
        return None
    length = int.from_bytes(frame[_LENGTH_START:_CLIENT_ID_START], "big", signed=True)
    end = _CLIENT_ID_START + max(length, 0)
    return (
        bytes(frame[_CLIENT_ID_START:end]).decode(errors="replace") if len(frame) >= end else None
    )
