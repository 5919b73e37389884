"""Invalid bytes: thousands of mutated frames are sent to a complete broker.

Each frame is answered or closes its connection. None causes an internal exception or affects
another client, and closed connections release their memory. The long tests send a hundred thousand
frames, and ten times as many with the profile "long" (HYPOTHESIS_PROFILE).
"""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from itertools import pairwise
from random import Random
from struct import pack, unpack_from
from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.table import TABLE, find_api
from kafkalite.cluster.cluster import Cluster
from kafkalite.config.broker import BrokerConfig
from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.gateway import Gateway
from kafkalite.gateway.inter_broker import InterBrokerCalls
from kafkalite.ports.files import OsFiles
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.schema import message_tree
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.testing.clock import ManualClock
from kafkalite.wire.frames import ReceiveBuffers
from kafkalite.wire.session import Session, SessionSettings
from tests.properties.codec_samples import Samples, all_specs
from tests.unit.frames import framed, read_answer, request_frame, split_frames

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.gateway.api import Api

SOME_FRAMES = 2_000
FRAMES = 1_000_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 100_000
SOCKET_FRAMES = 2_000
MAX_REQUEST = 1_000_000
MAX_LEAK_BYTES = 100
"""Allowed remaining bytes per connection; every object of the broker is larger."""
QUIET = Log(Level.ERROR)


def seeds(apis: list[Api]) -> list[bytes]:
    """Return one valid request for each version of each API."""
    specs = {spec.key: spec for spec in all_specs().values() if spec.kind == "request"}
    frames = []
    for api in apis:
        for version in range(api.versions.lowest, api.versions.highest + 1):
            samples = Samples(f"fuzz {api.key} v{version}")
            for _ in range(3):
                request = samples.draw(message_tree(specs[api.key], version))
                frames.append(request_frame(request, version))
    return frames


class Mutator:
    """Mutates frames, reproducibly for a seed."""

    def __init__(self, seed: str, frames: list[bytes]) -> None:
        self._random = Random(seed)  # noqa: S311 - it draws test data
        self._samples = Samples(seed)
        self._frames = frames

    def draw(self) -> bytes:
        """Return a frame with changed content or length, or two joined frames."""
        frame = self._random.choice(self._frames)
        mutation = self._random.randrange(10)
        if mutation == 0:
            return pack(">i", self._random.getrandbits(32) - 2**31) + frame[4:]
        if mutation == 1:
            second_frame = self._random.choice(self._frames)
            cut = self._random.randrange(len(frame))
            return framed(frame[4:cut] + second_frame[self._random.randrange(len(second_frame)) :])
        content = frame[4:]
        for _ in range(self._random.choice((1, 1, 1, 2, 5))):
            content = self._samples.mutate(content)
        return framed(content)


def every_api() -> list[Api]:
    return [api for key in TABLE if (api := find_api(key)) is not None]


class FuzzedBroker:
    """A broker without sockets: clients are sessions, and the clock is stepped."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.faults: list[str] = []
        self.cluster = Cluster(
            cluster_id="fuzzed-cluster-id-0000",
            directory=DataDirectory(OsFiles(), str(directory)),
            clock=self.clock,
            entropy=SeededEntropy(),
            config=BrokerConfig.from_text({"auto.create.topics.enable": "false"}),
            node_ids=[1],
        )
        # Names that the samples use as well, so that some requests find their entities.
        self.cluster.create_missing_topics({"a": 2, "name": 1})
        self.node = self.cluster.nodes[1]
        self.gateway = Gateway(find_api, self.report)
        self.cluster.open(InterBrokerCalls(self.gateway))
        self.buffers = ReceiveBuffers()

    def report(self, api_name: str, fault: Exception) -> None:
        self.faults.append(f"{api_name}: {fault!r}")

    def connect(self) -> Session:
        context = ConnectionContext(node=self.node, listener="A", client_host="/127.0.0.1")
        settings = SessionSettings(
            buffers=self.buffers,
            serve=self.gateway.serve,
            serve_in_worker=self.gateway.serve_in_worker,
            wake=lambda _: None,
            max_request_bytes=MAX_REQUEST,
            max_buffered_bytes=MAX_REQUEST,
        )
        return Session(settings, context, None)


def send(session: Session, data: bytes) -> None:
    while data:
        space = session.get_buffer()
        count = min(len(space), len(data))
        space[:count] = data[:count]
        session.buffer_updated(count)
        session.serve_in_worker()
        data = data[count:]


def answers_to(session: Session, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Send bytes, and yield each response's correlation id and content."""
    send(session, data)
    for content in split_frames(b"".join(session.take_answers())):
        yield unpack_from(">i", content)[0], content


def is_served(session: Session) -> bool:
    """Whether a valid request on this connection gets a valid response."""
    frame = request_frame(ApiVersionsRequest(), 0, correlation_id=77)
    ((correlation_id, content),) = answers_to(session, frame)
    return correlation_id == 77 and not read_answer(18, 0, content)[1].error_code


@pytest.mark.parametrize("frames", [SOME_FRAMES, pytest.param(FRAMES, marks=pytest.mark.endurance)])
def test_mutated_frames_are_answered_or_close_their_connection(tmp_path: Path, frames: int) -> None:
    broker = FuzzedBroker(tmp_path)
    mutator = Mutator("everything", seeds(every_api()))
    valid_client = broker.connect()
    closed_count = response_count = 0
    session = broker.connect()
    for number in range(frames):
        frame = mutator.draw()
        try:
            response_count += sum(1 for _ in answers_to(session, frame))
        except Exception as fault:
            raise AssertionError(f"frame {number}: {frame.hex()}") from fault
        if broker.faults:
            raise AssertionError(f"frame {number}: {broker.faults}: {frame.hex()}")
        if session.violation is not None:
            assert "\n" not in session.violation
            closed_count += 1
        if session.violation is not None or session.has_pending_answer or number % 50 == 0:
            session.close()
            session = broker.connect()
        if number % 1000 == 0:
            assert is_served(valid_client)
            broker.clock.advance(100)
    assert closed_count > frames // 10
    assert response_count > frames // 10
    assert is_served(valid_client)


@pytest.mark.endurance  # half a minute; with fewer, the interpreter's own growth matters
def test_closed_connections_leak_no_memory(tmp_path: Path) -> None:
    times = 2_500
    broker = FuzzedBroker(tmp_path)
    # Requests without lasting effect, so that remaining memory is a leak.
    apis = [api for api in every_api() if api.name in {"ApiVersions", "Metadata", "Fetch"}]
    mutator = Mutator("leaks", seeds(apis))

    def connect_and_break(times: int) -> None:
        for _ in range(times):
            session = broker.connect()
            send(session, mutator.draw())
            session.take_answers()
            session.close()

    connect_and_break(2 * times)
    gc.collect()
    tracemalloc.start()
    try:
        connect_and_break(times // 2)
        gc.collect()
        traced_bytes = [tracemalloc.get_traced_memory()[0]]
        for _ in range(2):
            connect_and_break(times)
            gc.collect()
            traced_bytes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # A leak grows every time; the interpreter's own tables grow rarely, in one step.
    assert min(after - before for before, after in pairwise(traced_bytes)) < MAX_LEAK_BYTES * times
    assert broker.faults == []


async def test_listening_broker_survives_mutated_frames() -> None:
    broker = Broker(
        Settings(listen=("127.0.0.1:0",), config={"auto.create.topics.enable": "false"}), QUIET
    )
    await broker.start()
    host, _, port = broker.bootstrap_servers.rpartition(":")
    valid_client = await asyncio.open_connection(host, int(port))
    mutator = Mutator("sockets", seeds(every_api()))
    for _ in range(SOCKET_FRAMES // 20):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.writelines(mutator.draw() for _ in range(20))
        writer.write_eof()
        try:
            while await reader.read(65_536):
                pass
        except ConnectionError:
            pass  # closed with unread bytes, so the kernel sends a reset
        writer.close()
    reader, writer = valid_client
    writer.write(request_frame(ApiVersionsRequest(), 0, correlation_id=77))
    length = int.from_bytes(await reader.readexactly(4))
    assert read_answer(18, 0, await reader.readexactly(length))[0] == 77
    writer.close()
    await broker.stop(grace_s=0.1)
