"""Bytes that break the protocol: mutated frames by the thousands against a whole broker.

Each is answered or ends its connection; no fault of ours shows, no other client notices, and
what a closed connection held is let go. The long tests try a hundred thousand, and with the long
profile (HYPOTHESIS_PROFILE) ten times as many.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from functools import partial
from itertools import pairwise
from random import Random
from struct import pack, unpack_from
from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.context import RequestContext
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.table import TABLE, find_api
from kafkalite.config.broker import BrokerConfig
from kafkalite.ports.files import OsFiles
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.schema import message_tree
from kafkalite.server.broker import Broker
from kafkalite.server.cluster import Cluster
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from kafkalite.storage.directory import DataDirectory
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.entropy import SeededEntropy
from kafkalite.wire.frames import ReceiveBuffers
from kafkalite.wire.session import Session
from tests.properties.codec_samples import Samples, all_specs
from tests.unit.frames import framed, read_answer, request_frame, split_frames

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.apis.contract import Api

SOME_FRAMES = 10_000
FRAMES = 1_000_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 100_000
SOCKET_FRAMES = 2_000
MAX_REQUEST = 1_000_000
LEFT_BEHIND_BYTES = 100
"""How much of a connection may be left: no object of ours is as small."""
QUIET = Log(Level.ERROR)


def seeds(apis: list[Api]) -> list[bytes]:
    """Return one well-formed request for each version of each API."""
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
    """Breaks frames, the same way each time for one seed."""

    def __init__(self, seed: str, frames: list[bytes]) -> None:
        self._random = Random(seed)  # noqa: S311 - it draws test data
        self._samples = Samples(seed)
        self._frames = frames

    def draw(self) -> bytes:
        """Return a broken frame: mostly its content, now and then its length or two in one."""
        frame = self._random.choice(self._frames)
        kind = self._random.randrange(10)
        if kind == 0:
            return pack(">i", self._random.getrandbits(32) - 2**31) + frame[4:]
        if kind == 1:
            other = self._random.choice(self._frames)
            cut = self._random.randrange(len(frame))
            return framed(frame[4:cut] + other[self._random.randrange(len(other)) :])
        content = frame[4:]
        for _ in range(self._random.choice((1, 1, 1, 2, 5))):
            content = self._samples.mutated(content)
        return framed(content)


def every_api() -> list[Api]:
    return [api for key in TABLE if (api := find_api(key)) is not None]


class World:
    """A broker without sockets: clients are sessions, time stands still unless moved."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock()
        self.faults: list[str] = []
        self.cluster = Cluster(
            directory=DataDirectory(OsFiles(), str(directory)),
            clock=self.clock,
            entropy=SeededEntropy(),
            config=BrokerConfig.from_text({"auto.create.topics.enable": "false"}),
            node_ids=[1],
        )
        # Names that the samples use as well, so that some requests mean something.
        self.cluster.have_topics({"a": 2, "name": 1})
        self.services = self.cluster.services("fuzzed-cluster-id-0000", lambda _: [])
        self.dispatcher = Dispatcher(find_api, self.report)
        self.buffers = ReceiveBuffers()

    def report(self, api: Api, fault: Exception) -> None:
        self.faults.append(f"{api.name}: {fault!r}")

    def connect(self) -> Session:
        context = RequestContext(
            services=self.services, node_id=1, listener="A", client_host="/127.0.0.1"
        )
        return Session(
            self.buffers,
            partial(self.dispatcher.dispatch, context),
            max_request_bytes=MAX_REQUEST,
            max_kept_bytes=MAX_REQUEST,
            wake=lambda: None,
        )


def send(session: Session, data: bytes) -> None:
    while data:
        space = session.space()
        count = min(len(space), len(data))
        space[:count] = data[:count]
        session.received(count)
        data = data[count:]


def answers_to(session: Session, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Send, and yield each answer's correlation id and content."""
    send(session, data)
    for content in split_frames(b"".join(session.take())):
        yield unpack_from(">i", content)[0], content


def is_served(session: Session) -> bool:
    """Whether an honest client on this connection gets an honest answer."""
    frame = request_frame(ApiVersionsRequest(), 0, correlation_id=77)
    ((correlation_id, content),) = answers_to(session, frame)
    return correlation_id == 77 and not read_answer(18, 0, content)[1].error_code


@pytest.mark.parametrize("frames", [SOME_FRAMES, pytest.param(FRAMES, marks=pytest.mark.endurance)])
def test_mutated_frames_are_answered_or_end_their_connection(tmp_path: Path, frames: int) -> None:
    world = World(tmp_path)
    mutator = Mutator("everything", seeds(every_api()))
    honest = world.connect()
    ended = answered = 0
    session = world.connect()
    for number in range(frames):
        frame = mutator.draw()
        try:
            answered += sum(1 for _ in answers_to(session, frame))
        except Exception as fault:
            raise AssertionError(f"frame {number}: {frame.hex()}") from fault
        if world.faults:
            raise AssertionError(f"frame {number}: {world.faults}: {frame.hex()}")
        if session.violation is not None:
            assert "\n" not in session.violation
            ended += 1
        if session.violation is not None or session.is_owing or number % 50 == 0:
            session.close()
            session = world.connect()
        if number % 1000 == 0:
            assert is_served(honest)
            world.clock.advance(100)
    assert ended > frames // 10
    assert answered > frames // 10
    assert is_served(honest)


@pytest.mark.parametrize("times", [500, pytest.param(2_500, marks=pytest.mark.endurance)])
def test_closed_connections_leave_nothing_behind(tmp_path: Path, times: int) -> None:
    world = World(tmp_path)
    # Requests that ask for nothing lasting, so that whatever stays is a leak.
    asking = [api for api in every_api() if api.name in {"ApiVersions", "Metadata", "Fetch"}]
    mutator = Mutator("leaks", seeds(asking))

    def connect_and_break(times: int) -> None:
        for _ in range(times):
            session = world.connect()
            send(session, mutator.draw())
            session.take()
            session.close()

    connect_and_break(2 * times)
    gc.collect()
    tracemalloc.start()
    try:
        connect_and_break(times // 2)
        gc.collect()
        held = [tracemalloc.get_traced_memory()[0]]
        for _ in range(2):
            connect_and_break(times)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # A leak grows every time; the interpreter's own tables grow now and then, all at once.
    assert min(after - before for before, after in pairwise(held)) < LEFT_BEHIND_BYTES * times
    assert world.faults == []


async def test_a_listening_broker_outlives_mutated_frames() -> None:
    broker = Broker(
        Settings(listen=("127.0.0.1:0",), config={"auto.create.topics.enable": "false"}), QUIET
    )
    await broker.start()
    host, _, port = broker.bootstrap_servers.rpartition(":")
    honest = await asyncio.open_connection(host, int(port))
    mutator = Mutator("sockets", seeds(every_api()))
    for _ in range(SOCKET_FRAMES // 20):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.writelines(mutator.draw() for _ in range(20))
        writer.write_eof()
        try:
            while await reader.read(65_536):
                pass
        except ConnectionError:
            pass  # closed with bytes unread, which the kernel tells by a reset
        writer.close()
    reader, writer = honest
    writer.write(request_frame(ApiVersionsRequest(), 0, correlation_id=77))
    length = int.from_bytes(await reader.readexactly(4))
    assert read_answer(18, 0, await reader.readexactly(length))[0] == 77
    writer.close()
    await broker.stop(grace_s=0.1)
