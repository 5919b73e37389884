"""What the recording proxy costs: `python -m tests.perf.proxy_throughput [--rounds N] [--check]`.

The same bytes go from a client to a cluster directly, by a pipe that copies bytes and knows
nothing of them (the floor of any proxy on this event loop), by the proxy without a recorder, and by
`kafkalite capture`. The cluster is a stub that answers at once, in a process of its own, so that it
is the way that is measured; clients keep a number of requests under way on one connection.
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

from kafkalite.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.proxy.proxy import Proxy, ProxySettings
from kafkalite.server.addresses import Address
from kafkalite.server.logging import Level, Log
from kafkalite.server.loop import new_event_loop
from tests.clients.roster import driver_environment
from tests.perf.report import machine
from tests.unit.frames import request_frame, response_frame

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

LOOPBACK = "127.0.0.1"
DIRECT, PIPE, PLAIN, CAPTURE = "direct", "pipe", "proxy, no recorder", "kafkalite capture"
_ROUNDS = 3
_SECONDS = 1.5
_RECV_BYTES = 1024 * 1024
_PATIENCE_S = 20.0
_MIB = 1024 * 1024

LEAST_OF_PIPE, LEAST_OF_PIPE_SMALL = 0.25, 0.10
"""`--check`: what `kafkalite capture` moves of what a bare pipe moves, at least.

A pipe copies a hundred small requests in one go; the proxy has to find each of them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A request, its answer, and how many of them are under way."""

    name: str
    request: bytes
    answer: bytes
    window: int
    least_of_pipe: float = LEAST_OF_PIPE

    @property
    def size(self) -> int:
        """How many bytes an exchange moves."""
        return len(self.request) + len(self.answer)


def _produce() -> Load:
    data = ProduceRequest.PartitionProduceData(records=bytes(100_000))
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
    answer = ProduceResponse.PartitionProduceResponse()
    told = ProduceResponse.TopicProduceResponse(name="orders", partition_responses=[answer])
    return Load(
        name="produce, 100 KB, v12",
        request=request_frame(ProduceRequest(acks=1, topic_data=[topic]), 12),
        answer=response_frame(ProduceResponse(responses=[told]), 12),
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
        name="heartbeats, 100 under way",
        request=request_frame(request, 4),
        answer=response_frame(HeartbeatResponse(), 4),
        window=100,
        least_of_pipe=LEAST_OF_PIPE_SMALL,
    )


# Answers to Fetch are looked into since v16, and pass as they come before.
LOADS = (_produce(), _fetch(15), _fetch(17), _heartbeats())


class _Stub(asyncio.Protocol):
    """Answers whatever has come whole."""

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


class _End(asyncio.Protocol):
    """One end of a pipe: what comes in here goes out there, no faster than it is taken."""

    def __init__(self, there: _End | None = None) -> None:
        self._there = there
        self._early = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = made = cast("asyncio.Transport", transport)
        made.set_write_buffer_limits(high=_MIB)
        made.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def meet(self, there: _End) -> None:
        """Be told what is at the other end."""
        self._there = there
        there.transport.write(self._early)

    def data_received(self, data: bytes) -> None:
        if self._there is None:
            self._early += data
        else:
            self._there.transport.write(data)

    def pause_writing(self) -> None:
        assert self._there is not None
        self._there.transport.pause_reading()

    def resume_writing(self) -> None:
        assert self._there is not None
        self._there.transport.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        if self._there is not None:
            self._there.transport.close()


class _Door(_End):
    """The end of a client, which is let in when the other end is open."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._opening: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        _, there = await loop.create_connection(lambda: _End(self), LOOPBACK, self._port)
        self.meet(there)


async def _serve_stub(number: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Stub(LOADS[number]), LOOPBACK, 0)
    await _announce(server.sockets[0].getsockname()[1])


async def _serve_pipe(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Door(port), LOOPBACK, 0)
    await _announce(server.sockets[0].getsockname()[1])


class _Forgetful:
    """Records nothing."""

    is_lost = False

    def begin(self) -> None:
        """Forget that, too."""

    def received(self, data: bytes) -> None:
        """Forget."""

    def sent(self, pieces: Sequence[bytes]) -> None:
        """Forget."""

    def close(self) -> None:
        """Forget."""

    def open(self, **_: object) -> _Forgetful:
        """Forget all of it."""
        return self


async def _serve_proxy(port: int) -> None:
    settings = ProxySettings(upstream=[Address(LOOPBACK, port)], listen=Address(LOOPBACK, 0))
    proxy = Proxy(settings, Log(Level.WARNING))
    await proxy.start(_Forgetful())
    await _announce(proxy.bound.port)


async def _announce(port: int) -> None:
    sys.stdout.write(f"at {LOOPBACK}:{port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


@contextmanager
def _process(arguments: Sequence[str]) -> Iterator[int]:
    """Run a process that says where it listens, and give the port."""
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
def _way(name: str, port: int) -> Iterator[int]:
    """Open a way to the stub at `port`."""
    if name == DIRECT:
        yield port
        return
    with tempfile.TemporaryDirectory() as directory:
        ends = ("--upstream", f"{LOOPBACK}:{port}", "--listen", f"{LOOPBACK}:0")
        commands = {
            PIPE: [__spec__.name, "pipe", str(port)],
            PLAIN: [__spec__.name, "proxy", str(port)],
            CAPTURE: ["kafkalite", "capture", str(Path(directory) / "captures"), *ends],
        }
        with _process(commands[name]) as listening:
            yield listening


def pump(port: int, load: Load, seconds: float = _SECONDS) -> float:
    """Keep the window full for a while, and return how many exchanges there were in a second."""
    with socket.create_connection((LOOPBACK, port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(_PATIENCE_S)
        buffer = bytearray(_RECV_BYTES)
        client.sendall(load.request * load.window)
        answered = pending = 0
        begin = time.perf_counter()
        while (taken := time.perf_counter() - begin) < seconds:
            received = client.recv_into(buffer)
            if not received:
                raise ConnectionError("the way has ended")
            whole, pending = divmod(pending + received, len(load.answer))
            if whole:
                answered += whole
                client.sendall(load.request * whole)
    return answered / taken


def measured(rounds: int) -> dict[str, dict[str, float]]:
    """Return the best rate of every load by every way; the ways take turns."""
    best: dict[str, dict[str, float]] = {}
    for number, load in enumerate(LOADS):
        rates = best.setdefault(load.name, {})
        with ExitStack() as stack:
            port = stack.enter_context(_process([__spec__.name, "stub", str(number)]))
            ports = {
                name: stack.enter_context(_way(name, port))
                for name in (DIRECT, PIPE, PLAIN, CAPTURE)
            }
            for _ in range(rounds):
                for name, way_port in ports.items():
                    rates[name] = max(rates.get(name, 0.0), pump(way_port, load))
    return best


def broken_promises(best: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Say which loads go too slowly by the recording proxy."""
    return [
        f"{load.name}: {found:.2f} of a pipe, to be {load.least_of_pipe} at least"
        for load in LOADS
        if (found := best[load.name][CAPTURE] / best[load.name][PIPE]) < load.least_of_pipe
    ]


def table(best: Mapping[str, Mapping[str, float]]) -> str:
    """Write the Markdown table."""
    lines = ["| load | way | exchanges/s | MB/s | of direct | of a pipe |"]
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
    """Measure and print; exit status 1 where a promise is broken and `--check` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    best = measured(options.rounds)
    sys.stdout.write(json.dumps(best) if options.json else f"{table(best)}\n\n{machine()}\n")
    failures = broken_promises(best) if options.check else []
    sys.stderr.writelines(f"{failure}\n" for failure in failures)
    return int(bool(failures))


_SERVED = {"stub": _serve_stub, "pipe": _serve_pipe, "proxy": _serve_proxy}


def _run(serving: Coroutine[None, None, None]) -> None:
    loop = new_event_loop(Log(Level.ERROR))
    loop.run_until_complete(serving)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in _SERVED:
        _run(_SERVED[sys.argv[1]](int(sys.argv[2])))
    else:
        sys.exit(main(sys.argv[1:]))
