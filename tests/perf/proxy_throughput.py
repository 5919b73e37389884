"""Measures the recording proxy: `python -m tests.perf.proxy_throughput [--rounds N] [--check]`.

The same bytes are sent from a client to a cluster directly, through a pipe that only copies bytes
(the upper limit for any proxy on this event loop), through the proxy without a recorder, and
through `kafkalite capture`. The cluster is a stub in a separate process that responds at once, so
that the route is measured. Clients keep a number of requests in flight on one connection.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kafkalite.lab.proxy.proxy import Proxy, ProxySettings
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.server.addresses import Address
from kafkalite.server.logging import Level, Log
from kafkalite.server.loop import new_event_loop
from tests.clients.client_libraries import driver_environment
from tests.perf.report import machine
from tests.unit.frames import request_frame, response_frame

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

LOOPBACK = "127.0.0.1"
DIRECT, PIPE, PLAIN, CAPTURE = "direct", "pipe", "proxy, no recorder", "kafkalite capture"
_ROUNDS = 3
_SECONDS = 1.5
_RECV_BYTES = 1024 * 1024
_TIMEOUT_S = 20.0
_MIB = 1024 * 1024

MIN_SHARE_OF_PIPE, MIN_SHARE_OF_PIPE_SMALL = 0.25, 0.10
"""`--check`: the minimum rate of `kafkalite capture`, relative to a pipe.

A pipe copies a hundred small requests at once; the proxy has to find each of them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A request, its response, and the number of requests in flight."""

    name: str
    request: bytes
    answer: bytes
    window: int
    min_share_of_pipe: float = MIN_SHARE_OF_PIPE

    @property
    def size(self) -> int:
        """The number of bytes per exchange."""
        return len(self.request) + len(self.answer)


def _produce() -> Load:
    data = ProduceRequest.PartitionProduceData(records=bytes(100_000))
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
    answer = ProduceResponse.PartitionProduceResponse()
    topic_response = ProduceResponse.TopicProduceResponse(
        name="orders", partition_responses=[answer]
    )
    return Load(
        name="produce, 100 KB, v12",
        request=request_frame(ProduceRequest(acks=1, topic_data=[topic]), 12),
        answer=response_frame(ProduceResponse(responses=[topic_response]), 12),
        window=8,
    )


def _fetch(version: int) -> Load:
    partition = FetchResponse.PartitionData(records=bytes(_MIB))
    topic = FetchResponse.FetchableTopicResponse(topic_id=bytes(16), partitions=[partition])
    return Load(
        name=f"fetch, 1 MB, v{version}",
        request=request_frame(FetchRequest(), version),
        answer=response_frame(FetchResponse(responses=[topic]), version),
        window=4,
    )


def _heartbeats() -> Load:
    request = HeartbeatRequest(group_id="group", generation_id=1, member_id="member")
    return Load(
        name="heartbeats, 100 in flight",
        request=request_frame(request, 4),
        answer=response_frame(HeartbeatResponse(), 4),
        window=100,
        min_share_of_pipe=MIN_SHARE_OF_PIPE_SMALL,
    )


# The proxy parses Fetch responses since v16, and forwards older ones unread.
LOADS = (_produce(), _fetch(15), _fetch(17), _heartbeats())


class _Stub(asyncio.Protocol):
    """Responds to each complete request."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._pending = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        count, self._pending = divmod(self._pending + len(data), len(self._load.request))
        if count:
            self._transport.writelines([self._load.answer] * count)


class _PipeEnd(asyncio.Protocol):
    """One end of a pipe: forwards data to the other end, with flow control."""

    def __init__(self, other: _PipeEnd | None = None) -> None:
        self._peer = other
        self._early_data = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = opened = cast("asyncio.Transport", transport)
        opened.set_write_buffer_limits(high=_MIB)
        opened.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connect(self, other: _PipeEnd) -> None:
        """Connect the other end."""
        self._peer = other
        other.transport.write(self._early_data)

    def data_received(self, data: bytes) -> None:
        if self._peer is None:
            self._early_data += data
        else:
            self._peer.transport.write(data)

    def pause_writing(self) -> None:
        assert self._peer is not None
        self._peer.transport.pause_reading()

    def resume_writing(self) -> None:
        assert self._peer is not None
        self._peer.transport.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        if self._peer is not None:
            self._peer.transport.close()


class _ClientEnd(_PipeEnd):
    """The client end, which opens the other end."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._opening: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        _, other = await loop.create_connection(lambda: _PipeEnd(self), LOOPBACK, self._port)
        self.connect(other)


async def _serve_stub(number: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Stub(LOADS[number]), LOOPBACK, 0)
    await _announce(server.sockets[0].getsockname()[1])


async def _serve_pipe(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _ClientEnd(port), LOOPBACK, 0)
    await _announce(server.sockets[0].getsockname()[1])


class _NullRecorder:
    """Records nothing."""

    is_lost = False

    def begin(self) -> None:
        """Do nothing."""

    def received(self, data: bytes) -> None:
        """Do nothing."""

    def sent(self, pieces: Sequence[bytes]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def open(self, **_: object) -> _NullRecorder:
        """Return this recorder."""
        return self


async def _serve_proxy(port: int) -> None:
    settings = ProxySettings(upstream=[Address(LOOPBACK, port)], listen=Address(LOOPBACK, 0))
    proxy = Proxy(settings, Log(Level.WARNING))
    await proxy.start(_NullRecorder())
    await _announce(proxy.bound.port)


async def _announce(port: int) -> None:
    sys.stdout.write(f"at {LOOPBACK}:{port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


@contextmanager
def _process(arguments: Sequence[str]) -> Iterator[int]:
    """Run a process that prints its address, and yield the port."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=driver_environment(),
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().rpartition(":")[2])
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def _route(name: str, port: int) -> Iterator[int]:
    """Open a route to the stub at `port`, and yield the port to connect to."""
    if name == DIRECT:
        yield port
        return
    with tempfile.TemporaryDirectory() as directory:
        addresses = ("--upstream", f"{LOOPBACK}:{port}", "--listen", f"{LOOPBACK}:0")
        commands = {
            PIPE: [__spec__.name, "pipe", str(port)],
            PLAIN: [__spec__.name, "proxy", str(port)],
            CAPTURE: ["kafkalite", "capture", str(Path(directory) / "captures"), *addresses],
        }
        with _process(commands[name]) as listening:
            yield listening


def pump(port: int, load: Load, seconds: float = _SECONDS) -> float:
    """Keep all requests of the window in flight for a while, and return exchanges per second."""
    with socket.create_connection((LOOPBACK, port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(_TIMEOUT_S)
        buffer = bytearray(_RECV_BYTES)
        client.sendall(load.request * load.window)
        exchange_count = pending = 0
        started = time.perf_counter()
        while (elapsed_s := time.perf_counter() - started) < seconds:
            received = client.recv_into(buffer)
            if not received:
                raise ConnectionError("the connection was closed")
            complete, pending = divmod(pending + received, len(load.answer))
            if complete:
                exchange_count += complete
                client.sendall(load.request * complete)
    return exchange_count / elapsed_s


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Return the best rate of each load over each route, measured in alternating rounds."""
    best: dict[str, dict[str, float]] = {}
    for number, load in enumerate(LOADS):
        rates = best.setdefault(load.name, {})
        with ExitStack() as stack:
            port = stack.enter_context(_process([__spec__.name, "stub", str(number)]))
            ports = {
                name: stack.enter_context(_route(name, port))
                for name in (DIRECT, PIPE, PLAIN, CAPTURE)
            }
            for _ in range(rounds):
                for name, route_port in ports.items():
                    rates[name] = max(rates.get(name, 0.0), pump(route_port, load))
    return best


def missed_targets(best: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Describe each load for which the recording proxy is too slow."""
    return [
        f"{load.name}: {ratio:.2f} of the rate of a pipe, minimum {load.min_share_of_pipe}"
        for load in LOADS
        if (ratio := best[load.name][CAPTURE] / best[load.name][PIPE]) < load.min_share_of_pipe
    ]


def table(best: Mapping[str, Mapping[str, float]]) -> str:
    """Return the results as a Markdown table."""
    lines = ["| load | route | exchanges/s | MB/s | of direct | of a pipe |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: |")
    for load in LOADS:
        rates = best[load.name]
        for name, rate in rates.items():
            lines.append(
                f"| {load.name} | {name} | {rate:,.0f} | {rate * load.size / 1e6:,.0f} "
                f"| {rate / rates[DIRECT]:.2f} | {rate / rates[PIPE]:.2f} |"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Measure and print; with `--check`, return exit status 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    best = measure(options.rounds)
    sys.stdout.write(json.dumps(best) if options.json else f"{table(best)}\n\n{machine()}\n")
    failures = missed_targets(best) if options.check else []
    sys.stderr.writelines(f"target missed: {failure}\n" for failure in failures)
    return int(bool(failures))


_SERVERS = {"stub": _serve_stub, "pipe": _serve_pipe, "proxy": _serve_proxy}


def _run(server: Coroutine[None, None, None]) -> None:
    loop = new_event_loop(Log(Level.ERROR))
    loop.run_until_complete(server)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in _SERVERS:
        _run(_SERVERS[sys.argv[1]](int(sys.argv[2])))
    else:
        sys.exit(main(sys.argv[1:]))
