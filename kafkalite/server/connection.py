"""Connection: one client's socket, from received bytes to sent answers.

Received bytes are served before the callback returns, and all answers are sent in one write: a
write per answer or a task per request would cost five to ten times as much. Requests that do not
fit in one turn of the scheduler are served later; until then nothing more is read from the socket.
A client that sends without pause is not read again before the other sockets.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, cast

from kafkalite.coordinator.contract import Event
from kafkalite.gateway.call import ConnectionContext
from kafkalite.protocol.acl_operations import Entity
from kafkalite.security.client_addresses import java_address
from kafkalite.server.client_warnings import kind_of
from kafkalite.server.logging import Level
from kafkalite.wire.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.ports.clock import Timer
    from kafkalite.ports.workers import Worker
    from kafkalite.security.quotas import QuotaEntity
    from kafkalite.server.listener import ListenerContext
    from kafkalite.wire.session import Pieces

MAX_JOINED_BYTES = 64 * 1024
"""Up to this size, copying the pieces into one is cheaper than sending several."""

WRITE_HIGH_BYTES = 256 * 1024
"""The size of unread answers above which a client is not served."""

LARGE_READ_BYTES = 64 * 1024
"""A read of at least this size is likely to be followed by another one."""

LINGER_S = 2.0
"""The maximum time that a connection may take to send its last answers when it is closed."""


class Connection(asyncio.BufferedProtocol):
    """A client's socket at one listener of one node."""

    __slots__ = (
        "_call_context",
        "_context",
        "_is_busy",
        "_is_queued",
        "_is_reading",
        "_is_waiting_for_memory",
        "_is_writable",
        "_mute_end_ms",
        "_mute_timer",
        "_unread_answer_bytes",
        "_unsent_bytes_at_idle_check",
        "_was_last_read_large",
        "_worker",
        "_worker_error",
        "host",
        "is_admitted",
        "last_active_tick",
        "session",
        "transport",
    )  # fmt: skip

    def __init__(self, context: ListenerContext) -> None:
        self._context = context
        self.transport: asyncio.Transport
        """The transport for answers; a recording replaces it."""
        self._call_context: ConnectionContext
        self._is_reading = True
        self._is_writable = True
        self._mute_timer: Timer | None = None
        """Set while the client is throttled."""
        self._mute_end_ms = 0
        self._is_queued = False
        """Whether this connection is in the scheduler's queue."""
        self._is_waiting_for_memory = False
        self._was_last_read_large = False
        """Whether the last read was so large that more is likely to follow."""
        self._is_busy = False
        """Whether requests remained at the end of the last turn."""
        self._worker: Worker | None = None
        """The worker that serves a request which did not finish within one turn."""
        self._worker_error: Exception | None = None
        """The exception that ended the last task of a worker, until it is handled."""
        self._unsent_bytes_at_idle_check = 0
        self._unread_answer_bytes = 0
        """The bytes of answers in memory that this client has not read."""
        self.host = ""
        """The client's address, without its port."""
        self.session: Session
        self.is_admitted = False
        self.last_active_tick = 0
        """The tick of `Admission` in which bytes last arrived or were sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Create the session; the admission of the node decides whether it is served."""
        self.transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        address = transport.get_extra_info("peername")
        if address:
            # Most clients come from a few addresses: intern their text.
            self.host = sys.intern(java_address(address[0]))
        context = self._context
        self._call_context = call_context = ConnectionContext(
            node=context.node,
            listener=context.listener,
            client_host=sys.intern(f"/{self.host}"),
        )
        call_context.connection = self
        settings = context.session_settings
        self.session = Session(settings, call_context, self)
        # Until the admission, and forever if the next lines fail: nothing is served without a gate.
        self.session.is_paused = True
        try:
            if context.sasl is not None:
                context.sasl.new_gate(call_context, settings).attach(self.session)
            context.admission.add(self)
        except Exception as error:  # noqa: BLE001 - an exception must end this connection only
            self._fail(error)

    @property
    def node_id(self) -> int:
        """The node that the client is connected to."""
        return self._context.node.id

    @property
    def listener(self) -> str:
        """The name of the listener that the client is connected to."""
        return self._context.listener

    @property
    def port(self) -> int | None:
        """The port of the client; None if it is unknown."""
        address = self.transport.get_extra_info("peername")
        return address[1] if address else None

    @property
    def peer(self) -> str:
        """The client's address and port for log lines."""
        address = self.transport.get_extra_info("peername")
        return f"{address[0]}:{address[1]}" if address else "?"

    @property
    def client_id(self) -> str | None:
        """The client id of the latest request; None if there is none."""
        return self._call_context.client_id

    @property
    def is_reading(self) -> bool:
        """Whether bytes are read from the socket."""
        return self._is_reading

    @property
    def is_writable(self) -> bool:
        """Whether the client reads its answers."""
        return self._is_writable

    def replace_transport(self, transport: asyncio.Transport) -> asyncio.Transport:
        """Send by another transport from now on, and return the present one."""
        replaced, self.transport = self.transport, transport
        return replaced

    def set_principal(self, principal: str) -> None:
        """Set the identity of the client, such as that of its certificate."""
        self._call_context.principal = principal

    @property
    def client_quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """The quotas that the node of this connection knows."""
        return self._context.node.image.client_quotas

    def report_throttle(self, quota: str, throttle_ms: int) -> None:
        """Log that this connection exceeds a quota, and for how long it is throttled."""
        context = self._context
        facts = {"quota": quota, "throttle_ms": throttle_ms}
        self._explain("throttled", f"a new connection exceeded the quota {quota}", facts)
        context.warn_about_client(
            self.host,
            f"throttled by {quota}",
            "connection throttled",
            peer=self.peer,
            listener=context.listener,
            quota=quota,
            throttle_ms=throttle_ms,
        )

    def _explain(self, kind: str, text: str, facts: Mapping[str, object]) -> None:
        """Add an event to the history of the client's address."""
        if self.host:  # empty if the client reset the connection before it was accepted
            node, listener = self._context.node, self._context.listener
            facts = {"listener": listener, **facts}
            event = Event(self.host, kind, text, facts, Entity.CLIENT)
            node.history.add(event, node.clock.now_ms())

    def hold(self) -> None:
        """Receive nothing until `admit`, so that a waiting connection needs little memory."""
        self._is_reading = False
        self._pause_held()
        # uvloop begins to read when `connection_made` returns, even if reading was paused in it.
        asyncio.get_running_loop().call_soon(self._pause_held)

    def _pause_held(self) -> None:
        if not (self._is_reading or self.transport.is_closing()):
            self.transport.pause_reading()

    def admit(self) -> None:
        """Serve this client from now on, beginning with the bytes it has sent already."""
        self.is_admitted = True
        self._update_pause()
        self._take_turn()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - this class chooses the size
        """Return the buffer for received bytes."""
        return self.session.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Serve received bytes; queue the connection if it has sent much and others wait.

        The event loop reads from one socket up to 32 times before it turns to others, unless
        reading is paused. So the connection is also queued at the end of a read turn.
        """
        scheduler, session = self._context.scheduler, self.session
        try:
            session.buffer_updated(nbytes)
            is_large = nbytes >= LARGE_READ_BYTES
            must_wait = scheduler.is_busy and (
                self._is_busy
                or self._was_last_read_large
                or (is_large and scheduler.is_read_turn_over())
            )
            self._was_last_read_large = is_large
            if must_wait:
                session.store_received()
                self._enqueue()
            else:
                if is_large:
                    scheduler.begin_read_turn()
                scheduler.begin_turn()
                session.serve()
            self._deliver()
            if is_large and not self._is_queued and scheduler.is_read_turn_over():
                self._enqueue()
                self._update_reading()
        except Exception as error:  # noqa: BLE001 - an exception must end this connection only
            self._fail(error)

    def eof_received(self) -> None:
        """Return None, so that asyncio closes the transport.

        In Kafka, too, a client that stops sending has disconnected.
        """

    def pause_writing(self) -> None:
        """Serve no further requests while the client does not read."""
        self._is_writable = False
        self._update_pause()
        self._count_unread_bytes(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Continue to serve: the client reads again."""
        self._is_writable = True
        self._update_pause()
        self._count_unread_bytes(0)
        self._take_turn()

    def _count_unread_bytes(self, count: int) -> None:
        self._context.node.unread_answers.bytes += count - self._unread_answer_bytes
        self._unread_answer_bytes = count

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """Release everything that belongs to the connection."""
        self._count_unread_bytes(0)
        worker, self._worker = self._worker, None
        if worker is not None:
            self._context.scheduler.end(worker)
        if self._is_waiting_for_memory:
            self._context.memory_queue.remove(self)
        self.session.close()
        self._context.admission.remove(self)
        self._context.scheduler.count_closed_connection()
        authenticator = self._call_context.authenticator
        if authenticator is not None and authenticator.unacknowledged_refusal:
            self._report_closed(authenticator.unacknowledged_refusal)
        if self._mute_timer is not None:
            self._mute_timer.cancel()
            self._mute_timer = None
        self._call_context.close()

    def close(self, reason: str | None = None, level: Level = Level.WARNING) -> None:
        """Send the answers that were written, then close; a `reason` is logged."""
        transport = self.transport
        if transport.is_closing():
            return
        if reason is not None:
            if level >= Level.WARNING:
                self._report_closed(reason)
            else:
                fields = self._log_fields(reason)
                self._context.log.info("connection closed", **fields)
        transport.close()
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(LINGER_S, transport.abort)

    def _report_closed(self, reason: str) -> None:
        """Log and explain that the broker does not serve a client."""
        self._explain("refused", f"connection closed: {reason}", {"reason": reason})
        self._context.warn_about_client(
            self.host, kind_of(reason), "connection closed", **self._log_fields(reason)
        )

    def _log_fields(self, reason: str) -> Mapping[str, object]:
        return {"peer": self.peer, "listener": self._context.listener, "reason": reason}

    def abort(self) -> None:
        """Close immediately, without sending the remaining answers."""
        self.transport.abort()

    def is_idle(self, since_tick: int) -> bool:
        """Whether no byte was sent or received since that tick, and no answer is pending."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes != self._unsent_bytes_at_idle_check:
            self._unsent_bytes_at_idle_check = unsent_bytes
            self.last_active_tick = self._context.admission.tick
        is_served = (
            self._is_queued
            or self._worker is not None
            or self._mute_timer is not None
            or self.session.has_pending_answer
        )
        return self.last_active_tick < since_tick and not is_served

    def stop_serving(self) -> None:
        """Serve no further requests; pending answers may still arrive and be sent."""
        self.is_admitted = False
        self._update_pause()

    def mute(self, duration_ms: int) -> None:
        """Serve no further request for this time by the broker's clock; answers are still sent.

        The longest of several times counts.
        """
        if self.transport.is_closing():
            return
        clock = self._context.node.clock
        end_ms = clock.now_ms() + duration_ms
        if self._mute_timer is not None:
            if end_ms <= self._mute_end_ms:
                return
            self._mute_timer.cancel()
        self._mute_end_ms = end_ms
        self._mute_timer = clock.call_at(end_ms, self._unmute)
        self._update_pause()

    def _unmute(self) -> None:
        self._mute_timer = None
        self._update_pause()
        self._take_turn()

    def _update_pause(self) -> None:
        may_serve = self.is_admitted and self._is_writable and self._mute_timer is None
        self.session.is_paused = not may_serve

    def wake(self) -> None:
        """Send an answer that has arrived, in the next iteration of the event loop."""
        asyncio.get_running_loop().call_soon(self._take_turn)

    def _enqueue(self) -> None:
        self._is_queued = True
        self._context.scheduler.enqueue(self)

    def continue_turn(self) -> None:
        """Take the queued turn."""
        self._is_queued = False
        if self._worker is None:
            self._take_turn()
        elif not self.transport.is_closing():
            self._run_worker(self._worker)

    def _take_turn(self) -> None:
        """Serve the next requests, unless a queued or running turn will serve them anyway."""
        if self._is_queued or self._worker is not None or self.transport.is_closing():
            return
        try:
            self._context.scheduler.begin_turn()
            self.session.serve()
            self._deliver()
        except Exception as error:  # noqa: BLE001 - an exception must end this connection only
            self._fail(error)

    def _run_worker(self, worker: Worker | None) -> None:
        """Let a worker serve for one turn: the paused `worker`, or a new one."""
        scheduler = self._context.scheduler
        if worker is None:
            worker = scheduler.run(self._serve_in_worker, self)
        else:
            worker = scheduler.resume(worker, self)
        self._worker = worker
        if worker is not None:
            # The worker continues to read these bytes in its next turn.
            self.session.pin_received_bytes()
            # No answer is sent yet, because the worker may be building it.
            self._is_queued = self._is_busy = True
            self._update_reading()
            return
        error, self._worker_error = self._worker_error, None
        if error is None:
            try:
                self._deliver()
            except Exception as delivery_error:  # noqa: BLE001 - it must end this connection only
                error = delivery_error
        if error is not None:
            self._fail(error)

    def _serve_in_worker(self) -> None:
        try:
            self.session.serve_in_worker()
        except Exception as error:  # noqa: BLE001 - an exception must end this connection only
            self._worker_error = error

    def _fail(self, error: Exception) -> None:
        """Log a bug and close the connection; the event loop alone would not log it."""
        self._context.log.error(
            "connection closed", exception=error, peer=self.peer, listener=self._context.listener
        )
        self.transport.abort()

    def _deliver(self) -> None:
        """Send the answers, and queue the connection if requests remain."""
        session, transport = self.session, self.transport
        self.last_active_tick = self._context.admission.tick
        if session.out:
            is_small = session.out_bytes <= MAX_JOINED_BYTES
            pieces = session.take_answers()
            if is_small:
                transport.write(b"".join(pieces))
            else:
                transport.writelines(join_small_pieces(pieces))
        if session.violation is not None:
            self.close(session.violation)
            return
        if session.needs_worker and self._worker is None and not self._is_queued:
            self._run_worker(None)
            return
        if not self._is_queued:
            self._is_busy = session.is_interrupted
            if session.is_interrupted and not session.is_paused:
                self._enqueue()
        may_read = not (self._is_queued or session.should_pause_reading)
        if (
            self._context.session_settings.buffers.in_use_bytes
            and may_read
            and not session.reserve()
        ):
            self._wait_for_memory()
        may_read = may_read and not self._is_waiting_for_memory
        if may_read is not self._is_reading:
            self._update_reading()

    def _wait_for_memory(self) -> None:
        if not self._is_waiting_for_memory:
            self._is_waiting_for_memory = True
            self._context.memory_queue.enqueue(self)

    @property
    def incomplete_request_bytes(self) -> int:
        """The bytes received of an incomplete request; 0 while a request is served."""
        is_served = self._is_queued or self._worker is not None or self.session.has_pending_answer
        return 0 if is_served else self.session.stored_bytes

    def reserve(self) -> bool:
        """Take the memory that the next read needs; return False if there is not enough."""
        return self.session.reserve()

    def continue_reading(self) -> None:
        """Resume reading from the socket, if nothing else prevents it."""
        self._is_waiting_for_memory = False
        if not self.transport.is_closing():
            self._update_reading()

    def _update_reading(self) -> None:
        """Read from the socket unless a turn is queued, or enough bytes are buffered already."""
        may_read = not (
            self._is_queued or self._is_waiting_for_memory or self.session.should_pause_reading
        )
        if may_read is not self._is_reading:
            self._is_reading = may_read
            if may_read:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()


def join_small_pieces(pieces: Pieces) -> Pieces:
    """Join runs of small pieces; leave large ones as they are."""
    joined: Pieces = []
    run: Pieces = []
    for piece in pieces:
        if len(piece) < MAX_JOINED_BYTES:
            run.append(piece)
            continue
        if run:
            joined.append(b"".join(run))
            run = []
        joined.append(piece)
    if run:
        joined.append(b"".join(run))
    return joined
