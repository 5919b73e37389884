"""A whole broker: its start, what it leaves behind, and its end."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.executors import InlineExecutor
from kafkalite.ports.temporary import new_temporary_directory
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.server.addresses import AddressError
from kafkalite.server.broker import Broker
from kafkalite.server.broker_directory import BrokerDirectoryError
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.unit.frames import request_frame
from tests.unit.server.client import METADATA_VERSION, Client
from tests.unit.storage.logs import batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


ANY_PORT = ("127.0.0.1:0",)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(Settings(listen=ANY_PORT, topics={"t": 3}))
    await broker.start()
    yield broker
    await broker.stop(grace_s=0.1)


async def test_a_broker_serves_its_topics(broker: Broker) -> None:
    client = await Client.to(broker.bootstrap_servers)
    versions = await client.ask(ApiVersionsRequest(), 0)
    assert versions.error_code == 0
    metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    assert [(each.host, each.port) for each in metadata.brokers] == [
        ("127.0.0.1", int(broker.bootstrap_servers.rpartition(":")[2]))
    ]
    assert [(topic.name, len(topic.partitions)) for topic in metadata.topics] == [("t", 3)]
    assert metadata.cluster_id == broker.cluster_id
    await client.close()


def path_exists(path: str) -> bool:
    return Path(path).exists()


async def test_a_temporary_broker_leaves_nothing(broker: Broker) -> None:
    path = broker.data_directory
    assert path_exists(path)
    assert broker.is_temporary
    await broker.stop()
    assert not path_exists(path)


async def until_an_answer_is_pending(broker: Broker) -> None:
    for _ in range(10_000):
        if any(each.session.has_pending_answer for each in broker.nodes.connections()):
            return
        await asyncio.sleep(0)
    raise AssertionError("no answer is pending")


async def test_a_pending_answer_is_sent_before_the_end(broker: Broker) -> None:
    client = await Client.to(broker.bootstrap_servers)
    fetch = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[
            FetchRequest.FetchTopic(
                topic="t",
                partitions=[FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)],
            )
        ],
    )
    client.send(fetch, 12)
    await until_an_answer_is_pending(broker)
    stopping = asyncio.create_task(broker.stop())
    answer = await asyncio.wait_for(client.receive(fetch, 12), 1)
    assert answer.error_code == 0
    assert await client.is_closed()
    await asyncio.wait_for(stopping, 2)
    await client.close()


async def test_a_client_that_does_not_read_does_not_block_the_end(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    # The client reads a little and then lets the socket buffer fill up.
    _, writer = await asyncio.open_connection(host, int(port), limit=1)
    for _ in range(2000):
        writer.write(request_frame(MetadataRequest(topics=None), METADATA_VERSION))
    await asyncio.wait_for(broker.stop(grace_s=0.1), 2)
    writer.transport.abort()


async def test_only_the_data_of_killed_brokers_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("kafkalite.ports.temporary._MIN_AGE_S", 0)
    killed = new_temporary_directory(bytes(16))
    killed.release()
    brokers = []
    for _ in range(2):
        brokers.append(Broker(Settings(listen=ANY_PORT), executor=InlineExecutor()))
        await brokers[-1].start()
    assert not path_exists(killed.path)
    assert all(path_exists(broker.data_directory) for broker in brokers)
    for broker in brokers:
        assert await broker.stop(grace_s=0.1)


async def test_stopping_twice_is_harmless(broker: Broker) -> None:
    await broker.stop()
    await broker.stop()


async def test_a_port_in_use_is_reported_and_everything_closed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = Settings(
            listen=("A://127.0.0.1:0", f"B://127.0.0.1:{port}"), data_directory=str(tmp_path)
        )
        with pytest.raises(AddressError, match=f"127.0.0.1:{port}.*in use"):
            await Broker(settings).start()
    again = Broker(settings)
    await again.start()
    await again.stop()


async def test_a_failed_start_does_not_affect_the_next(tmp_path: Path) -> None:
    """Logs that could not be opened are not marked as clean, and keep their start offsets."""
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path), topics={"t": 1})
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()["t", 0]
    for _ in range(2):
        log.append([batch(b"value")], leader_epoch=0, now_ms=0)
    log.delete_before(1)
    await broker.stop()
    path = tmp_path / "t-0" / "partition.metadata"
    content = path.read_bytes()
    path.write_bytes(b"\xff")
    broker = Broker(settings)
    with pytest.raises(BrokerDirectoryError, match=r"partition\.metadata: not a text file"):
        await broker.start()
    path.write_bytes(content)
    with (tmp_path / "t-0" / f"{0:020d}.log").open("ab") as file:
        file.write(b"torn")
    log_output = io.StringIO()
    broker = Broker(settings, Log(Level.INFO, "json", log_output))
    await broker.start()
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()["t", 0]
    assert (log.start_offset, log.end_offset) == (1, 2)
    await broker.stop()
    assert "truncated" in log_output.getvalue()


async def test_a_full_disk_at_the_end_is_reported_and_recovered_from(tmp_path: Path) -> None:
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path), topics={"t": 1})
    log_output = io.StringIO()
    broker = Broker(settings, Log(Level.INFO, "json", log_output))
    await broker.start()
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()["t", 0]
    log.append([batch(b"value")], leader_epoch=0, now_ms=0)
    blocking_directory = tmp_path / "t-0" / f"{0:020d}.timeindex"
    blocking_directory.mkdir()
    assert not await broker.stop()
    (line,) = [json.loads(line) for line in log_output.getvalue().splitlines()]
    assert line["event"] == "the data directory could not be closed cleanly"
    assert line["path"] == str(blocking_directory)
    assert line["reason"] == "Is a directory"
    blocking_directory.rmdir()
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    assert broker.cluster.partitions.logs()["t", 0].end_offset == 1
    await broker.stop()
