"""KafkaClient: asks brokers, ours or real ones, what an administrator would; in Kafka's protocol.

Each request goes out in the highest version that both sides know. A connection carries one request
at a time; what it was good for once is opened anew when it fails.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import defaultdict
from struct import Struct
from typing import TYPE_CHECKING, Any, Self

from kafkalite.control.access import OPEN, LoginError, log_in
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.versions import Versions
from kafkalite.wire.headers import API_VERSIONS_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from kafkalite.control.access import Access
    from kafkalite.protocol.message import Message
    from kafkalite.server.addresses import Address

_CLIENT_ID = b"kafkalite"
_LENGTH = Struct(">i")
_HEADER = Struct(">hhih")
_FIRST_VERSION = 0
"""Of ApiVersions: every broker answers it, whatever else it speaks."""
_MAX_ANSWER = 16 * 1024 * 1024
_FAREWELL_S = 1.0
_TLS_ALERT = 0x1503
"""What begins an answer of TLS to those who do not speak it."""
_SETUP_S = 10.0
"""How long a broker may take to let us in; as in Java."""


_LAST_PORT = 65_535

_HANGS_UP = (ConnectionResetError, ssl.SSLEOFError)
"""How a broker that speaks no TLS answers those who do."""

CANNOT_CONNECT = (OSError, ValueError)
"""What connecting raises; the latter where a host's name is none."""


class UnreachableError(Exception):
    """A broker that is not there, or is none; the text is one line for people."""


class _HungUpError(UnreachableError):
    """A connection that the broker closed instead of answering."""


class _Connection:
    """One connection to one broker."""

    def __init__(
        self,
        address: Address,
        access: Access,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._address = address
        self._access = access
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0
        self._turn = asyncio.Lock()
        self._served: Mapping[int, Versions] = {}

    @classmethod
    async def open(cls, address: Address, access: Access) -> Self:
        """Connect, learn what the broker speaks, and log in.

        UnreachableError, or one of CANNOT_CONNECT.
        """
        check_address(address)
        streams = await asyncio.open_connection(address.host, address.port, ssl=access.tls)
        made = cls(address, access, *streams)
        try:
            told = await made._call(ApiVersionsRequest(), _FIRST_VERSION)
            if access.login is not None:
                await log_in(access.login, made._call)
        except LoginError as error:
            made.close()
            raise UnreachableError(f"{address}: {error}") from error
        except BaseException:
            made.close()
            raise
        made._served = versions_told(told)
        return made

    async def ask(self, request: Message, known: Versions) -> Any:  # noqa: ANN401 - any response class
        """Return the answer to a request of which we know these versions."""
        key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        served = self._served.get(key)
        common = None if served is None else served.overlap(known)
        if common is None:
            raise UnreachableError(
                f"the broker at {self._address} has no {codec.api_name(key)} of version {known}"
            )
        return await self._call(request, common.highest)

    async def _call(self, request: Message, version: int) -> Any:  # noqa: ANN401 - see ask
        key: int = request.API_KEY  # type: ignore[attr-defined]  # see ask
        async with self._turn:
            try:
                self._correlation_id += 1
                self._writer.write(framed(request, key, version, self._correlation_id))
                await self._writer.drain()
                return self._parsed(await self._frame(), key, version)
            except (asyncio.IncompleteReadError, ConnectionError):
                self.close()
                raise _HungUpError(
                    f"the broker at {self._address} closed the connection ({self._access.doubt})"
                ) from None
            except BaseException:
                # An answer that nobody waited for would be taken for the next request's.
                self.close()
                raise

    async def _frame(self) -> bytes:
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        if length >> 16 == _TLS_ALERT:
            raise UnreachableError(f"the broker at {self._address} speaks TLS alone")
        if not _LENGTH.size <= length <= _MAX_ANSWER:
            raise self._nonsense()
        return await self._reader.readexactly(length)

    def _parsed(self, answer: bytes, key: int, version: int) -> Any:  # noqa: ANN401 - see ask
        if _LENGTH.unpack_from(answer) != (self._correlation_id,):
            raise self._nonsense()
        try:
            return parsed_answer(answer, key, version)
        except codec.PARSE_ERRORS as error:
            raise self._nonsense() from error

    def _nonsense(self) -> UnreachableError:
        return UnreachableError(f"what answers at {self._address} is no Kafka broker")

    @property
    def is_closed(self) -> bool:
        """Whether the connection is of no use any more."""
        return self._writer.is_closing()

    def close(self) -> None:
        """Leave."""
        self._writer.close()

    async def closed(self) -> None:
        """Wait until that is done, which takes TLS a word of farewell."""
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await self._writer.wait_closed()
        except OSError:  # a TimeoutError is one
            self._writer.transport.abort()


class KafkaClient:
    """A client of one cluster, which keeps a connection to each broker that it has asked."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        access: Access = OPEN,
        *,
        answer_s: float | None = None,
    ) -> None:
        """Make a client that finds the cluster by any of these addresses.

        An answer may take `answer_s`; without it, as long as whoever asks lets it.
        """
        self._bootstrap = bootstrap
        self._answer_s = answer_s
        self._access = access
        self._connections: dict[Address, _Connection] = {}
        # One address that nobody answers at must not keep us from all others.
        self._opening: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.closed()

    def alike(self) -> KafkaClient:
        """Return another client like this one, which has no connections yet."""
        return KafkaClient(self._bootstrap, self._access, answer_s=self._answer_s)

    async def reach(self) -> None:
        """Find a broker that is there; UnreachableError."""
        await self.ask_any(ApiVersionsRequest(), Versions(_FIRST_VERSION, _FIRST_VERSION))

    async def ask_any(self, request: Message, known: Versions) -> Any:  # noqa: ANN401 - any response class
        """Return the answer of the first bootstrap address that gives one; UnreachableError."""
        reasons = []
        for address in self._bootstrap:
            try:
                return await self.ask(address, request, known)
            except UnreachableError as error:
                reasons.append(str(error))
        raise UnreachableError("; ".join(reasons))

    async def ask(self, address: Address, request: Message, known: Versions) -> Any:  # noqa: ANN401 - any response class
        """Return the answer of the broker at `address`; UnreachableError."""
        kept = self._connections.get(address)
        connection = await self._connection(address)
        try:
            async with asyncio.timeout(self._answer_s):
                return await connection.ask(request, known)
        except _HungUpError:
            if connection is not kept:
                raise
            # A broker closes what has been idle; that says nothing of whether it is there.
            return await self.ask(address, request, known)
        except TimeoutError as error:
            raise UnreachableError(
                f"the broker at {address} gives no answer within {self._answer_s or 0:g} s"
            ) from error
        except OSError as error:
            raise UnreachableError(f"the broker at {address} is gone: {why(error)}") from error

    async def _connection(self, address: Address) -> _Connection:
        async with self._opening[address]:
            connection = self._connections.get(address)
            if connection is None or connection.is_closed:
                setup_s = min(_SETUP_S, self._answer_s or _SETUP_S)
                try:
                    async with asyncio.timeout(setup_s):
                        connection = await _Connection.open(address, self._access)
                except TimeoutError as error:
                    doubt = f" ({self._access.doubt})" if self._access.tls else ""
                    raise UnreachableError(
                        f"no broker answers at {address} within {setup_s:g} s{doubt}"
                    ) from error
                except _HANGS_UP as error:
                    raise UnreachableError(
                        f"no broker answers at {address}: {why(error)} ({self._access.doubt})"
                    ) from error
                except CANNOT_CONNECT as error:
                    raise UnreachableError(
                        f"no broker answers at {address}: {why(error)}"
                    ) from error
                self._connections[address] = connection
            return connection


def framed(request: Message, key: int, version: int, correlation_id: int) -> bytes:
    """Return a request as it goes out, its length included."""
    out: list[bytes | memoryview] = []
    codec.request_builder(key, version)(request, out)
    tags = b"\0" if codec.is_flexible(key, version) else b""
    head = _HEADER.pack(key, version, correlation_id, len(_CLIENT_ID)) + _CLIENT_ID + tags
    size = len(head) + sum(map(len, out))
    return b"".join((_LENGTH.pack(size), head, *out))


def parsed_answer(answer: bytes, key: int, version: int) -> Any:  # noqa: ANN401 - any response class
    """Return the message of an answer, given without its length; one of codec.PARSE_ERRORS."""
    has_tags = codec.is_flexible(key, version) and key != API_VERSIONS_KEY
    start = _LENGTH.size + has_tags
    response, _ = codec.response_parser(key, version)(answer, start, len(answer))
    return response


def check_address(address: Address) -> None:
    """Raise UnreachableError for what a broker may say but no system would refuse, like port -1."""
    if not (address.host and 0 < address.port <= _LAST_PORT):
        raise UnreachableError(f"no broker can be at {address}")


def versions_told(response: Any) -> dict[int, Versions]:  # noqa: ANN401 - an ApiVersionsResponse
    """Return what a broker says it serves, by API; where it says nonsense, that it does not."""
    return {
        row.api_key: Versions(row.min_version, row.max_version)
        for row in response.api_keys
        if 0 <= row.min_version <= row.max_version
    }


def why(error: OSError | ValueError) -> str:
    """Return the system's own words; where several addresses failed, there are none in common."""
    if not isinstance(error, OSError):
        return "this is no name of a host"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message.lower()}"
    if isinstance(error, ssl.SSLError):
        return f"TLS fails: {(error.reason or 'no reason').lower().replace('_', ' ')}"
    if isinstance(error, socket.gaierror):
        return (error.strerror or "unknown host").lower()
    if isinstance(error, ConnectionError) and not error.errno:
        return "it ended the connection"
    return os.strerror(error.errno).lower() if error.errno else "it cannot be reached"


def error_named(code: int) -> str:
    """Return an error as people read it: what it means, and its name."""
    error = ErrorCode(code)
    return f"{error.message} ({error.name})"
