"""Greedy clients: the delay of other clients, and the memory that the greedy ones take.

The delay is measured in requests of the greedy clients that are served before that of another
client. Each of them takes a fixed time on a clock that does nothing else, so the measured delays
do not depend on the machine.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Log
from kafkalite.server.loop import new_event_loop
from kafkalite.server.settings import Settings
from tests.conformance.batches import batch
from tests.conformance.raw import RawClient
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import free_port
from tests.perf.fairness import (
    ATTACKS,
    P99_MS,
    memory_limit_mb,
    resident_mb,
    send,
    served_broker,
)
from tests.perf.pipeline import frame

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler

pytestmark = pytest.mark.endurance

REQUESTS_PER_FLOOD = 4096
REQUEST_S = 25e-6
REQUESTS_BETWEEN_PROBES = 20
REQUESTS_BETWEEN_SENDS = 20

HANDSHAKES = 1_200
CONNECTIONS = 500
SENT_BYTES = 70_000
ANNOUNCED_BYTES = 100_000_000


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedKafkalite]:
    served = ServedKafkalite(tmp_path, {})
    served.start()
    yield served
    served.kill()


class Flood:
    """A client that fills its socket with Produce requests and does not wait for the answers."""

    def __init__(self, port: int, request: bytes) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._unsent = memoryview(request * REQUESTS_PER_FLOOD)

    def continue_sending(self) -> None:
        """Send as many bytes as the socket takes, and receive all answers."""
        with suppress(BlockingIOError):
            while self._socket.recv(1 << 16):
                pass
        with suppress(BlockingIOError):
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]

    def close(self) -> None:
        self._socket.close()


class DelayedProbes:
    """A step that lets another client send requests during floods, and measures their delays."""

    def __init__(self) -> None:
        self.floods: list[Flood] = []
        self.port = 0
        self.now_s = 0.0
        self.delays_ms: list[float] = []
        self.flood_requests = 0
        self.is_over = asyncio.Event()
        self._client: socket.socket | None = None
        self._sent_at_s: float | None = None

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        """Measure in Produce and DescribeCluster."""
        del version
        if api.key == ApiKey.PRODUCE:
            measure = self._begin_flood_request
        elif api.key == ApiKey.DESCRIBE_CLUSTER:
            measure = self._end_probe
        else:
            return handler

        def measure_and_handle(call: Call, request: object) -> object:
            measure()
            return handler(call, request)

        return measure_and_handle

    def connect(self, port: int) -> None:
        """Connect the client that sends the probes."""
        self._client = socket.create_connection(("127.0.0.1", port))

    def _begin_flood_request(self) -> None:
        assert self._client is not None
        self.now_s += REQUEST_S
        self.flood_requests += 1
        if not self.flood_requests % REQUESTS_BETWEEN_SENDS:
            for flood in self.floods:
                flood.continue_sending()
        if self._sent_at_s is None and not self.flood_requests % REQUESTS_BETWEEN_PROBES:
            self._client.sendall(frame(DescribeClusterRequest(), 1))
            self._sent_at_s = self.now_s
        if self.flood_requests == REQUESTS_PER_FLOOD * len(self.floods):
            self.is_over.set()

    def _end_probe(self) -> None:
        assert self._sent_at_s is not None
        self.delays_ms.append((self.now_s - self._sent_at_s) * 1000)
        self._sent_at_s = None

    def close(self) -> None:
        assert self._client is not None
        self._client.close()


async def delays_during_floods(connections: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the delays of another client in milliseconds of REQUEST_S per Produce request."""
    probes = DelayedProbes()
    monkeypatch.setattr("kafkalite.server.scheduler.perf_counter", lambda: 1 + probes.now_s)
    settings = Settings(listen=("127.0.0.1:0",), topics={"plain": 1})
    broker = Broker(settings, prepare=lambda broker: broker.gateway.install(probes))
    await broker.start()
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(bytes(2_000)))
    topic = ProduceRequest.TopicProduceData(name="plain", partition_data=[data])
    request = frame(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    with closing(probes), ExitStack() as stack:
        probes.connect(port)
        for _ in range(connections):
            probes.floods.append(stack.enter_context(closing(Flood(port, request))))
        for flood in probes.floods:
            flood.continue_sending()
        async with asyncio.timeout(300):
            await probes.is_over.wait()
    await broker.stop()
    return probes.delays_ms


@pytest.mark.parametrize("connections", [1, 8])
def test_floods_of_produce_requests_delay_other_clients_for_a_few_turns_only(
    connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with asyncio.Runner(loop_factory=lambda: new_event_loop(Log())) as runner:
        delays_ms = runner.run(delays_during_floods(connections, monkeypatch))
    assert len(delays_ms) > 5 * connections
    assert max(delays_ms) <= P99_MS


def send_request(served: ServedKafkalite) -> None:
    client = RawClient(served.port, 60)
    assert not client.call(ApiVersionsRequest(), 0).error_code
    client.close()


@pytest.mark.endurance
def test_memory_grows_with_received_bytes_not_with_announced_length(
    served: ServedKafkalite,
) -> None:
    send_request(served)
    before_mb = resident_mb(served.pid)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            peer.sendall(struct.pack(">i", ANNOUNCED_BYTES) + bytes(SENT_BYTES))
        send_request(served)
        used_mb = resident_mb(served.pid) - before_mb
    assert used_mb < 2.5 * CONNECTIONS * SENT_BYTES / 1e6


@pytest.mark.endurance
def test_memory_of_a_large_request_is_released(served: ServedKafkalite) -> None:
    small = DeleteTopicsRequest(topic_names=["unknown"], timeout_ms=1000)
    large = DeleteTopicsRequest(topic_names=[f"{n:x}" for n in range(400_000)], timeout_ms=1000)
    client = RawClient(served.port, 120)
    client.call(small, 5)
    before_mb = resident_mb(served.pid)
    assert len(client.call(large, 5).responses) == 400_000
    peak_mb = resident_mb(served.pid, "VmHWM")
    assert peak_mb > 2 * before_mb, "the request is too small for this test"
    deadline = time.monotonic() + 30
    while resident_mb(served.pid) > 1.3 * before_mb and time.monotonic() < deadline:
        client.call(small, 5)
    assert resident_mb(served.pid) <= 1.3 * before_mb
    client.close()


@pytest.mark.endurance
def test_memory_of_abandoned_handshakes_is_released(tmp_path: Path) -> None:
    port = free_port()
    options = ("--listen", f"SSL://127.0.0.1:{port}", "--tls", "auto")
    served = ServedKafkalite(tmp_path, {}, options=options)
    served.start()
    try:
        hello = client_hello()
        answer_handshakes(port, hello, 2)  # the first one imports code
        before_mb = resident_mb(served.pid)
        answer_handshakes(port, hello, HANDSHAKES)
        peak_mb = resident_mb(served.pid, "VmHWM")
        assert peak_mb > before_mb + 0.02 * HANDSHAKES, "too few handshakes for this test"
        deadline = time.monotonic() + 30
        while resident_mb(served.pid) > before_mb + 8 and time.monotonic() < deadline:
            answer_handshakes(port, hello, 1)
        assert resident_mb(served.pid) <= before_mb + 8
    finally:
        served.kill()


def client_hello() -> bytes:
    """Return the first bytes of a client's handshake."""
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def answer_handshakes(port: int, hello: bytes, count: int) -> None:
    """Begin handshakes at the same time, wait for the server's answers, and disconnect."""
    with ExitStack() as stack:
        peers = []
        for _ in range(count):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            peer.sendall(hello)
            peers.append(peer)
        for peer in peers:
            assert peer.recv(1)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("delete groups", 200_000),
        *(
            pytest.param(name, size, marks=pytest.mark.endurance)
            for name, size in (
                ("30 compressed batches", 6),
                ("delete topics", 200_000),
                ("describe groups", 200_000),
                ("fetch", 100_000),
                ("find coordinator", 250_000),
                ("produce to unknown", 100_000),
            )
        ),
    ],
)
def test_memory_after_an_attack_is_close_to_that_before(name: str, size: int) -> None:
    """The attacks are as large as doubles the memory, which is far above the limit afterwards."""
    attack = ATTACKS[name]
    with served_broker() as served:
        send(served.port, attack.small())  # the first request imports code
        before_mb = resident_mb(served.pid)
        limit_mb = memory_limit_mb(before_mb)
        send(served.port, attack.request(size))
        assert resident_mb(served.pid, "VmHWM") > 2 * before_mb
        client = RawClient(served.port, 60)
        deadline = time.monotonic() + 30
        while resident_mb(served.pid) > limit_mb and time.monotonic() < deadline:
            client.call(ApiVersionsRequest(), 0)
        client.close()
        assert resident_mb(served.pid) <= limit_mb
