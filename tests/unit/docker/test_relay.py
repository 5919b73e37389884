"""The relay: bytes of clients, the end of the cluster, and primaries that do not answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import pytest

from kafkalite.docker import relay as relay_module
from kafkalite.docker.cluster_messages import MAX_LINE_BYTES
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from tests.oracle.target import free_port
from tests.unit.docker.joined_cluster import HOST, JoinedCluster, until
from tests.unit.server.client import METADATA_VERSION, Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def cluster() -> AsyncIterator[JoinedCluster]:
    joined = JoinedCluster()
    await joined.start()
    yield joined
    await joined.close()


async def expect_end(client: Client) -> None:
    """Check that a client is disconnected, by a reset or not."""
    with suppress(ConnectionResetError):
        assert await client.is_closed()
    await client.close()


async def test_client_of_a_relay_is_one_of_the_node(cluster: JoinedCluster) -> None:
    relay = await cluster.join(2)
    client = await Client.to(relay.address)
    # The first bytes arrive before the primary has accepted the client.
    metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    assert {each.node_id for each in metadata.brokers} == {1, 2}
    assert f"127.0.0.1:{metadata.brokers[1].port}" == relay.address
    (connection,) = cluster.broker.nodes.connections()
    assert connection.node_id == 2
    own_port = client._writer.get_extra_info("sockname")[1]
    assert (connection.host, connection.port) == ("127.0.0.1", own_port)
    await client.close()
    await until(lambda: not [*cluster.broker.nodes.connections()])


async def test_client_is_closed_with_its_node(cluster: JoinedCluster) -> None:
    relay = await cluster.join(2)
    client = await Client.to(relay.address)
    await client.ask(ApiVersionsRequest(), 0)
    await cluster.broker.nodes.stop(2)
    await expect_end(client)
    await expect_end(await Client.to(relay.address))
    await cluster.broker.nodes.start(2)
    client = await Client.to(relay.address)
    await client.ask(ApiVersionsRequest(), 0)
    assert await relay.stop() == 0
    await expect_end(client)


async def test_large_requests_pass_through(cluster: JoinedCluster) -> None:
    relay = await cluster.join(2)
    client = await Client.to(relay.address)
    topics = [MetadataRequest.MetadataRequestTopic(name=f"{i:0200}") for i in range(2_000)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    metadata = await client.ask(request, METADATA_VERSION)
    assert len(metadata.topics) == len(topics)
    await client.close()


async def test_end_of_the_primary_ends_the_cluster(cluster: JoinedCluster) -> None:
    relay = await cluster.join(2)
    client = await Client.to(relay.address)
    await client.ask(ApiVersionsRequest(), 0)
    await cluster.close_primary()
    await expect_end(client)
    await cluster.start()
    await relay.ready()
    assert relay.lines == [
        "the cluster has ended with its primary 127.0.0.1: this container joins the next one"
    ]
    client = await Client.to(relay.address)
    metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    assert {each.node_id for each in metadata.brokers} == {1, 2}
    await client.close()


async def test_primary_that_does_not_answer_is_named(
    cluster: JoinedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "_FIRST_JOIN_TIMEOUT_S", 0.0)
    monkeypatch.setattr(relay_module, "_RETRY_INTERVAL_S", 0.01)
    cluster.membership = cluster.membership._replace(port=1)
    relay = cluster.relay(cluster.registration(2))
    assert await relay.run == 2
    (line,) = relay.lines
    assert line.startswith("cannot join the cluster of 127.0.0.1 (VOTERS) on its port 1: ")
    assert "KAFKALITE_PRIMARY=127.0.0.1" in line
    assert line.endswith("set KAFKALITE_BROKERS=1")


async def test_relay_stops_while_it_waits(cluster: JoinedCluster) -> None:
    cluster.membership = cluster.membership._replace(port=1)
    relay = cluster.relay(cluster.registration(2))
    await asyncio.sleep(0)
    assert await relay.stop() == 0


async def test_taken_port_ends_the_relay(cluster: JoinedCluster) -> None:
    relay = await cluster.join(2)
    taken = f"PLAINTEXT://{relay.address}"
    other = cluster.relay(cluster.registration(3, listen=(taken,), advertise=(taken,)))
    assert await other.run == 2
    assert other.lines == [f"cannot listen on {relay.address}: address already in use"]


class Unresponsive:
    """A server in the place of the primary, which sends bytes and does nothing else."""

    def __init__(self, cluster: JoinedCluster, sent: bytes = b"") -> None:
        self._sent = sent
        self.address = (HOST, free_port())
        cluster.membership = cluster.membership._replace(port=self.address[1])
        self.clients: list[asyncio.StreamWriter] = []

    async def _accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients.append(writer)
        writer.write(self._sent)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, *self.address)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for client in self.clients:
            client.transport.abort()


async def test_relay_stops_while_the_primary_does_not_answer(cluster: JoinedCluster) -> None:
    async with Unresponsive(cluster) as primary:
        relay = cluster.relay(cluster.registration(2))
        await until(lambda: len(primary.clients) == 1)
        async with asyncio.timeout(5):
            assert await relay.stop() == 0


async def test_endless_line_is_no_answer(
    cluster: JoinedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "_FIRST_JOIN_TIMEOUT_S", 0.0)
    monkeypatch.setattr(relay_module, "_RETRY_INTERVAL_S", 0.01)
    async with Unresponsive(cluster, b"x" * (2 * MAX_LINE_BYTES)):
        relay = cluster.relay(cluster.registration(2))
        assert await relay.run == 2
        assert relay.lines[0].startswith("cannot join the cluster")


async def test_client_is_not_read_while_the_primary_reads_nothing() -> None:
    """The first bytes of a client fill the buffer of the connection to the primary."""
    client = relay_module._Client(("", 0), "", "", set())
    own, upstream = FakeTransport(client), FakeTransport(client.other, limit=10)
    client.transport, client.other.transport = own, upstream  # type: ignore[assignment]  # as much as is used
    client.data_received(b"x" * 100)
    assert not own.reads
    client.other.data_received(b"\n")
    assert upstream.written == b"x" * 100
    assert not own.reads
    client.other.resume_writing()
    assert own.reads


class FakeTransport:
    """A transport whose peer reads nothing: it pauses its protocol above a limit."""

    def __init__(self, protocol: relay_module._Side, limit: int = 1_000) -> None:
        self._protocol = protocol
        self._limit = limit
        self.reads = True
        self.written = b""

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def writelines(self, data: list[bytes]) -> None:
        self.written += b"".join(data)
        if len(self.written) > self._limit:
            self._protocol.pause_writing()


def test_a_lookup_of_a_name_does_not_delay_the_end_of_the_process() -> None:
    program = """
import asyncio, threading
from kafkalite.docker.relay import run_relay

class Relay:
    async def run(self, stop_requested):
        asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
        return 3

run_relay(Relay())
"""
    completed = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert completed.returncode == 3
