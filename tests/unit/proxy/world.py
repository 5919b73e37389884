"""What stands around a proxy in tests: a recorder that remembers, a cluster that is scripted."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

from kafkalite.protocol import codec
from kafkalite.proxy.proxy import Proxy, ProxySettings
from kafkalite.server.addresses import Address
from kafkalite.server.logging import Level, Log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from kafkalite.capture.model import Endpoint
    from kafkalite.proxy.rewriting import Known

LOOPBACK = "127.0.0.1"
PATIENCE_S = 20.0


def shifted_by_1000(known: Sequence[Known]) -> list[Address]:
    """Tell clients that every node is at our address, a thousand ports further on."""
    return [Address("proxy", each.address.port + 1000) for each in known]


def response_of(frame: bytes, key: int, version: int) -> Any:  # noqa: ANN401 - any generated response
    """Return the response in a whole frame."""
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    start = 8 + codec.response_header_version(key, version)
    response, end = codec.response_parser(key, version)(frame, start, len(frame))
    assert end == len(frame)
    return response


@dataclass(slots=True)
class RememberedTap:
    """What went over one connection."""

    client: Endpoint
    broker: Endpoint
    node_id: int
    listener: str
    requests: bytearray = field(default_factory=bytearray)
    responses: bytearray = field(default_factory=bytearray)
    is_closed: bool = False
    is_lost: bool = False

    def begin(self) -> None:
        self.is_lost = False
        self.requests.clear()
        self.responses.clear()

    def received(self, data: bytes) -> None:
        self.requests += data

    def sent(self, pieces: Sequence[bytes]) -> None:
        self.responses += b"".join(pieces)

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


class RememberingRecorder:
    """Keeps everything in memory."""

    def __init__(self) -> None:
        self.taps: list[RememberedTap] = []

    def open(
        self, *, client: Endpoint, broker: Endpoint, node_id: int, listener: str
    ) -> RememberedTap:
        self.taps.append(RememberedTap(client, broker, node_id, listener))
        return self.taps[-1]


@dataclass(slots=True)
class Stage:
    """A proxy, and what it keeps and says."""

    proxy: Proxy
    recorder: RememberingRecorder
    log: StringIO

    @property
    def bootstrap(self) -> Address:
        return self.proxy.bootstrap


@asynccontextmanager
async def staged(*upstream: Address, **settings: Any) -> AsyncIterator[Stage]:  # noqa: ANN401 - those of ProxySettings
    """Run a proxy in front of a cluster at these addresses."""
    recorder, log = RememberingRecorder(), StringIO()
    proxy = Proxy(
        ProxySettings(upstream=upstream, **{"listen": Address(LOOPBACK, 0), **settings}),
        Log(Level.INFO, "json", log),
    )
    await proxy.start(recorder)
    try:
        yield Stage(proxy, recorder, log)
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await proxy.stop()


@asynccontextmanager
async def scripted(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    **options: Any,  # noqa: ANN401 - those of start_server
) -> AsyncIterator[Address]:
    """Run a cluster that does as it is told to every connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, LOOPBACK, 0, **options)
    try:
        yield Address(LOOPBACK, server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def frame_from(reader: asyncio.StreamReader) -> bytes:
    """Read a frame, its length included."""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length))
