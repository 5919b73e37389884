"""Connection: one socket, one pass and one write per read.

Everything that was received is served before the callback returns, and all answers leave in one
write: a write per answer or a task per request costs five to ten times as much.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import TYPE_CHECKING, cast

from kafkalite.apis.context import RequestContext, Run
from kafkalite.server.logging import Level, traced
from kafkalite.wire.session import Session

if TYPE_CHECKING:
    from kafkalite.server.listener import Door
    from kafkalite.wire.session import Pieces

JOINED_BYTES = 64 * 1024
"""Up to this many bytes are cheaper copied into one piece than sent as several."""

WRITE_HIGH_BYTES = 256 * 1024
"""Answers that the socket has not taken; beyond it the peer is served no further."""

LINGER_S = 2.0
"""How long a connection that must end waits for its last answers to leave."""


class Connection(asyncio.BufferedProtocol):
    """A client's socket at one listener of one node."""

    __slots__ = (
        "_context", "_door", "_held_bytes", "_is_reading", "_is_writable", "_transport",
        "_unsent_bytes", "host", "is_admitted", "last_beat", "peer", "session",
    )  # fmt: skip

    def __init__(self, door: Door) -> None:
        self._door = door
        self._transport: asyncio.Transport
        self._context: RequestContext
        self._is_reading = True
        self._is_writable = True
        self._unsent_bytes = 0
        self._held_bytes = 0
        """What this peer adds to what all peers leave unread."""
        self.host = ""
        """The peer's address, without its port."""
        self.peer = "?"
        """The peer as log lines name it."""
        self.session: Session
        self.is_admitted = False
        self.last_beat = 0
        """The beat of its node's slow clock in which bytes last arrived or left."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the conversation; whether it may go on is for the door to say."""
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address = transport.get_extra_info("peername")
        if address:
            self.host = address[0]
            self.peer = f"{address[0]}:{address[1]}"
        door = self._door
        # Asked once: a request that nobody wants told must not pay for the question.
        is_traced = door.log.level <= Level.DEBUG
        dispatch = traced(door.log, door.dispatch) if is_traced else door.dispatch
        self._context = context = RequestContext(
            services=door.services,
            node_id=door.node_id,
            listener=door.listener,
            client_host=f"/{self.host}",
        )
        if door.settle is not None:
            context.run = Run()
        self.session = Session(
            door.buffers,
            partial(dispatch, context),
            max_request_bytes=door.max_request_bytes,
            max_kept_bytes=door.max_kept_bytes,
            wake=self._wake,
            settle=None if door.settle is None else partial(door.settle, context),
        )
        self.session.is_held = True
        door.admission.arrive(self)

    def admit(self) -> None:
        """Serve this client from now on, beginning with what it has sent already."""
        self.is_admitted = True
        self.session.is_held = not self._is_writable
        self._go_on()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - ours is sized already
        """Return where to receive."""
        return self.session.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Serve what came."""
        try:
            self.session.received(nbytes)
            self._deliver()
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is this connection's alone
            self._fail(fault)

    def eof_received(self) -> None:
        """Close: as with Kafka, a client that stops sending has left."""

    def pause_writing(self) -> None:
        """Serve no further while the peer does not read."""
        self._is_writable = False
        self.session.is_held = True
        self._hold(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Go on where the peer's slowness stopped us."""
        self._is_writable = True
        self.session.is_held = not self.is_admitted
        self._hold(0)
        self._go_on()

    def _hold(self, count: int) -> None:
        self._door.unsent.bytes += count - self._held_bytes
        self._held_bytes = count

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        """Let go of everything that belonged to the peer."""
        self._hold(0)
        self.session.close()
        self._door.admission.leave(self)
        for close in self._context.on_close.values():
            close()

    def close(self, reason: str | None = None, level: Level = Level.WARNING) -> None:
        """Close once the answers already made have left; `reason` is what the log shall say."""
        transport = self._transport
        if transport.is_closing():
            return
        if reason is not None:
            log = self._door.log
            say = log.warning if level >= Level.WARNING else log.info
            say("connection closed", peer=self.peer, listener=self._door.listener, reason=reason)
        transport.close()
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(LINGER_S, transport.abort)

    def abort(self) -> None:
        """Close at once, whatever is still to be sent."""
        self._transport.abort()

    def is_idle(self, since_beat: int) -> bool:
        """Whether the peer has neither sent nor taken a byte since that beat, nor is owed one."""
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes != self._unsent_bytes:
            self._unsent_bytes = unsent_bytes
            self.last_beat = self._door.admission.beat
        return self.last_beat < since_beat and not self.session.is_owing

    def stop_serving(self) -> None:
        """Serve nothing more; answers that are owed may still arrive and leave."""
        self.is_admitted = False
        self.session.is_held = True

    def _wake(self) -> None:
        """Have an answer that was owed sent soon: its maker is in the middle of something."""
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._transport.is_closing():
            return
        try:
            self.session.resume()
            self._deliver()
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is this connection's alone
            self._fail(fault)

    def _fail(self, fault: Exception) -> None:
        """End a conversation over a fault of ours; the loop would end it without a word."""
        self._door.log.error(
            "connection closed", exception=fault, peer=self.peer, listener=self._door.listener
        )
        self._transport.abort()

    def _deliver(self) -> None:
        """Send the answers made, and make more while the socket takes them."""
        session, transport = self.session, self._transport
        self.last_beat = self._door.admission.beat
        while session.out:
            is_small = session.made <= JOINED_BYTES
            pieces = session.take()
            if is_small:
                transport.write(b"".join(pieces))
            else:
                transport.writelines(gathered(pieces))
            if session.is_interrupted and not session.is_held:
                session.resume()
        if session.violation is not None:
            self.close(session.violation)
        elif session.wants_pause is self._is_reading:
            self._is_reading = not self._is_reading
            if self._is_reading:
                transport.resume_reading()
            else:
                transport.pause_reading()


def gathered(pieces: Pieces) -> Pieces:
    """Join runs of small pieces, and leave large ones as they are."""
    joined: Pieces = []
    run: Pieces = []
    for piece in pieces:
        if len(piece) < JOINED_BYTES:
            run.append(piece)
            continue
        if run:
            joined.append(b"".join(run))
            run = []
        joined.append(piece)
    if run:
        joined.append(b"".join(run))
    return joined
