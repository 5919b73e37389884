"""One HTTP connection of the control endpoint: time limits, errors as JSON, and TLS."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import h11
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.tls import starts_handshake
from kafkalite.server.addresses import Address
from kafkalite.server.client_warnings import kind_of
from kafkalite.server.tls_transport import TlsTransport

if TYPE_CHECKING:
    import logging

    import uvicorn
    from starlette.types import Receive, Scope, Send
    from uvicorn.server import ServerState

    from kafkalite.server.client_warnings import ClientWarnings
    from kafkalite.server.logging import Log

_NO_TLS_MESSAGE: Final = "this control API has no TLS: use http://, not https://"
_TLS_MESSAGE: Final = "this control API has TLS: use https://, not http://"


class Limits(NamedTuple):
    """Limits for the clients of a control endpoint."""

    connections: int = 64
    """Above this number, the connection that has waited longest for a request is closed."""
    request_s: float = 5.0
    """The time limit for sending a request, and for reading a response."""
    keep_alive_s: float = 5.0
    """The time that a connection may stay idle between two requests."""


class EndpointContext(NamedTuple):
    """The objects that all connections of an endpoint use."""

    config: uvicorn.Config
    state: ServerState
    limits: Limits
    log: Log
    logger: logging.Logger
    """The logger of uvicorn's code."""
    loop: asyncio.AbstractEventLoop
    warnings: ClientWarnings
    """Receives the warnings about clients."""


class ControlConnection(H11Protocol):
    """A connection that is closed if a request does not arrive in time."""

    transport: asyncio.Transport

    def __init__(self, context: EndpointContext) -> None:
        super().__init__(context.config, context.state, {}, context.loop)
        self.logger = context.logger
        self.access_log = False
        self.timeout_keep_alive = context.limits.keep_alive_s  # type: ignore[assignment]  # a float works too
        self._log = context.log
        self._warnings = context.warnings
        self._limits = context.limits
        self._idle_since_s = 0.0
        self._request_timer: asyncio.TimerHandle | None = None
        self._response_timer: asyncio.TimerHandle | None = None

    # asyncio's protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the timer of the first request; close a connection if there are too many."""
        super().connection_made(transport)
        self._idle_since_s = self.loop.time()
        self._update_request_timer()
        self._limit_connections()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_request_timer()
        self._stop_response_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; start or stop the timer of the request."""
        if self.transport.is_closing():
            return
        if self._is_handshake(data):
            self.warn("the client seems to speak TLS, but the control API has no TLS")
            self.refuse(400, _NO_TLS_MESSAGE)
            return
        super().data_received(data)
        self._update_request_timer()

    def pause_writing(self) -> None:
        """Start the timer for reading the response."""
        super().pause_writing()
        self._stop_response_timer()
        self._response_timer = self.loop.call_later(
            self._limits.request_s, self._on_response_timeout
        )

    def resume_writing(self) -> None:
        """Stop the timer for reading the response."""
        self._stop_response_timer()
        super().resume_writing()

    # uvicorn's protocol

    def _should_upgrade(self) -> bool:
        return False

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP, and too large headers."""
        self.warn("the request is not valid HTTP, or its headers are too large")
        self.refuse(400, msg)

    def on_response_complete(self) -> None:
        """Start the timer of the next request, or parse a request that was pipelined."""
        self._idle_since_s = self.loop.time()
        super().on_response_complete()
        self._update_request_timer()

    def _is_handshake(self, data: bytes) -> bool:
        """Return whether `data` begins a TLS handshake; no request begins with its first byte."""
        is_begin = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        return is_begin and starts_handshake(data)

    # Time limits

    @property
    def is_waiting_for_request(self) -> bool:
        """Whether no complete request has arrived since the last response."""
        return self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    @property
    def _has_begun_request(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])

    def _update_request_timer(self) -> None:
        if not self._has_begun_request:
            self._stop_request_timer()
            if self.timeout_keep_alive_task is not None:
                return
        is_expecting_bytes = self.is_waiting_for_request and not self.transport.is_closing()
        if not is_expecting_bytes:
            self._stop_request_timer()
        elif self._request_timer is None:
            self._idle_since_s = self.loop.time()
            self._request_timer = self.loop.call_later(
                self._limits.request_s, self._on_request_timeout
            )

    def _stop_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _stop_response_timer(self) -> None:
        if self._response_timer is not None:
            self._response_timer.cancel()
            self._response_timer = None

    def _on_request_timeout(self) -> None:
        self._request_timer = None
        if self._has_begun_request:
            self.warn("the request takes too long")
            self.refuse(408, f"the request took longer than {self._limits.request_s:g} s")
        else:
            self._log.debug("a connection to the control API sent nothing", client=str(self.client))
            self.transport.abort()

    def _on_response_timeout(self) -> None:
        self._response_timer = None
        self.warn("the client does not read the response")
        self.transport.abort()

    # Refusals

    @property
    def host(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else "unknown"

    def warn(self, reason: str) -> None:
        """Log why the connection is closed; repeated warnings about a client are counted."""
        peer = str(Address(*self.client)) if self.client else self.host
        fields = {"peer": peer, "reason": reason}
        self._warnings.warn(self.host, kind_of(reason), "control connection closed", **fields)

    def refuse(self, status: int, error: str) -> None:
        """Answer with an error if an answer is still possible, and close the connection."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            body = json.dumps({"error": error}).encode()
            headers = [
                ("content-type", "application/json"),
                ("content-length", f"{len(body)}"),
                ("connection", "close"),
            ]
            response = h11.Response(
                status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode()
            )
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _limit_connections(self) -> None:
        others: list[ControlConnection] = [
            connection
            for connection in self.connections
            if isinstance(connection, ControlConnection)
            and connection is not self
            and not connection.transport.is_closing()
        ]
        if len(others) < self._limits.connections:
            return
        waiting = [connection for connection in others if connection.is_waiting_for_request]
        if waiting:
            min(waiting, key=lambda connection: connection._idle_since_s).close_for_new_connection()  # noqa: SLF001 - of the same class
        else:
            self._log.warning(
                "all connections of the control endpoint are busy", limit=self._limits.connections
            )
            self.app = _unavailable

    def close_for_new_connection(self) -> None:
        """Close this connection, which waits for a request, because a newer one needs its slot."""
        self.warn("there are too many connections, and this one has waited longest")
        if self._has_begun_request:
            self.refuse(503, "there are too many connections")
        else:
            self.transport.abort()


class EncryptedControlConnection(ControlConnection, asyncio.BufferedProtocol):
    """A connection behind a ControlTlsTransport, which decrypts into its buffer."""

    def __init__(self, context: EndpointContext, receive_buffer: memoryview) -> None:
        super().__init__(context)
        self._receive_buffer = receive_buffer

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as in asyncio
        """Return the buffer for decrypted bytes; all connections of the endpoint share it."""
        return self._receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse decrypted bytes."""
        self.data_received(bytes(self._receive_buffer[:nbytes]))

    def set_principal(self, principal: str) -> None:
        """Do nothing: clients of the control endpoint have a token, not a principal."""

    def close(self, reason: str) -> None:
        """Close a connection whose TLS failed."""
        self.warn(reason)
        self.transport.close()


class ControlTlsTransport(TlsTransport):
    """TLS of one connection; it answers requests without TLS in plain text."""

    __slots__ = ()

    def plain_text_answer(self, received: memoryview) -> bytes:
        """Return a response that HTTP clients without TLS understand."""
        del received
        return _response_bytes(400, _TLS_MESSAGE)


def _response_bytes(status: int, error: str) -> bytes:
    """Return a response that is the last of its connection."""
    body = json.dumps({"error": error}).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


async def _unavailable(scope: Scope, receive: Receive, send: Send) -> None:
    response: Any = JSONResponse(
        {"error": "there are too many requests"}, 503, {"connection": "close"}
    )
    await response(scope, receive, send)
