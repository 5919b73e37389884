"""ScriptedBroker: a broker whose responses a test defines."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from struct import pack, unpack_from
from typing import TYPE_CHECKING, Any

from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsResponse
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorResponse
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdResponse
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

FIND, INIT, VERSIONS = 10, 22, 18


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[Address]:
    """Serve connections, and yield the address."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield Address(host, port)


class ScriptedBroker:
    """Answers FindCoordinator and InitProducerId with scripted errors, then without error."""

    def __init__(
        self,
        *,
        finds: Sequence[int] = (),
        inits: Sequence[int] = (),
        versions: dict[int, tuple[int, int]] | None = None,
        throttle_ms: Sequence[int] = (),
    ) -> None:
        self._finds = list(finds)
        self._inits = list(inits)
        self._throttle_ms = list(throttle_ms)
        self._versions = versions or {FIND: (0, 6), INIT: (0, 6), VERSIONS: (0, 4)}
        self.address = Address("", 0)
        self.asked: list[tuple[int, int]] = []
        """Key and version of every request."""
        self.timeouts: set[int] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer request after request."""
        while True:
            await self.serve_one(reader, writer)

    async def serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        (length,) = unpack_from(">i", await reader.readexactly(4))
        frame = await reader.readexactly(length)
        key, version, correlation_id, name = unpack_from(">hhih", frame)
        self.asked.append((key, version))
        flexible = codec.is_flexible(key, version)
        request, _ = codec.request_parser(key, version)(frame, 10 + name + flexible, length)
        out: list[bytes | memoryview] = []
        codec.response_builder(key, version)(self._answer(key, request), out)
        tags = b"\0" if flexible and key != VERSIONS else b""
        body = pack(">i", correlation_id) + tags + b"".join(out)
        writer.write(pack(">i", len(body)) + body)

    def _answer(self, key: int, request: Any) -> Any:  # noqa: ANN401 - one of three classes
        if key == VERSIONS:
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersionsResponse.ApiVersion(api_key=each, min_version=low, max_version=high)
                    for each, (low, high) in self._versions.items()
                ]
            )
        if key == FIND:
            code = self._finds.pop(0) if self._finds else 0
            host, port = self.address.host, self.address.port
            return FindCoordinatorResponse(
                throttle_time_ms=self._throttle_ms.pop(0) if self._throttle_ms else 0,
                error_code=code,
                node_id=1,
                host=host,
                port=port,
            )
        self.timeouts.add(request.transaction_timeout_ms)
        code = self._inits.pop(0) if self._inits else 0
        if code:
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        return InitProducerIdResponse(producer_id=7, producer_epoch=3)
