"""KafkaClient: asks brokers, ours or real ones, what an administrator would; in Kafka's protocol.

Each request goes out in the highest version that both sides know. A connection carries one request
at a time; what it was good for once is opened anew when it fails.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import defaultdict
from struct import Struct
from typing import TYPE_CHECKING, Any, Self

from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.versions import Versions
from kafkalite.wire.headers import API_VERSIONS_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from kafkalite.protocol.message import Message
    from kafkalite.server.addresses import Address

_CLIENT_ID = b"kafkalite"
_LENGTH = Struct(">i")
_HEADER = Struct(">hhih")
_FIRST_VERSION = 0
"""Of ApiVersions: every broker answers it, whatever else it speaks."""
_MAX_ANSWER = 16 * 1024 * 1024
_SETUP_S = 10.0
"""How long a broker may take to let us in; as in Java."""


class UnreachableError(Exception):
    """A broker that is not there, or is none; the text is one line for people."""


class _Connection:
    """One connection to one broker."""

    def __init__(
        self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._address = address
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0
        self._turn = asyncio.Lock()
        self._served: Mapping[int, Versions] = {}

    @classmethod
    async def open(cls, address: Address) -> Self:
        """Connect, and learn what the broker speaks; OSError or UnreachableError."""
        made = cls(address, *await asyncio.open_connection(address.host, address.port))
        try:
            told = await made._call(ApiVersionsRequest(), _FIRST_VERSION)
        except BaseException:
            made.close()
            raise
        made._served = {
            row.api_key: Versions(row.min_version, row.max_version) for row in told.api_keys
        }
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
                self._writer.write(_frame(request, key, version, self._correlation_id))
                await self._writer.drain()
                return self._parsed(await self._frame(), key, version)
            except asyncio.IncompleteReadError:
                self.close()
                raise UnreachableError(
                    f"the broker at {self._address} closed the connection "
                    "(does it want TLS or a password?)"
                ) from None
            except BaseException:
                # An answer that nobody waited for would be taken for the next request's.
                self.close()
                raise

    async def _frame(self) -> bytes:
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        if not _LENGTH.size <= length <= _MAX_ANSWER:
            raise self._nonsense()
        return await self._reader.readexactly(length)

    def _parsed(self, answer: bytes, key: int, version: int) -> Any:  # noqa: ANN401 - see ask
        if _LENGTH.unpack_from(answer) != (self._correlation_id,):
            raise self._nonsense()
        has_tags = codec.is_flexible(key, version) and key != API_VERSIONS_KEY
        start = _LENGTH.size + has_tags
        try:
            response, _ = codec.response_parser(key, version)(answer, start, len(answer))
        except codec.PARSE_ERRORS as error:
            raise self._nonsense() from error
        return response

    def _nonsense(self) -> UnreachableError:
        return UnreachableError(f"what answers at {self._address} is no Kafka broker")

    @property
    def is_closed(self) -> bool:
        """Whether the connection is of no use any more."""
        return self._writer.is_closing()

    def close(self) -> None:
        """Leave."""
        self._writer.close()


class KafkaClient:
    """A client of one cluster, which keeps a connection to each broker that it has asked."""

    def __init__(self, bootstrap: Sequence[Address]) -> None:
        """Make a client that finds the cluster by any of these addresses."""
        self._bootstrap = bootstrap
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
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

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
        connection = await self._connection(address)
        try:
            return await connection.ask(request, known)
        except OSError as error:
            raise UnreachableError(f"the broker at {address} is gone: {_why(error)}") from error

    async def _connection(self, address: Address) -> _Connection:
        async with self._opening[address]:
            connection = self._connections.get(address)
            if connection is None or connection.is_closed:
                try:
                    async with asyncio.timeout(_SETUP_S):
                        connection = await _Connection.open(address)
                except TimeoutError as error:
                    raise UnreachableError(
                        f"no broker answers at {address} within {_SETUP_S:g} s"
                    ) from error
                except OSError as error:
                    raise UnreachableError(
                        f"no broker answers at {address}: {_why(error)}"
                    ) from error
                self._connections[address] = connection
            return connection


def _frame(request: Message, key: int, version: int, correlation_id: int) -> bytes:
    out: list[bytes | memoryview] = []
    codec.request_builder(key, version)(request, out)
    tags = b"\0" if codec.is_flexible(key, version) else b""
    head = _HEADER.pack(key, version, correlation_id, len(_CLIENT_ID)) + _CLIENT_ID + tags
    size = len(head) + sum(map(len, out))
    return b"".join((_LENGTH.pack(size), head, *out))


def _why(error: OSError) -> str:
    """Return the system's own words; where several addresses failed, there are none in common."""
    if isinstance(error, socket.gaierror):
        return (error.strerror or "unknown host").lower()
    return os.strerror(error.errno).lower() if error.errno else "it cannot be reached"


def error_named(code: int) -> str:
    """Return an error as people read it: what it means, and its name."""
    error = ErrorCode(code)
    return f"{error.message} ({error.name})"
