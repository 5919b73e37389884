"""TlsTransport: TLS between a client's socket and its connection.

The event loop's own TLS does not fit: it reports neither the client nor the reason of a failed
handshake, creates the connection only after the handshake, so that waiting clients are not counted,
and cannot change its certificate. So OpenSSL is driven here through memory buffers. The connection
exists from the first moment: the limits for connections and the check for idle ones apply to
handshakes as well.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from kafkalite.security.tls import (
    alert_for_weak_certificate,
    handshake_failure_reason,
    plain_text_answer,
    plain_text_reason,
    starts_handshake,
    with_alert_of_java,
)
from kafkalite.wire.frames import SHARED_BUFFER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.security.tls import TlsServer

HANDSHAKE_TIMEOUT_S: Final = 30.0
"""The maximum duration of a handshake, so that slow clients do not occupy connections."""

MAX_HANDSHAKE_BYTES: Final = 256 * 1024
"""The maximum size of what a client sends in a handshake; certificate chains are much shorter."""

MAX_ENCRYPTED_BYTES: Final = 256 * 1024
"""Bytes to encrypt before they are sent: OpenSSL never shrinks the buffer of a connection."""

BufferedProtocol = asyncio.BufferedProtocol
"""A connection, or its recording."""


class TlsClient(Protocol):
    """The connection of a client whose handshake ends."""

    def set_principal(self, principal: str) -> None:
        """Set the principal of the client's certificate; the handshake is complete."""

    def close(self, reason: str) -> None:
        """Close the connection, and log the reason."""


def new_receive_buffer() -> memoryview:
    """Return a buffer for encrypted bytes, which all connections of a listener share."""
    return memoryview(bytearray(SHARED_BUFFER_BYTES))


class _State(Enum):
    HANDSHAKE = "handshake"
    ESTABLISHED = "established"
    CLOSED = "closed"
    """Nothing more is read; the last bytes may still be sent."""


class TlsTransport(asyncio.BufferedProtocol):
    """The protocol of a socket, and the transport of its connection."""

    __slots__ = (
        "_connection",
        "_handshake_bytes",
        "_incoming",
        "_is_decrypting",
        "_is_reading",
        "_outgoing",
        "_protocol",
        "_receive_buffer",
        "_socket",
        "_state",
        "_timer",
        "_tls",
        "_tls_server",
    )  # fmt: skip

    def __init__(
        self,
        tls_server: TlsServer,
        receive_buffer: memoryview,
        connection: TlsClient,
        protocol: BufferedProtocol,
    ) -> None:
        """`protocol` receives decrypted bytes: the connection, or its recording.

        The transports of one event loop share a buffer of `new_receive_buffer`: the loop fills it
        and a transport empties it within one call. Brokers on other threads need another one.
        """
        self._receive_buffer = receive_buffer
        self._tls_server = tls_server
        self._connection = connection
        self._protocol = protocol
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject
        """Created for the first bytes: it needs more memory than the rest of a connection."""
        self._state = _State.HANDSHAKE
        self._handshake_bytes = 0
        self._is_reading = True
        self._is_decrypting = False
        self._timer: asyncio.TimerHandle | None = None
        self._socket: asyncio.Transport

    # The protocol of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Create the connection, and wait for the client's handshake."""
        self._socket = cast("asyncio.Transport", transport)
        self._protocol.connection_made(cast("asyncio.BaseTransport", self))
        # A connection that waits to be accepted does not read: its handshake begins later.
        if self._is_reading and self._state is _State.HANDSHAKE:
            self._start_timer()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - this class chooses the size
        """Return the buffer for encrypted bytes."""
        return self._receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt received bytes, and pass them on."""
        if self._state is _State.CLOSED:
            return
        received = self._receive_buffer[:nbytes]
        if self._state is _State.HANDSHAKE:
            if not self._handshake_bytes and not starts_handshake(received):
                self._socket.write(self.plain_text_answer(received))
                self._fail(plain_text_reason(bytes(received[:4])))
                return
            if not self._handshake_bytes:
                self._tls = self._tls_server.context().wrap_bio(
                    self._incoming, self._outgoing, server_side=True
                )
            self._handshake_bytes += nbytes
        self._incoming.write(received)
        if self._state is _State.HANDSHAKE:
            self._continue_handshake()
        self._decrypt()

    def plain_text_answer(self, received: memoryview) -> bytes:
        """Return the bytes for a client that sent plain text, before it is disconnected."""
        return plain_text_answer(received)

    def eof_received(self) -> None:
        """Return None, so that the event loop closes the socket: the client has disconnected."""
        if self._state is _State.HANDSHAKE and self._handshake_bytes:
            self._fail("the client disconnects during the TLS handshake")
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        """Forward: the client does not read."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Forward: the client reads again."""
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forward: the socket is closed."""
        self._state = _State.CLOSED
        self._stop_timer()
        self._protocol.connection_lost(exc)
        # The connection may still refer to this object. The state of OpenSSL has 40 KB and more,
        # which the garbage collector does not see.
        with suppress(AttributeError):
            del self._tls
        del self._connection, self._protocol

    def _continue_handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_encrypted()
            if self._handshake_bytes > MAX_HANDSHAKE_BYTES:
                self._fail(f"the TLS handshake is above {MAX_HANDSHAKE_BYTES} bytes")
            return
        except (ssl.SSLError, ValueError) as error:
            alert = with_alert_of_java(self._outgoing.read())
            if alert and not self._socket.is_closing():
                self._socket.write(alert)
            self._fail(handshake_failure_reason(error))
            return
        certificate = self._tls.getpeercert(binary_form=True)
        try:
            self._tls_server.check_client(certificate)
        except ValueError as error:
            self._outgoing.read()
            self._socket.write(alert_for_weak_certificate(self._tls.version()))
            self._fail(str(error))
            return
        self._send_encrypted()
        self._stop_timer()
        try:
            principal = self._tls_server.principal_of(certificate)
        except ValueError as error:
            self._fail(str(error))
            return
        self._connection.set_principal(principal)
        self._state = _State.ESTABLISHED
        if not self._is_reading:
            self._socket.pause_reading()

    def _decrypt(self) -> None:
        """Pass decrypted bytes on while the connection reads."""
        if self._is_decrypting:
            return  # The connection resumes reading while it is given bytes.
        self._is_decrypting = True
        try:
            while self._state is _State.ESTABLISHED and self._is_reading and self._has_bytes:
                space = cast("memoryview", self._protocol.get_buffer(-1))
                count = self._read_into(space)
                # The buffer cannot grow while a memoryview refers to it.
                del space
                if not count:
                    break
                self._protocol.buffer_updated(count)
        finally:
            self._is_decrypting = False

    @property
    def _has_bytes(self) -> bool:
        return bool(self._incoming.pending or self._tls.pending())

    def _read_into(self, space: memoryview) -> int:
        """Decrypt into `space`, and return the number of bytes."""
        count = 0
        size = len(space)
        try:
            while count < size:
                read = cast("int", self._tls.read(size - count, space[count:]))
                if not read:
                    self._end_reading()
                    break
                count += read
                if not self._has_bytes:
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._end_reading()
        except ssl.SSLError as error:
            self._fail(handshake_failure_reason(error))
        if self._outgoing.pending:
            self._send_encrypted()  # such as the answer to an update of keys
        return count

    def _end_reading(self) -> None:
        """Close the connection, as after the end of a stream: the client sends nothing more."""
        asyncio.get_running_loop().call_soon(self.close)

    def _fail(self, reason: str) -> None:
        """Send the alert, if there is one, and close the connection with a log line."""
        self._send_encrypted()
        self._state = _State.CLOSED
        self._stop_timer()
        self._connection.close(reason)

    def _send_encrypted(self) -> None:
        if self._outgoing.pending and not self._socket.is_closing():
            self._socket.write(self._outgoing.read())

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(
            HANDSHAKE_TIMEOUT_S, self._fail, "the TLS handshake takes too long"
        )

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    # The transport of the connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Encrypt and send all pieces in one call."""
        if self._state is not _State.ESTABLISHED:
            return
        try:
            for data in list_of_data:
                if len(data) <= MAX_ENCRYPTED_BYTES:
                    self._encrypt(data)
                    continue
                view = memoryview(data)
                for start in range(0, len(view), MAX_ENCRYPTED_BYTES):
                    self._encrypt(view[start : start + MAX_ENCRYPTED_BYTES])
        except ssl.SSLError as error:
            self._fail(handshake_failure_reason(error))
            return
        self._send_encrypted()

    def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        if data:
            self._tls.write(data)
        if self._outgoing.pending >= MAX_ENCRYPTED_BYTES:
            self._send_encrypted()

    def get_protocol(self) -> BufferedProtocol:
        """Return the protocol that gets decrypted bytes."""
        return self._protocol

    def set_protocol(self, protocol: BufferedProtocol) -> None:
        """Pass decrypted bytes to another protocol from now on."""
        self._protocol = protocol

    def close(self) -> None:
        """Announce the end to the client, and close when all bytes are sent."""
        if self._state is _State.ESTABLISHED:
            self._state = _State.CLOSED
            with suppress(ssl.SSLError):  # The client has not answered yet, and need not.
                self._tls.unwrap()
            self._send_encrypted()
        self._state = _State.CLOSED
        self._stop_timer()
        self._socket.close()

    def abort(self) -> None:
        """Close immediately."""
        self._state = _State.CLOSED
        self._stop_timer()
        self._socket.abort()

    @property
    def is_in_handshake(self) -> bool:
        """Whether the handshake has not been completed yet."""
        return self._state is _State.HANDSHAKE

    def is_closing(self) -> bool:
        """Whether the socket is closed or about to be closed."""
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        """Receive nothing more."""
        self._is_reading = False
        self._socket.pause_reading()

    def pause_after_handshake(self) -> None:
        """Receive nothing more when the handshake is complete."""
        if not self._is_reading:
            self.resume_reading()
        self._is_reading = False

    def resume_reading(self) -> None:
        """Continue with the bytes that were received already."""
        self._is_reading = True
        if self._socket.is_closing():
            return
        self._socket.resume_reading()
        if self._state is _State.HANDSHAKE and self._timer is None:
            self._start_timer()
        if not self._is_decrypting:
            asyncio.get_running_loop().call_soon(self._decrypt)

    def get_write_buffer_size(self) -> int:
        """Return the number of encrypted bytes that wait to be sent."""
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the sizes at which `pause_writing` and `resume_writing` are called."""
        self._socket.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as asyncio
        """Return a fact about the socket, or the `server_name` in the client's handshake."""
        if name == "server_name":
            return getattr(self._tls, name, default)
        return self._socket.get_extra_info(name, default)
