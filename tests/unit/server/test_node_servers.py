"""Servers of nodes: addresses, and nodes that are added, removed, stopped and isolated."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.node import NodeState
from kafkalite.cluster.node_control import NodeError, UnknownNodeError
from kafkalite.config.definitions import ConfigError
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.metadata.controller import MetadataController
from kafkalite.metadata.image import RegisteredListener
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.unregister_broker import UnregisterBrokerRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.server.addresses import Address, AddressError, ListenerSpec
from kafkalite.server.broker import Broker
from kafkalite.server.broker_directory import BrokerDirectoryError
from kafkalite.server.logging import Level, Log
from kafkalite.server.node_servers import NodeServer, NodeServers
from kafkalite.server.settings import Settings
from tests.oracle.target import free_port
from tests.unit.server.client import METADATA_VERSION, Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


ANY_PORT = ("127.0.0.1:0",)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(Settings(listen=ANY_PORT, topics={"t": 3}))
    await broker.start()
    yield broker
    await broker.stop(grace_s=0.1)


async def test_nodes_list_each_other_and_lead_different_partitions() -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=3, topics={"t": 6}))
    await broker.start()
    addresses = broker.bootstrap_servers.split(",")
    assert len(set(addresses)) == 3
    for address in addresses:
        client = await Client.to(address)
        metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
        assert {f"{each.host}:{each.port}" for each in metadata.brokers} == set(addresses)
        assert {each.leader_id for each in metadata.topics[0].partitions} == {1, 2, 3}
        await client.close()
    await broker.stop(grace_s=0.1)


async def test_a_node_stops_and_starts_while_the_others_serve() -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2))
    await broker.start()
    first, second = broker.bootstrap_servers.split(",")
    stopped_client, other_client = await Client.to(second), await Client.to(first)
    await broker.nodes.stop(2)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await stopped_client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    with pytest.raises(ConnectionRefusedError):
        await Client.to(second)
    metadata = await other_client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    assert [each.node_id for each in metadata.brokers] == [1]
    # The second start has no effect.
    await asyncio.gather(broker.nodes.start(2), broker.nodes.start(2))
    client = await Client.to(second)
    metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    assert [each.node_id for each in metadata.brokers] == [1, 2]
    await other_client.close()
    await client.close()
    await broker.stop(grace_s=0.1)


async def test_all_ports_of_a_node_are_free_while_one_is_taken() -> None:
    listeners = ("INSIDE://127.0.0.1:0", "OUTSIDE://127.0.0.1:0")
    broker = Broker(Settings(listen=listeners, brokers=2))
    await broker.start()
    inside, outside = (
        int(addresses.rpartition(":")[2]) for addresses in broker.bootstrap_by_listener().values()
    )
    await broker.nodes.stop(2)
    with socket.create_server(("127.0.0.1", outside)):
        with pytest.raises(AddressError):
            await broker.nodes.start(2)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", inside))
    await broker.nodes.start(2)
    socket.create_connection(("127.0.0.1", inside)).close()
    await broker.stop(grace_s=0.1)


@pytest.mark.parametrize("iterations", range(1, 5))
async def test_a_node_that_is_stopped_while_it_starts_is_stopped(iterations: int) -> None:
    listeners = ("INSIDE://127.0.0.1:0", "OUTSIDE://127.0.0.1:0")
    broker = Broker(Settings(listen=listeners, brokers=2))
    await broker.start()
    assert broker.cluster is not None
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    await broker.nodes.stop(2)
    start = asyncio.ensure_future(broker.nodes.start(2))
    for _ in range(iterations):
        await asyncio.sleep(0)
    await broker.nodes.stop(2)
    await start
    assert broker.cluster.nodes[2].state is NodeState.STOPPED
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    await broker.nodes.start(2)
    socket.create_connection(("127.0.0.1", port)).close()
    await broker.stop(grace_s=0.1)


async def test_a_stop_waits_for_the_start_of_the_node() -> None:
    listeners = ("INSIDE://127.0.0.1:0", "OUTSIDE://127.0.0.1:0")
    broker = Broker(Settings(listen=listeners, brokers=2))
    await broker.start()
    ports = [
        int(addresses.rpartition(":")[2]) for addresses in broker.bootstrap_by_listener().values()
    ]
    await broker.nodes.stop(2)
    await asyncio.gather(broker.nodes.start(2), broker.nodes.stop(2))
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    await broker.nodes.start(2)
    for port in ports:
        socket.create_connection(("127.0.0.1", port)).close()
    await broker.stop(grace_s=0.1)


def _refuse_to_write(*_: object, **__: object) -> None:
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)


async def test_a_node_whose_start_the_disk_refuses_accepts_no_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2))
    await broker.start()
    assert broker.cluster is not None
    _, second = broker.bootstrap_servers.split(",")
    await broker.nodes.stop(2)

    with monkeypatch.context() as patch:
        patch.setattr(MetadataController, "register_broker", _refuse_to_write)
        for _ in range(2):
            with pytest.raises(KafkaError):
                await broker.nodes.start(2)
            with pytest.raises(ConnectionRefusedError):
                await Client.to(second)
    await broker.nodes.start(2)
    await (await Client.to(second)).close()
    await broker.stop(grace_s=0.1)


async def test_a_stop_that_the_disk_refuses_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    log_output = io.StringIO()
    broker = Broker(Settings(listen=ANY_PORT, brokers=2), Log(Level.INFO, "json", log_output))
    await broker.start()

    with monkeypatch.context() as patch:
        patch.setattr(MetadataController, "fence", _refuse_to_write)
        with pytest.raises(KafkaError):
            await broker.nodes.stop(2)
    await broker.nodes.stop(2)
    assert log_output.getvalue().count("stopped a node") == 1
    await broker.stop(grace_s=0.1)


async def test_a_broker_stops_while_a_node_is_stopped() -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2, topics={"t": 2}))
    await broker.start()
    await broker.nodes.stop(1)
    assert await broker.stop(grace_s=0.1)


async def test_each_listener_has_its_own_addresses() -> None:
    broker = Broker(
        Settings(
            listen=("INSIDE://127.0.0.1:0", "OUTSIDE://127.0.0.1:0"),
            advertise=("OUTSIDE://outside.test:1234", "INSIDE://inside.test:0"),
        )
    )
    await broker.start()
    ports = {
        each.name: each.port
        for _, listeners in broker.nodes._listeners.items()
        for each in listeners
    }
    addresses = {}
    for name, port in ports.items():
        client = await Client.to(f"127.0.0.1:{port}")
        metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
        addresses[name] = [(each.host, each.port) for each in metadata.brokers]
        await client.close()
    assert addresses == {
        "INSIDE": [("inside.test", ports["INSIDE"])],
        "OUTSIDE": [("outside.test", 1234)],
    }
    await broker.stop(grace_s=0.1)


async def test_a_node_has_its_own_address_also_after_its_restart() -> None:
    port = free_port()
    own = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    own |= {"advertised.listeners": "PLAINTEXT://two.test:7"}
    broker = Broker(Settings(listen=("127.0.0.1:0",), brokers=2, node_config={2: own}))
    await broker.start()
    for _ in range(2):
        client = await Client.to(f"127.0.0.1:{port}")
        metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
        assert [(each.host, each.port) for each in metadata.brokers if each.node_id == 2] == [
            ("two.test", 7)
        ]
        await client.close()
        await broker.nodes.stop(2)
        await broker.nodes.start(2)
    await broker.stop(grace_s=0.1)


async def test_clients_of_the_controller_have_limits_of_their_own() -> None:
    config = {"max.connections.per.ip": "1"}
    broker = Broker(Settings(listen=ANY_PORT, controller_listen="127.0.0.1:0", config=config))
    await broker.start()
    clients = []
    for address in broker.bootstrap_by_listener().values():
        client = await Client.to(address)
        await client.ask(ApiVersionsRequest(), 0)
        clients.append(client)
        another = await Client.to(address)
        assert await another.is_closed()
        await another.close()
    for client in clients:
        await client.ask(ApiVersionsRequest(), 0)
        await client.close()
    await broker.stop(grace_s=0.1)


async def test_a_node_that_returns_serves_clients_of_the_controller() -> None:
    broker = Broker(Settings(listen=ANY_PORT, controller_listen="127.0.0.1:0", brokers=2))
    await broker.start()
    address = broker.bootstrap_by_listener()["CONTROLLER"].split(",")[1]
    client = await Client.to(address)
    await client.ask(ApiVersionsRequest(), 0)
    await broker.nodes.stop(2)
    assert await client.is_closed()
    await client.close()
    with pytest.raises(ConnectionRefusedError):
        await Client.to(address)
    await broker.nodes.start(2)
    again = await Client.to(address)
    assert (await again.ask(DescribeClusterRequest(endpoint_type=2), 2)).controller_id == 1
    await again.close()
    await broker.stop(grace_s=0.1)


async def test_an_unregistered_node_never_becomes_the_controller_of_stopped_nodes() -> None:
    """As in Kafka, its process and its listeners continue, and its voter is another node."""
    broker = Broker(Settings(listen=ANY_PORT, controller_listen="127.0.0.1:0", brokers=2))
    await broker.start()
    added = await broker.nodes.add()
    addresses = broker.bootstrap_by_listener()["CONTROLLER"].split(",")
    client = await Client.to(addresses[2])

    async def controller() -> tuple[int, str]:
        answer = await client.ask(DescribeClusterRequest(endpoint_type=2), 2)
        (described,) = answer.brokers
        assert described.broker_id == answer.controller_id
        return answer.controller_id, f"{described.host}:{described.port}"

    await client.ask(UnregisterBrokerRequest(broker_id=added), 0)
    await broker.nodes.stop(1)
    assert await controller() == (2, addresses[1])
    await broker.nodes.stop(2)
    assert await controller() == (2, addresses[1])
    await broker.nodes.start(2)
    assert await controller() == (2, addresses[1])
    await client.close()
    await broker.stop(grace_s=0.1)


async def test_localhost_is_reachable_by_ipv4_and_ipv6() -> None:
    broker = Broker(Settings(listen=("localhost:0",)))
    await broker.start()
    port = broker.bootstrap_servers.rpartition(":")[2]
    hosts = ["127.0.0.1"]
    if _has_ipv6():
        hosts.append("::1")
    for host in hosts:
        client = await Client.to(f"{host}:{port}")
        metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
        assert metadata.brokers[0].host == "localhost"
        await client.close()
    await broker.stop(grace_s=0.1)


async def test_a_node_describes_its_own_listeners(broker: Broker) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=["listeners", "log.dirs", "node.id"]
    )
    client = await Client.to(broker.bootstrap_servers)
    answer = await client.ask(DescribeConfigsRequest(resources=[resource]), 4)
    found = {each.name: each.value for each in answer.results[0].configs}
    assert found == {
        "listeners": f"PLAINTEXT://{broker.bootstrap_servers}",
        "log.dirs": broker.data_directory,
        "node.id": "1",
    }
    await client.close()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


async def test_an_added_node_has_the_port_after_the_last_one_also_after_a_restart(
    tmp_path: Path,
) -> None:
    port = free_port(4)
    settings = Settings(listen=(f"127.0.0.1:{port}",), brokers=2, data_directory=str(tmp_path))
    for start in range(2):
        broker = Broker(settings)
        await broker.start()
        if start == 0:
            assert await broker.nodes.add() == 3
        assert broker.bootstrap_servers == ",".join(
            f"127.0.0.1:{port + offset}" for offset in range(3)
        )
        client = await Client.to(f"127.0.0.1:{port + 2}")
        metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
        assert [each.port for each in metadata.brokers] == [port, port + 1, port + 2]
        await client.close()
        await broker.stop(grace_s=0.1)


async def test_an_added_node_skips_ports_that_are_taken() -> None:
    port = free_port(4)
    broker = Broker(Settings(listen=(f"127.0.0.1:{port}",)))
    await broker.start()
    with socket.create_server(("127.0.0.1", port + 1)):
        assert await broker.nodes.add() == 2
    assert broker.bootstrap_servers == f"127.0.0.1:{port},127.0.0.1:{port + 2}"
    assert await broker.nodes.add(2_000_000) == 2_000_000
    assert broker.bootstrap_servers.endswith(f",127.0.0.1:{port + 3}")
    await broker.stop(grace_s=0.1)


async def test_an_added_node_has_the_same_port_after_a_restart_although_another_is_free(
    tmp_path: Path,
) -> None:
    port = free_port(4)
    settings = Settings(listen=(f"127.0.0.1:{port}",), brokers=2, data_directory=str(tmp_path))
    broker = Broker(settings)
    await broker.start()
    with socket.create_server(("127.0.0.1", port + 2)):
        assert await broker.nodes.add() == 3
    # It is registered again with the same ports.
    await broker.nodes.stop(3)
    await broker.nodes.start(3)
    before = broker.bootstrap_servers
    assert before.endswith(f":{port + 3}")
    await broker.stop(grace_s=0.1)
    broker = Broker(settings)
    await broker.start()
    assert broker.bootstrap_servers == before
    assert broker.cluster is not None
    (listener,) = broker.cluster.nodes[3].added.listeners  # type: ignore[union-attr]
    assert listener == RegisteredListener("PLAINTEXT", "127.0.0.1", port + 3, 0, port_offset=3)
    await broker.stop(grace_s=0.1)


async def test_a_start_names_the_added_node_that_has_no_address(tmp_path: Path) -> None:
    settings = Settings(listen=("127.0.0.1:65535",), data_directory=str(tmp_path))
    broker = Broker(settings._replace(listen=ANY_PORT))
    await broker.start()
    await broker.nodes.add()
    await broker.stop(grace_s=0.1)
    broker = Broker(settings)
    with pytest.raises(AddressError, match=r"^node 2: 127\.0\.0\.1:65535 has too few ports after"):
        await broker.start()


async def test_a_removed_node_releases_its_ports_also_after_a_restart(tmp_path: Path) -> None:
    port = free_port(2)
    settings = Settings(listen=(f"127.0.0.1:{port}",), brokers=2, data_directory=str(tmp_path))
    for start in range(2):
        broker = Broker(settings)
        await broker.start()
        if start == 0:
            await broker.nodes.remove(1)
        assert broker.bootstrap_servers == f"127.0.0.1:{port + 1}"
        socket.create_server(("127.0.0.1", port)).close()
        await broker.stop(grace_s=0.1)
    broker = Broker(settings._replace(brokers=1))
    with pytest.raises(BrokerDirectoryError, match=r": all nodes \(1\) were removed from the"):
        await broker.start()
    broker = Broker(settings)
    await broker.start()
    await broker.stop(grace_s=0.1)


async def test_changes_of_nodes_are_logged(tmp_path: Path) -> None:
    log_output = io.StringIO()
    settings = Settings(listen=ANY_PORT, brokers=2, data_directory=str(tmp_path))
    broker = Broker(settings, Log(Level.INFO, "json", log_output))
    await broker.start()
    assert broker.cluster is not None
    broker.cluster.metadata.unregister_broker(2)
    await broker.nodes.start(2)
    await broker.nodes.add()
    await broker.nodes.stop(3, controlled=True)
    await broker.nodes.remove(3)
    await broker.stop()
    lines = [json.loads(line) for line in log_output.getvalue().splitlines()]
    events = [(line["event"], line["node"]) for line in lines if "node" in line]
    assert events == [
        ("unregistered a node", 2),
        ("added a node", 3),
        ("shut down a node", 3),
        ("unregistered a node", 3),
        ("removed a node", 3),
    ]


async def test_a_node_that_cannot_be_added_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(Settings(listen=ANY_PORT))
    await broker.start()
    before = broker.bootstrap_servers
    with monkeypatch.context() as patch:
        patch.setattr(MetadataController, "register_broker", _refuse_to_write)
        with pytest.raises(KafkaError):
            await broker.nodes.add()
    with pytest.raises(ConfigError):
        await broker.nodes.add(settings={"broker.rack": "b", "group.version": "1"})
    assert broker.bootstrap_servers == before
    assert broker.cluster is not None
    assert list(broker.cluster.nodes) == [1]
    await broker.nodes.add()
    await broker.nodes.remove(2)
    assert broker.bootstrap_servers == before
    await broker.stop(grace_s=0.1)


async def test_a_node_serves_no_client_before_it_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2))
    await broker.start()
    await broker.nodes.stop(2)
    states: list[NodeState] = []
    serve = NodeServers._serve

    async def observe(self: NodeServers, server: NodeServer) -> None:
        states.append(server.node.state)
        await serve(self, server)

    monkeypatch.setattr(NodeServers, "_serve", observe)
    await broker.nodes.start(2)
    await broker.nodes.add()
    assert states == [NodeState.RUNNING, NodeState.RUNNING]
    await broker.stop(grace_s=0.1)


async def test_a_removal_waits_for_the_start_of_the_node() -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2))
    await broker.start()
    await broker.nodes.stop(2)
    await asyncio.gather(broker.nodes.start(2), broker.nodes.remove(2))
    assert broker.cluster is not None
    assert list(broker.cluster.nodes) == [1]
    assert len(broker.bootstrap_servers.split(",")) == 1
    with pytest.raises(UnknownNodeError):
        await broker.nodes.start(2)
    await broker.stop(grace_s=0.1)


async def test_an_isolation_is_logged_once() -> None:
    log_output = io.StringIO()
    broker = Broker(Settings(listen=ANY_PORT, brokers=2), Log(Level.INFO, "json", log_output))
    await broker.start()
    broker.nodes.isolate(2)
    broker.nodes.isolate(2)
    await broker.stop(grace_s=0.1)
    lines = map(json.loads, log_output.getvalue().splitlines())
    assert [each["node"] for each in lines if each["event"] == "isolated a node"] == [2]


async def test_an_isolated_node_is_removed() -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2))
    await broker.start()
    assert broker.cluster is not None
    broker.nodes.isolate(2)
    await broker.nodes.remove(2)
    assert list(broker.cluster.nodes) == [1]
    await broker.stop(grace_s=0.1)


def relayed(port: int, name: str = "PLAINTEXT") -> list[ListenerSpec]:
    return [ListenerSpec(name, Address("kafka", port), is_relayed=True)]


async def test_node_with_relayed_listeners_is_added_and_started_again(broker: Broker) -> None:
    nodes = broker.nodes
    await nodes.join(7, {"broker.rack": "b"}, relayed(1))
    assert nodes.is_relayed(7)
    assert not nodes.is_relayed(1)
    assert nodes.bootstrap_by_listener()["PLAINTEXT"].endswith(",kafka:1")
    assert nodes.protocol_factory(7, "PLAINTEXT") is not None
    assert nodes.protocol_factory(7, "OTHER") is None
    with pytest.raises(NodeError, match="node 7 is running already"):
        await nodes.join(7, {}, relayed(1))
    await nodes.stop(7)
    assert nodes.protocol_factory(7, "PLAINTEXT") is None
    await nodes.start(7)
    assert nodes.protocol_factory(7, "PLAINTEXT") is not None
    await nodes.stop(7)
    await nodes.join(7, {}, relayed(2))
    assert nodes.bootstrap_by_listener()["PLAINTEXT"].endswith(",kafka:2")
    await nodes.stop(7)
    await nodes.remove(7)
    assert "kafka" not in nodes.bootstrap_by_listener()["PLAINTEXT"]


async def test_relayed_listeners_are_those_of_the_cluster(broker: Broker) -> None:
    with pytest.raises(NodeError, match="the cluster has no listener OTHER: its listeners are"):
        await broker.nodes.join(7, {}, relayed(1, "OTHER"))
    specs = [relayed(1)[0]._replace(protocol=SecurityProtocol.SSL)]
    with pytest.raises(NodeError, match="has the security protocol PLAINTEXT, not SSL"):
        await broker.nodes.join(7, {}, specs)
    with pytest.raises(NodeError, match="a node id is a number"):
        await broker.nodes.join(-1, {}, relayed(1))


async def test_later_start_has_the_relayed_listeners(tmp_path: Path) -> None:
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path))
    broker = Broker(settings)
    await broker.start()
    await broker.nodes.join(7, {}, relayed(1))
    await broker.stop(grace_s=0.1)
    broker = Broker(settings)
    await broker.start()
    assert broker.nodes.is_relayed(7)
    assert broker.bootstrap_servers.endswith(",kafka:1")
    await broker.nodes.stop(7)
    await broker.nodes.join(7, {}, relayed(2))
    assert broker.bootstrap_servers.endswith(",kafka:2")
    await broker.stop(grace_s=0.1)


async def test_nodes_of_settings_may_be_relayed() -> None:
    broker = Broker(Settings(listen=("kafka:1",), is_relayed=True))
    await broker.start()
    assert broker.nodes.is_relayed(1)
    assert broker.bootstrap_servers == "kafka:1"
    await broker.nodes.stop(1)
    await broker.nodes.join(1, {}, relayed(2))
    assert broker.bootstrap_servers == "kafka:2"
    await broker.stop(grace_s=0.1)
