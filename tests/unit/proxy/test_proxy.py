"""The proxy as a whole: a cluster of several nodes behind it, and nothing that leads past it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.kafka_client import KafkaClient
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address, AddressError
from kafkalite.testing import Broker
from tests.oracle.target import free_port
from tests.unit.proxy.world import LOOPBACK, staged

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with Broker(brokers=NODES, topics={"orders": 6}) as running:
        yield running


def addresses(broker: Broker) -> list[Address]:
    return [Address.parse(each) for each in broker.bootstrap_servers.split(",")]


async def test_every_node_has_a_listener_which_leads_to_it(cluster: Broker) -> None:
    port = free_port(NODES + 1)
    async with staged(*addresses(cluster), listen=Address(LOOPBACK, port)) as stage:
        async with KafkaClient([stage.bootstrap]) as client:
            told = await client.ask_any(MetadataRequest(topics=None), Versions(0, 13))
            described = await client.ask_any(DescribeClusterRequest(), Versions(0, 2))
            found = await client.ask_any(
                FindCoordinatorRequest(key_type=0, coordinator_keys=["one", "two", "three", "x"]),
                Versions(4, 6),
            )
            nodes = {row.node_id: Address(row.host, row.port) for row in told.brokers}
            assert nodes == {
                node: Address(LOOPBACK, port + step) for step, node in enumerate(sorted(nodes), 1)
            }
            assert {
                row.broker_id: Address(row.host, row.port) for row in described.brokers
            } == nodes
            assert all(
                Address(row.host, row.port) == nodes[row.node_id] for row in found.coordinators
            )
            for address in nodes.values():
                await client.ask(address, ApiVersionsRequest(), Versions(0, 4))
        recorded = {tap.node_id: tap.broker for tap in stage.recorder.taps[1:]}
    assert recorded == {
        node: (address.host, address.port)
        for node, address in zip(sorted(nodes), addresses(cluster), strict=True)
    }


async def test_nothing_that_clients_read_leads_past_the_proxy(cluster: Broker) -> None:
    """What answers say of the cluster's own ports stands in the record alone."""
    inside = {address.port for address in addresses(cluster)}
    async with staged(*addresses(cluster)) as stage, KafkaClient([stage.bootstrap]) as client:
        for version in range(14):
            request = MetadataRequest(topics=None if version else [])
            told = await client.ask_any(request, Versions(version, version))
            assert not inside & {row.port for row in told.brokers}
        for version in range(7):
            wish = FindCoordinatorRequest(key="group", coordinator_keys=["group"])
            found = await client.ask_any(wish, Versions(version, version))
            assert not inside & {found.port, *(row.port for row in found.coordinators)}


async def test_its_end_closes_all_connections(cluster: Broker) -> None:
    async with staged(*addresses(cluster)) as stage:
        reader, writer = await asyncio.open_connection(LOOPBACK, stage.bootstrap.port)
        await stage.proxy.stop()
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(LOOPBACK, stage.bootstrap.port)
    assert all(tap.is_closed for tap in stage.recorder.taps)


async def test_it_does_not_stand_where_its_cluster_is(cluster: Broker) -> None:
    (first, *_) = addresses(cluster)
    with pytest.raises(AddressError, match=f"^{first} is where the cluster is: listen elsewhere$"):
        async with staged(first, listen=first):
            pass


async def test_an_address_that_is_taken_is_told_in_a_line(cluster: Broker) -> None:
    (first, *_) = addresses(cluster)
    with pytest.raises(AddressError, match=r"cannot listen on .* in use"):
        async with staged(Address("elsewhere", 9092), listen=first):
            pass


async def test_clients_are_told_what_is_advertised(cluster: Broker) -> None:
    advertised = Address("outside", 0)
    async with staged(*addresses(cluster), advertised=advertised) as stage:
        assert stage.bootstrap == Address("outside", stage.proxy.bound.port)
        async with KafkaClient([stage.proxy.bound]) as client:
            told = await client.ask_any(MetadataRequest(topics=None), Versions(0, 13))
    assert {row.host for row in told.brokers} == {"outside"}
