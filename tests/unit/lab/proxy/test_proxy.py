"""A proxy in front of a cluster of several nodes; responses have only the proxy's addresses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.client.client import KafkaClient
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address, AddressError
from kafkalite.testing import Broker
from tests.oracle.target import free_port
from tests.unit.lab.proxy.running_proxies import LOOPBACK, running_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with Broker(brokers=NODES, topics={"orders": 6}) as running:
        yield running


def addresses(broker: Broker) -> list[Address]:
    return [Address.parse(each) for each in broker.bootstrap_servers.split(",")]


async def test_every_node_has_a_listener(cluster: Broker) -> None:
    port = free_port(NODES + 1)
    async with running_proxy(*addresses(cluster), listen=Address(LOOPBACK, port)) as proxy:
        async with KafkaClient([proxy.bootstrap]) as client:
            metadata = await client.ask_any(MetadataRequest(topics=None), Versions(0, 13))
            described = await client.ask_any(DescribeClusterRequest(), Versions(0, 2))
            found = await client.ask_any(
                FindCoordinatorRequest(key_type=0, coordinator_keys=["one", "two", "three", "x"]),
                Versions(4, 6),
            )
            nodes = {row.node_id: Address(row.host, row.port) for row in metadata.brokers}
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
        recorded = {tap.node_id: tap.broker for tap in proxy.recorder.taps[1:]}
    assert recorded == {
        node: (address.host, address.port)
        for node, address in zip(sorted(nodes), addresses(cluster), strict=True)
    }


async def test_responses_have_no_addresses_of_the_cluster(cluster: Broker) -> None:
    """Only the recording has the ports of the cluster."""
    internal_ports = {address.port for address in addresses(cluster)}
    async with (
        running_proxy(*addresses(cluster)) as proxy,
        KafkaClient([proxy.bootstrap]) as client,
    ):
        for version in range(14):
            request = MetadataRequest(topics=None if version else [])
            metadata = await client.ask_any(request, Versions(version, version))
            assert not internal_ports & {row.port for row in metadata.brokers}
        for version in range(7):
            lookup = FindCoordinatorRequest(key="group", coordinator_keys=["group"])
            found = await client.ask_any(lookup, Versions(version, version))
            assert not internal_ports & {found.port, *(row.port for row in found.coordinators)}


async def test_stop_closes_all_connections(cluster: Broker) -> None:
    async with running_proxy(*addresses(cluster)) as proxy:
        reader, writer = await asyncio.open_connection(LOOPBACK, proxy.bootstrap.port)
        await proxy.proxy.stop()
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(LOOPBACK, proxy.bootstrap.port)
    assert all(tap.is_closed for tap in proxy.recorder.taps)


async def test_listening_on_the_clusters_address_is_refused(cluster: Broker) -> None:
    (first, *_) = addresses(cluster)
    with pytest.raises(
        AddressError, match=f"^{first} is an address of the cluster; listen on another address$"
    ):
        async with running_proxy(first, listen=first):
            pass


async def test_address_in_use_is_an_error(cluster: Broker) -> None:
    (first, *_) = addresses(cluster)
    with pytest.raises(AddressError, match=r"cannot listen on .* in use"):
        async with running_proxy(Address("elsewhere", 9092), listen=first):
            pass


async def test_clients_get_the_advertised_host(cluster: Broker) -> None:
    advertised = Address("outside", 0)
    async with running_proxy(*addresses(cluster), advertised=advertised) as proxy:
        assert proxy.bootstrap == Address("outside", proxy.proxy.bound.port)
        async with KafkaClient([proxy.proxy.bound]) as client:
            metadata = await client.ask_any(MetadataRequest(topics=None), Versions(0, 13))
    assert {row.host for row in metadata.brokers} == {"outside"}
