"""Connection: connects to one broker, logs in and sends requests, also without waiting."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from kafkalite.client.access import PLAINTEXT, LoginError, log_in
from kafkalite.client.exchanges import (
    Exchanges,
    PendingResponse,
    TlsAlertError,
    UnexpectedBytesError,
    api_key_of,
    encode_request,
    parse_response,
    supported_versions,
)
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.client.access import Access
    from kafkalite.protocol.message import Message
    from kafkalite.protocol.versions import Versions
    from kafkalite.server.addresses import Address

    P = TypeVar("P", bound=asyncio.Protocol)

SETUP_TIMEOUT_S: Final = 10.0
"""Maximum seconds until a connection is set up; the same as in Java."""
CLOSED_REASON: Final = "the connection was closed"
"""The reason of the loss of a connection if no other reason is known."""
FIRST_VERSION: Final = 0
"""The version of ApiVersions that every broker supports."""

_MAX_PORT: Final = 65_535
_MAX_QUEUED_BYTES: Final = 256 * 1024
"""Maximum number of bytes that wait for a `flush`."""
_CLOSE_TIMEOUT_S: Final = 1.0
"""Maximum seconds for closing a TLS connection."""
_TLS_REFUSALS: Final = (ConnectionResetError, ssl.SSLEOFError)
"""Exceptions at a TLS client if the listener of the broker does not use TLS."""


class UnreachableError(Exception):
    """A broker that does not answer, or is not a broker; the text is one line."""


class DisconnectedError(UnreachableError):
    """The broker closed the connection instead of answering."""


class ConnectError(Exception):
    """A connection attempt failed; the text is the reason."""

    def __init__(self, reason: str, *, may_be_access_problem: bool = False) -> None:
        super().__init__(reason)
        self.may_be_access_problem = may_be_access_problem
        """Whether wrong TLS settings or a missing password can be the cause."""


class InvalidAddressError(ConnectError):
    """An address to which no client can connect, such as one with port -1."""


async def connect(protocol: Callable[[], P], address: Address, tls: ssl.SSLContext | None) -> P:
    """Connect a protocol to an address, and return it; raises ConnectError if that fails."""
    # A cluster may advertise any address, and some systems treat port -1 as 65535.
    if not (address.host and 0 < address.port <= _MAX_PORT):
        raise InvalidAddressError("invalid address")
    loop = asyncio.get_running_loop()
    try:
        _, connected_protocol = await loop.create_connection(
            protocol, address.host, address.port, ssl=tls
        )
    except (OSError, ValueError) as error:  # a ValueError for an invalid host name
        is_refused = isinstance(error, _TLS_REFUSALS)
        raise ConnectError(reason_of(error), may_be_access_problem=is_refused) from error
    return connected_protocol


_APIS_BEFORE_LOGIN: Final = frozenset(
    (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
)
"""APIs that a broker answers before a client has logged in."""


class Connection(asyncio.Protocol):
    """One connection to one broker, which answers requests in order."""

    def __init__(
        self, address: Address, access: Access = PLAINTEXT, *, is_admitted: bool = False
    ) -> None:
        self.address = address
        self._access = access
        self._exchanges = Exchanges()
        self._transport: asyncio.Transport | None = None
        self._correlation_id = 0
        self._drained: asyncio.Future[None] | None = None
        self._closed = asyncio.Event()
        self._error: Exception | None = None
        self.broker_versions: Mapping[int, Versions] = {}
        """The versions that the broker supports, if they were requested when it was opened."""
        self.is_lost = False
        """Whether the connection was closed by either side."""
        self._has_answered = is_admitted
        """Whether the broker has answered a request, so that it expects no other choice of TLS."""
        self.is_admitted = is_admitted
        """Whether the broker has answered a request that no client sends before its login, on this
        connection or an earlier one."""
        self.loss_reason = CLOSED_REASON

    @classmethod
    async def open(
        cls,
        address: Address,
        access: Access = PLAINTEXT,
        *,
        timeout_s: float = SETUP_TIMEOUT_S,
        with_versions: bool = False,
        is_admitted: bool = False,
    ) -> Self:
        """Connect, request the supported versions if `with_versions` is set, and log in.

        `is_admitted` is that of an earlier connection with the same access. Raises UnreachableError
        if this fails.
        """
        connection = cls(address, access, is_admitted=is_admitted)
        try:
            async with asyncio.timeout(timeout_s):
                await connect(lambda: connection, address, access.tls)
                await connection._set_up(with_versions=with_versions)
        except TimeoutError as error:
            hint = f" ({access.tls_question})" if access.tls else ""
            raise UnreachableError(
                f"no broker answers at {address} within {timeout_s:g} s{hint}"
            ) from error
        except InvalidAddressError as error:
            raise UnreachableError(f"no broker can be at {address}") from error
        except ConnectError as error:
            hint = f" ({access.tls_question})" if error.may_be_access_problem else ""
            raise UnreachableError(f"no broker answers at {address}: {error}{hint}") from error
        except LoginError as error:
            raise UnreachableError(f"{address}: {error}") from error
        return connection

    async def _set_up(self, *, with_versions: bool) -> None:
        try:
            if with_versions:
                response = await self.call(ApiVersionsRequest(), FIRST_VERSION)
                self.broker_versions = supported_versions(response)
            if self._access.login is not None:
                await log_in(self._access.login, self.call)
        except LoginError:
            self.close()
            # TLS ends with a message of the peer. Otherwise the loop might end before it.
            await self.wait_closed()
            raise
        except BaseException:
            self.close()
            raise

    async def ask(self, request: Message, client_versions: Versions) -> Any:  # noqa: ANN401 - any response class
        """Return the response in the highest version that both sides support."""
        return await self.call(request, self._common_version(request, client_versions))

    def send_unanswered(self, request: Message, client_versions: Versions) -> None:
        """Send a request that the broker does not answer, in the highest common version.

        Raises UnreachableError if the connection is closed.
        """
        version = self._common_version(request, client_versions)
        if self.is_lost:
            raise self._no_answer_error(request, version)
        self._correlation_id += 1
        self.send(self._encoded(request, version), self._correlation_id)
        self.flush()

    def _common_version(self, request: Message, client_versions: Versions) -> int:
        key = api_key_of(request)
        broker_versions = self.broker_versions.get(key)
        common = None if broker_versions is None else broker_versions.overlap(client_versions)
        if common is None:
            raise UnreachableError(
                f"the broker at {self.address} does not support "
                f"{codec.api_name(key)} {client_versions}"
            )
        return common.highest

    async def call(self, request: Message, version: int) -> Any:  # noqa: ANN401 - see ask
        """Return the response to a request; raises UnreachableError if there is none."""
        self._correlation_id += 1
        frame = self._encoded(request, version)
        pending = self.send(frame, self._correlation_id)
        self.flush()
        try:
            await pending.wait(None)
        except BaseException:
            # A broker that does not answer would delay the next request as well.
            self.close()
            raise
        if pending.frame is None:
            raise self._no_answer_error(request, version)
        try:
            response = parse_response(pending.frame, api_key_of(request), version)
        except codec.PARSE_ERRORS as error:
            self.close()
            raise self._not_a_broker_error() from error
        self._has_answered = True
        self.is_admitted |= api_key_of(request) not in _APIS_BEFORE_LOGIN
        return response

    def _encoded(self, request: Message, version: int) -> bytes:
        return encode_request(request, version, self._correlation_id, self._access.client_id)

    def _no_answer_error(self, request: Message, version: int) -> UnreachableError:
        match self._error:
            case TlsAlertError():
                return UnreachableError(f"the broker at {self.address} accepts TLS only")
            case UnexpectedBytesError():
                return self._not_a_broker_error()
            case OSError() as error if not isinstance(error, (ConnectionError, ssl.SSLEOFError)):
                return UnreachableError(f"the broker at {self.address} is gone: {reason_of(error)}")
        title = f"{codec.api_name(api_key_of(request))} v{version}"
        questions = []
        if not self._has_answered:
            questions.append(self._access.tls_question)
        # A broker that requires a password answers ApiVersions before it, but only once.
        is_first = api_key_of(request) == ApiKey.API_VERSIONS and not self._has_answered
        if not self.is_admitted and not is_first:
            questions.append(self._access.login_question)
        hint = " ".join((*questions, "its log may have the reason"))
        return DisconnectedError(
            f"the broker at {self.address} closed the connection instead of answering {title} "
            f"({hint})"
        )

    def _not_a_broker_error(self) -> UnreachableError:
        return UnreachableError(f"the server at {self.address} is not a Kafka broker")

    def send(self, frame: bytes, correlation_id: int) -> PendingResponse:
        """Send a request frame without its length field, with the next `flush`."""
        if self.is_lost or self._transport is None:
            pending = PendingResponse(correlation_id)
            pending.resolve(None)
            return pending
        pending = self._exchanges.queue(frame, correlation_id)
        if self._exchanges.queued_bytes > _MAX_QUEUED_BYTES:
            self.flush()
        return pending

    def flush(self) -> None:
        """Write the queued requests in one call."""
        data = self._exchanges.take_queued()
        if data and self._transport is not None and not self.is_lost:
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until most of the written bytes are sent."""
        if self._drained is not None:
            await self._drained

    def close(self) -> None:
        """End the connection."""
        self.flush()
        self.is_lost = True
        if self._transport is not None:
            self._transport.close()

    async def wait_closed(self) -> None:
        """Wait until the connection has been closed; abort it after one second."""
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._closed.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    # -- asyncio.Protocol ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        # uvloop's has the methods of a Transport, but is not a subclass.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Resolve the requests whose responses are complete."""
        try:
            self._exchanges.feed(data)
        except UnexpectedBytesError as error:
            self._error = error
            self.loss_reason = str(error)
            self.close()
            self._exchanges.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Resolve all pending requests without a response."""
        self._error = self._error or exc
        self._closed.set()
        self.is_lost = True
        self._exchanges.end()
        self.resume_writing()

    def pause_writing(self) -> None:
        """Let `drain` wait: the broker reads more slowly than this client writes."""
        self._drained = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Let `drain` return."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)


def reason_of(error: OSError | ValueError) -> str:
    """Return a short text for an error."""
    if not isinstance(error, OSError):
        return "the host name is invalid"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message.lower()}"
    if isinstance(error, ssl.SSLError):
        return f"TLS fails: {(error.reason or 'no reason').lower().replace('_', ' ')}"
    if isinstance(error, socket.gaierror):
        return (error.strerror or "unknown host").lower()
    if isinstance(error, ConnectionError) and not error.errno:
        return "it closed the connection"
    return os.strerror(error.errno).lower() if error.errno else "it cannot be reached"
