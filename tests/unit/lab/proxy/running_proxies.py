"""A recorder in memory and scripted clusters, for tests of the proxy."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

from kafkalite.lab.proxy.proxy import Proxy, ProxySettings
from kafkalite.protocol import codec
from kafkalite.server.addresses import Address
from kafkalite.server.logging import Level, Log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from kafkalite.capture.model import Endpoint
    from kafkalite.lab.proxy.address_rewriting import NodeAddress

LOOPBACK = "127.0.0.1"
TIMEOUT_S = 20.0


def add_1000_to_ports(addresses: Sequence[NodeAddress]) -> list[Address]:
    """Return the host "proxy", and each port increased by 1000."""
    return [Address("proxy", each.address.port + 1000) for each in addresses]


def parse_response_frame(frame: bytes, key: int, version: int) -> Any:  # noqa: ANN401 - any generated response
    """Return the response in a complete frame."""
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    start = 8 + codec.response_header_version(key, version)
    response, end = codec.response_parser(key, version)(frame, start, len(frame))
    assert end == len(frame)
    return response


@dataclass(slots=True)
class MemoryTap:
    """The bytes of one connection."""

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


class MemoryRecorder:
    """Records connections in memory."""

    def __init__(self) -> None:
        self.taps: list[MemoryTap] = []

    def open(self, *, client: Endpoint, broker: Endpoint, node_id: int, listener: str) -> MemoryTap:
        self.taps.append(MemoryTap(client, broker, node_id, listener))
        return self.taps[-1]


@dataclass(slots=True)
class RunningProxy:
    """A running proxy, its recorder and its log."""

    proxy: Proxy
    recorder: MemoryRecorder
    log: StringIO

    @property
    def bootstrap(self) -> Address:
        return self.proxy.bootstrap


@asynccontextmanager
async def running_proxy(*upstream: Address, **settings: Any) -> AsyncIterator[RunningProxy]:  # noqa: ANN401 - those of ProxySettings
    """Run a proxy in front of a cluster at these addresses."""
    recorder, log = MemoryRecorder(), StringIO()
    proxy = Proxy(
        ProxySettings(upstream=upstream, **{"listen": Address(LOOPBACK, 0), **settings}),
        Log(Level.INFO, "json", log),
    )
    await proxy.start(recorder)
    try:
        yield RunningProxy(proxy, recorder, log)
    finally:
        async with asyncio.timeout(TIMEOUT_S):
            await proxy.stop()


@asynccontextmanager
async def scripted_cluster(
    script: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    **options: Any,  # noqa: ANN401 - those of start_server
) -> AsyncIterator[Address]:
    """Run a cluster that serves every connection by a script."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, LOOPBACK, 0, **options)
    try:
        yield Address(LOOPBACK, server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Read a frame, with its length prefix."""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length))
