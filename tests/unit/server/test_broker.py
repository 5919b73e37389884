"""A whole broker: its start, what it leaves behind, and its end."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.authorization.step import AuthorizationStep
from kafkalite.cluster.cluster import TopicError
from kafkalite.cluster.node import NodeState
from kafkalite.cluster.node_control import UnknownNodeError
from kafkalite.config.definitions import ConfigError
from kafkalite.config.sasl_classes import SIGNED_TOKEN_HANDLERS
from kafkalite.gateway.fault_rules import parse_rule
from kafkalite.gateway.inter_broker import InterBrokerCalls
from kafkalite.metadata.client_quotas import QuotaAlteration
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.controller import MetadataController
from kafkalite.metadata.image import ConfigResource, RegisteredListener, ResourceType
from kafkalite.ports.executors import InlineExecutor
from kafkalite.ports.temporary import new_temporary_directory
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.describe_quorum import DescribeQuorumRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.sasl.users import User
from kafkalite.server.addresses import AddressError
from kafkalite.server.broker import Broker, ServedNode
from kafkalite.server.broker_directory import BrokerDirectoryError
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings, SettingsError
from kafkalite.testing.clock import ManualClock
from tests.oracle.target import free_port
from tests.unit.frames import request_frame
from tests.unit.server.client import METADATA_VERSION, Client
from tests.unit.storage.logs import batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANY_PORT = ("127.0.0.1:0",)
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
KEYS_THREAD = "kafkalite-token-keys"


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
    await broker.stop_node(2)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await stopped_client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    with pytest.raises(ConnectionRefusedError):
        await Client.to(second)
    metadata = await other_client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    assert [each.node_id for each in metadata.brokers] == [1]
    # The second start has no effect.
    await asyncio.gather(broker.start_node(2), broker.start_node(2))
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
    await broker.stop_node(2)
    with socket.create_server(("127.0.0.1", outside)):
        with pytest.raises(AddressError):
            await broker.start_node(2)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", inside))
    await broker.start_node(2)
    socket.create_connection(("127.0.0.1", inside)).close()
    await broker.stop(grace_s=0.1)


@pytest.mark.parametrize("iterations", range(1, 5))
async def test_a_node_that_is_stopped_while_it_starts_is_stopped(iterations: int) -> None:
    listeners = ("INSIDE://127.0.0.1:0", "OUTSIDE://127.0.0.1:0")
    broker = Broker(Settings(listen=listeners, brokers=2))
    await broker.start()
    assert broker.cluster is not None
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    await broker.stop_node(2)
    start = asyncio.ensure_future(broker.start_node(2))
    for _ in range(iterations):
        await asyncio.sleep(0)
    await broker.stop_node(2)
    await start
    assert broker.cluster.nodes[2].state is NodeState.STOPPED
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    await broker.start_node(2)
    socket.create_connection(("127.0.0.1", port)).close()
    await broker.stop(grace_s=0.1)


async def test_a_stop_waits_for_the_start_of_the_node() -> None:
    listeners = ("INSIDE://127.0.0.1:0", "OUTSIDE://127.0.0.1:0")
    broker = Broker(Settings(listen=listeners, brokers=2))
    await broker.start()
    ports = [
        int(addresses.rpartition(":")[2]) for addresses in broker.bootstrap_by_listener().values()
    ]
    await broker.stop_node(2)
    await asyncio.gather(broker.start_node(2), broker.stop_node(2))
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    await broker.start_node(2)
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
    await broker.stop_node(2)

    with monkeypatch.context() as patch:
        patch.setattr(MetadataController, "register_broker", _refuse_to_write)
        for _ in range(2):
            with pytest.raises(KafkaError):
                await broker.start_node(2)
            with pytest.raises(ConnectionRefusedError):
                await Client.to(second)
    await broker.start_node(2)
    await (await Client.to(second)).close()
    await broker.stop(grace_s=0.1)


async def test_a_stop_that_the_disk_refuses_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    log_output = io.StringIO()
    broker = Broker(Settings(listen=ANY_PORT, brokers=2), Log(Level.INFO, "json", log_output))
    await broker.start()

    with monkeypatch.context() as patch:
        patch.setattr(MetadataController, "fence", _refuse_to_write)
        with pytest.raises(KafkaError):
            await broker.stop_node(2)
    await broker.stop_node(2)
    assert log_output.getvalue().count("stopped a node") == 1
    await broker.stop(grace_s=0.1)


async def test_a_broker_stops_while_a_node_is_stopped() -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2, topics={"t": 2}))
    await broker.start()
    await broker.stop_node(1)
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
        each.name: each.port for _, listeners in broker._listeners.items() for each in listeners
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


async def test_clients_of_the_controller_have_a_listener() -> None:
    settings = Settings(listen=ANY_PORT, controller_listen="127.0.0.1:0", brokers=2)
    broker = Broker(settings)
    await broker.start()
    addresses = broker.bootstrap_by_listener()
    assert list(addresses) == ["PLAINTEXT", "CONTROLLER"]
    first, second = addresses["CONTROLLER"].split(",")
    for address in (first, second):
        client = await Client.to(address)
        answer = await client.ask(DescribeClusterRequest(endpoint_type=2), 2)
        assert [(each.broker_id, f"{each.host}:{each.port}") for each in answer.brokers] == [
            (1, first)
        ]
        client.send(MetadataRequest(topics=None), METADATA_VERSION)
        assert await client.is_closed()
        await client.close()
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=["advertised.listeners"]
    )
    client = await Client.to(broker.bootstrap_servers.partition(",")[0])
    answer = await client.ask(DescribeConfigsRequest(resources=[resource]), 4)
    (advertised,) = answer.results[0].configs
    assert "CONTROLLER" not in advertised.value
    await client.close()
    await broker.stop(grace_s=0.1)


async def test_an_authorizer_checks_clients_of_the_controller() -> None:
    broker = Broker(
        Settings(
            listen=ANY_PORT,
            controller_listen="127.0.0.1:0",
            config={"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"},
        )
    )
    await broker.start()
    client = await Client.to(broker.bootstrap_by_listener()["CONTROLLER"])
    answer = await client.ask(DescribeQuorumRequest(), 2)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await client.close()
    await broker.stop(grace_s=0.1)


async def test_faults_apply_to_clients_of_the_controller() -> None:
    broker = Broker(Settings(listen=ANY_PORT, controller_listen="127.0.0.1:0"))
    await broker.start()
    addresses = broker.bootstrap_by_listener()
    match = {"api": "DescribeQuorum", "listener": "controller", "node": 1}
    rule = parse_rule({"match": match, "action": {"error": "REQUEST_TIMED_OUT"}})
    fault = broker.faults.add(rule)
    codes = {}
    for name in ("PLAINTEXT", "CONTROLLER"):
        client = await Client.to(addresses[name])
        codes[name] = (await client.ask(DescribeQuorumRequest(), 2)).error_code
        await client.close()
    assert codes == {"PLAINTEXT": ErrorCode.NONE, "CONTROLLER": ErrorCode.REQUEST_TIMED_OUT}
    broker.faults.remove(fault.id)
    client = await Client.to(addresses["CONTROLLER"])
    assert (await client.ask(DescribeQuorumRequest(), 2)).error_code == ErrorCode.NONE
    await client.close()
    await broker.stop(grace_s=0.1)


async def test_quotas_apply_to_clients_of_the_controller() -> None:
    clock = ManualClock()
    broker = Broker(Settings(listen=ANY_PORT, controller_listen="127.0.0.1:0"), clock=clock)
    await broker.start()
    assert broker.cluster is not None
    alteration = QuotaAlteration((("client-id", None),), (("controller_mutation_rate", 1.0),))
    broker.cluster.metadata.alter_client_quotas([alteration])
    found = []
    for number, address in enumerate(broker.bootstrap_by_listener().values()):
        topic = CreateTopicsRequest.CreatableTopic(
            name=f"t{number}", num_partitions=12, replication_factor=1
        )
        client = await Client.to(address)
        answer = await client.ask(CreateTopicsRequest(topics=[topic]), 7)
        found.append((answer.topics[0].error_code, answer.throttle_time_ms))
        await client.close()
    assert found == [(ErrorCode.NONE, 0), (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1000)]
    entries = broker.history.about("t1", of=Entity.TOPIC)
    assert [each.kind for each in entries] == ["throttled"]
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
    await broker.stop_node(2)
    assert await client.is_closed()
    await client.close()
    with pytest.raises(ConnectionRefusedError):
        await Client.to(address)
    await broker.start_node(2)
    again = await Client.to(address)
    assert (await again.ask(DescribeClusterRequest(endpoint_type=2), 2)).controller_id == 1
    await again.close()
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


def path_exists(path: str) -> bool:
    return Path(path).exists()


async def test_a_temporary_broker_leaves_nothing(broker: Broker) -> None:
    path = broker.data_directory
    assert path_exists(path)
    assert broker.is_temporary
    await broker.stop()
    assert not path_exists(path)


async def test_a_temporary_broker_does_not_sync_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Temporary data need not survive a loss of power, and syncs take time."""
    synced: list[int] = []
    monkeypatch.setattr("kafkalite.ports.system.sync_data", synced.append)
    monkeypatch.setattr("os.fsync", synced.append)
    broker = Broker(Settings(listen=ANY_PORT, topics={"t": 1}))
    await broker.start()
    await broker.stop(grace_s=0)
    assert synced == []


async def test_topics_and_the_cluster_survive_a_restart(tmp_path: Path) -> None:
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path), topics={"stored": 2})
    cluster_ids = set()
    topic_ids: set[tuple[str, bytes]] = set()
    for _ in range(2):
        broker = Broker(settings)
        await broker.start()
        client = await Client.to(broker.bootstrap_servers)
        metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
        cluster_ids.add(metadata.cluster_id)
        topic_ids.update((each.name, each.topic_id) for each in metadata.topics)
        await client.close()
        await broker.stop()
    assert len(cluster_ids) == 1
    assert [name for name, _ in topic_ids] == ["stored"]


async def until_an_answer_is_pending(broker: Broker) -> None:
    for _ in range(10_000):
        if any(
            each.session.has_pending_answer for node in broker._nodes for each in node.admission
        ):
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


async def test_a_download_of_keys_that_hangs_delays_neither_start_nor_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        prefix = "listener.name.sasl_plaintext.oauthbearer.sasl"
        settings = Settings(
            listen=("SASL_PLAINTEXT://127.0.0.1:0",),
            config={
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{prefix}.server.callback.handler.class": SIGNED_TOKEN_HANDLERS[0],
                f"{prefix}.oauthbearer.jwks.endpoint.url": (
                    f"http://127.0.0.1:{server.getsockname()[1]}/"
                ),
                "sasl.oauthbearer.allow.unverified.audience": "true",
                "sasl.oauthbearer.allow.unverified.issuer": "true",
            },
        )
        output = io.StringIO()
        broker = Broker(settings, Log(Level.INFO, "json", output))
        await broker.start()
        threads = [each for each in threading.enumerate() if each.name == KEYS_THREAD]
        assert len(threads) == 1
        await broker.stop(grace_s=0.1)
        assert threads[0].is_alive()
    threads[0].join()
    assert "the listener expects no audience of signed tokens" in output.getvalue()
    assert "cannot be loaded" not in output.getvalue()


async def test_a_delayed_call_between_nodes_is_dropped_at_the_end() -> None:
    clock = ManualClock()
    broker = Broker(Settings(listen=ANY_PORT), clock=clock)
    await broker.start()
    assert broker.cluster is not None
    broker.faults.add(parse_rule({"action": {"delay_ms": 500}}))
    (node,) = broker.cluster.nodes.values()
    call = InterBrokerCalls(broker.gateway)
    answer = call(node, node, ApiKey.FIND_COORDINATOR, FindCoordinatorRequest())
    await broker.stop()
    clock.advance(500)
    assert not answer.is_resolved
    await broker.start()
    assert broker.faults.states() == []
    await broker.stop()


def settings_with(**settings: Any) -> Settings:  # noqa: ANN401
    return Settings(**{"listen": ANY_PORT, **settings})


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (settings_with(listen=("nowhere",)), AddressError),
        (settings_with(listen=("203.0.113.77:0",)), AddressError),
        (settings_with(config={"no.such.setting": "1"}), ConfigError),
        (settings_with(config={"num.partitions": "many"}), ConfigError),
        (settings_with(config={"node.id": "x"}), SettingsError),
        (settings_with(data_directory="/dev/null/data"), BrokerDirectoryError),
        (settings_with(topics={"bad name": 1}), TopicError),
        (settings_with(topics={"t": 20_000}), TopicError),
    ],
)
async def test_a_failed_start_has_a_reason_in_one_line(
    settings: Settings, kind: type[Exception]
) -> None:
    broker = Broker(settings)
    with pytest.raises(kind) as refusal:
        await broker.start()
    assert str(refusal.value)
    assert "\n" not in str(refusal.value)


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


async def test_data_without_a_metadata_log_is_renamed_and_reported(tmp_path: Path) -> None:
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path), topics={"t": 1})
    broker = Broker(settings)
    await broker.start()
    partitions = broker.cluster.partitions if broker.cluster else None
    assert partitions is not None
    for log in partitions.logs().values():
        log.append([batch(b"value")], leader_epoch=0, now_ms=0)
    await broker.stop()
    (tmp_path / "__cluster_metadata-0" / f"{0:020d}.log").unlink()
    with pytest.raises(BrokerDirectoryError, match=r"missing.* or delete meta\.properties"):
        await Broker(settings).start()
    (tmp_path / "meta.properties").unlink()
    log_output = io.StringIO()
    broker = Broker(settings, Log(Level.INFO, "json", log_output))
    await broker.start()
    await broker.stop()
    lines = [json.loads(line) for line in log_output.getvalue().splitlines()]
    (renamed,) = [line["renamed"] for line in lines if line.get("directory") == "t-0"]
    assert renamed == "t-0.1-stray"
    assert b"value" in (tmp_path / "t-0.1-stray" / f"{0:020d}.log").read_bytes()


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
async def test_an_unreadable_coordinator_log_is_reported(tmp_path: Path, topic: str) -> None:
    """Any client with the id of Kafka's admin client may write to internal topics."""
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path), topics={topic: 3})
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    log = broker.cluster.partitions.logs()[topic, 1]
    keys = [b"\0\1cut short", b"\0\0cut short"]
    log.append([batch(b"value", b"value", keys=keys)], leader_epoch=0, now_ms=0)
    await broker.stop()
    log_output = io.StringIO()
    broker = Broker(settings, Log(Level.INFO, "json", log_output))
    await broker.start()
    assert broker.cluster is not None
    cluster = broker.cluster
    shards = {
        "__consumer_offsets": [shard.partition for shard in cluster.groups.shards()],
        "__transaction_state": [shard.partition for shard in cluster.transactions.shards()],
    }
    assert shards[topic] == [0, 2]
    await broker.stop()
    (line,) = [json.loads(line) for line in log_output.getvalue().splitlines()]
    assert line["partition"] == f"{topic}-1"
    assert "is not a record" in json.dumps(line)


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


@pytest.mark.parametrize(
    ("brokers", "config", "keys"),
    [
        (3, {}, []),
        (2, {"offsets.topic.replication.factor": "2"}, ["transaction", "share"]),
        (1, {}, ["offsets", "transaction", "share"]),
    ],
)
async def test_internal_topics_without_enough_nodes_are_reported_at_the_start(
    brokers: int, config: dict[str, str], keys: list[str]
) -> None:
    log_output = io.StringIO()
    settings = Settings(listen=ANY_PORT, brokers=brokers, config=config, defaults="kafka")
    broker = Broker(settings, Log(Level.INFO, "json", log_output))
    await broker.start()
    await broker.stop()
    lines = [json.loads(line) for line in log_output.getvalue().splitlines()]
    assert [line["key"].partition(".")[0] for line in lines] == keys
    assert all(line["value"] == 3 and line["nodes"] == brokers for line in lines)


async def test_a_missing_decoder_of_pushed_metrics_is_reported_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    events = {}
    for value in ("true", "false"):
        log_output = io.StringIO()
        settings = Settings(listen=ANY_PORT, config={"kafkalite.client.telemetry": value})
        broker = Broker(settings, Log(Level.INFO, "json", log_output))
        await broker.start()
        await broker.stop()
        lines = log_output.getvalue().splitlines()
        events[value] = [json.loads(line)["event"] for line in lines]
    warning = "pushed metrics are not decoded without the extra telemetry: "
    assert events == {"true": [f"{warning}pip install 'kafkalite[telemetry]'"], "false": []}


async def test_an_invalid_setting_is_reported_without_other_warnings() -> None:
    log_output = io.StringIO()
    settings = Settings(listen=ANY_PORT, config={"authorizer.class.name": "com.example.Own"})
    with pytest.raises(ConfigError):
        await Broker(settings, Log(Level.INFO, "json", log_output)).start()
    assert log_output.getvalue() == ""


SASL_LISTENER = ("SASL_PLAINTEXT://127.0.0.1:0",)
PLAIN_REAUTH = "listener.name.sasl_plaintext.plain.connections.max.reauth.ms"


def _set(broker: Broker, key: str, value: str) -> KafkaError | None:
    assert broker.cluster is not None
    resource = ConfigResource(ResourceType.BROKER, "1")
    change = ConfigChange(key, AlterOperation.SET, value)
    return broker.cluster.metadata.alter_configs({resource: [change]})[resource]


async def test_an_invalid_dynamic_setting_of_sasl_is_refused() -> None:
    broker = Broker(settings_with(listen=SASL_LISTENER, users=[User("alice", "secret")]))
    await broker.start()
    error = _set(broker, PLAIN_REAUTH, "abc")
    assert error is not None
    assert error.code is ErrorCode.INVALID_REQUEST
    assert "Invalid value abc" in str(error.message)
    assert _set(broker, PLAIN_REAUTH, "5") is None
    await broker.stop()


async def test_an_invalid_stored_setting_of_sasl_does_not_prevent_a_start(tmp_path: Path) -> None:
    settings = settings_with(
        listen=SASL_LISTENER, users=[User("alice", "secret")], data_directory=str(tmp_path)
    )
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    broker.cluster.config.dynamic_checks.clear()
    assert _set(broker, PLAIN_REAUTH, "abc") is None
    await broker.stop()
    log_output = io.StringIO()
    broker = Broker(settings, Log(Level.ERROR, "json", log_output))
    await broker.start()
    for _ in range(2):
        client = await Client.to(broker.bootstrap_servers)
        await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")
        assert (await client.ask(request, 2)).error_code == 0
        await client.close()
    (line,) = [json.loads(line) for line in log_output.getvalue().splitlines()]
    assert line["event"] == "the former SASL settings remain in use"
    assert "connections.max.reauth.ms" in line["reason"]
    await broker.stop()


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, ConfigError),
        ({PLAIN_REAUTH: "abc"}, ConfigError),
        (
            {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "mallory",
            },
            SettingsError,
        ),
    ],
)
async def test_security_settings_are_checked_before_data_is_written(
    tmp_path: Path, config: dict[str, str], kind: type[Exception]
) -> None:
    settings = settings_with(
        listen=SASL_LISTENER, config=config, topics={"t": 1}, data_directory=str(tmp_path / "data")
    )
    with pytest.raises(kind):
        await Broker(settings).start()
    assert not path_exists(str(tmp_path / "data"))


async def test_an_unknown_user_of_scram_has_the_same_salt_on_all_listeners() -> None:
    settings = settings_with(
        listen=("SASL_PLAINTEXT://127.0.0.1:0", "INTERNAL://127.0.0.1:0"),
        config={"listener.security.protocol.map": (
            "SASL_PLAINTEXT:SASL_PLAINTEXT,INTERNAL:SASL_PLAINTEXT"
        )},
        brokers=2,
    )  # fmt: skip
    broker = Broker(settings)
    await broker.start()
    salts = []
    for servers in broker.bootstrap_by_listener().values():
        for address in servers.split(","):
            client = await Client.to(address)
            await client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            first = SaslAuthenticateRequest(auth_bytes=b"n,,n=mallory,r=abc")
            answer = bytes((await client.ask(first, 2)).auth_bytes).decode()
            salts.append(answer.split(",", 1)[1])
            await client.close()
    assert len(salts) == 4
    assert len(set(salts)) == 1
    await broker.stop()


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


async def test_a_topic_with_another_number_of_partitions_is_reported(tmp_path: Path) -> None:
    directory = str(tmp_path)
    broker = Broker(Settings(listen=ANY_PORT, data_directory=directory, topics={"t": 2}))
    await broker.start()
    await broker.stop()
    with pytest.raises(TopicError, match="t exists with 2 partitions"):
        await Broker(Settings(listen=ANY_PORT, data_directory=directory, topics={"t": 3})).start()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


# Added and removed nodes


async def test_an_added_node_has_the_port_after_the_last_one_also_after_a_restart(
    tmp_path: Path,
) -> None:
    port = free_port(4)
    settings = Settings(listen=(f"127.0.0.1:{port}",), brokers=2, data_directory=str(tmp_path))
    for start in range(2):
        broker = Broker(settings)
        await broker.start()
        if start == 0:
            assert await broker.add_node() == 3
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
        assert await broker.add_node() == 2
    assert broker.bootstrap_servers == f"127.0.0.1:{port},127.0.0.1:{port + 2}"
    assert await broker.add_node(2_000_000) == 2_000_000
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
        assert await broker.add_node() == 3
    # It is registered again with the same ports.
    await broker.stop_node(3)
    await broker.start_node(3)
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
    await broker.add_node()
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
            await broker.remove_node(1)
        assert broker.bootstrap_servers == f"127.0.0.1:{port + 1}"
        socket.create_server(("127.0.0.1", port)).close()
        await broker.stop(grace_s=0.1)
    broker = Broker(settings._replace(brokers=1))
    with pytest.raises(BrokerDirectoryError, match=r": all nodes \(1\) were removed from the"):
        await broker.start()
    broker = Broker(settings)
    await broker.start()
    await broker.stop(grace_s=0.1)


def files_in(directory: Path) -> dict[str, bytes]:
    """Return the files of a data directory: path → bytes."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_a_release_that_does_not_support_a_level_leaves_the_directory_as_it_was(
    tmp_path: Path,
) -> None:
    settings = Settings(listen=ANY_PORT, data_directory=str(tmp_path))
    broker = Broker(settings)
    await broker.start()
    await broker.stop(grace_s=0.1)
    before = files_in(tmp_path)
    text = (
        r"^cannot use .*: metadata\.version is at level 33, but Kafka 4\.1 has levels 7 to 27, and"
    )
    with pytest.raises(BrokerDirectoryError, match=text):
        await Broker(settings._replace(as_version="4.1")).start()
    assert files_in(tmp_path) == before
    broker = Broker(settings)
    await broker.start()
    assert broker.cluster is not None
    assert broker.cluster.metadata.image.features["metadata.version"] == 33
    await broker.stop(grace_s=0.1)


async def test_changes_of_nodes_are_logged(tmp_path: Path) -> None:
    log_output = io.StringIO()
    settings = Settings(listen=ANY_PORT, brokers=2, data_directory=str(tmp_path))
    broker = Broker(settings, Log(Level.INFO, "json", log_output))
    await broker.start()
    assert broker.cluster is not None
    broker.cluster.metadata.unregister_broker(2)
    await broker.start_node(2)
    await broker.add_node()
    await broker.stop_node(3, controlled=True)
    await broker.remove_node(3)
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


async def test_a_removed_node_is_forgotten_by_the_authorizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgotten: list[int] = []
    forget_node = AuthorizationStep.forget_node

    def forget(self: AuthorizationStep, node_id: int) -> None:
        forgotten.append(node_id)
        forget_node(self, node_id)

    monkeypatch.setattr(AuthorizationStep, "forget_node", forget)
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    broker = Broker(Settings(listen=ANY_PORT, brokers=2, config={"authorizer.class.name": name}))
    await broker.start()
    await broker.remove_node(2)
    assert forgotten == [2]
    await broker.stop(grace_s=0.1)


async def test_a_node_that_cannot_be_added_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(Settings(listen=ANY_PORT))
    await broker.start()
    before = broker.bootstrap_servers
    with monkeypatch.context() as patch:
        patch.setattr(MetadataController, "register_broker", _refuse_to_write)
        with pytest.raises(KafkaError):
            await broker.add_node()
    with pytest.raises(ConfigError):
        await broker.add_node(settings={"broker.rack": "b", "log.dirs": "/x"})
    assert broker.bootstrap_servers == before
    assert broker.cluster is not None
    assert list(broker.cluster.nodes) == [1]
    await broker.add_node()
    await broker.remove_node(2)
    assert broker.bootstrap_servers == before
    await broker.stop(grace_s=0.1)


async def test_a_node_serves_no_client_before_it_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2))
    await broker.start()
    await broker.stop_node(2)
    states: list[NodeState] = []
    serve = Broker._serve_node

    async def observe(self: Broker, served: ServedNode) -> None:
        states.append(served.node.state)
        await serve(self, served)

    monkeypatch.setattr(Broker, "_serve_node", observe)
    await broker.start_node(2)
    await broker.add_node()
    assert states == [NodeState.RUNNING, NodeState.RUNNING]
    await broker.stop(grace_s=0.1)


async def test_a_removal_waits_for_the_start_of_the_node() -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2))
    await broker.start()
    await broker.stop_node(2)
    await asyncio.gather(broker.start_node(2), broker.remove_node(2))
    assert broker.cluster is not None
    assert list(broker.cluster.nodes) == [1]
    assert len(broker.bootstrap_servers.split(",")) == 1
    with pytest.raises(UnknownNodeError):
        await broker.start_node(2)
    await broker.stop(grace_s=0.1)


async def test_an_isolation_is_logged_once() -> None:
    log_output = io.StringIO()
    broker = Broker(Settings(listen=ANY_PORT, brokers=2), Log(Level.INFO, "json", log_output))
    await broker.start()
    broker.isolate_node(2)
    broker.isolate_node(2)
    await broker.stop(grace_s=0.1)
    lines = map(json.loads, log_output.getvalue().splitlines())
    assert [each["node"] for each in lines if each["event"] == "isolated a node"] == [2]


async def test_an_isolated_node_is_removed() -> None:
    broker = Broker(Settings(listen=ANY_PORT, brokers=2))
    await broker.start()
    assert broker.cluster is not None
    broker.isolate_node(2)
    await broker.remove_node(2)
    assert list(broker.cluster.nodes) == [1]
    await broker.stop(grace_s=0.1)


async def test_requests_are_logged_while_the_level_is_debug() -> None:
    output = io.StringIO()
    broker = Broker(Settings(listen=("127.0.0.1:0",)), Log(Level.INFO, "json", output))
    await broker.start()
    client = await Client.to(broker.bootstrap_servers)
    assert broker.cluster is not None
    levels = broker.cluster.config.log_levels
    for level in ("INFO", "DEBUG", "INFO"):
        levels.set("root", level)
        await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    await client.close()
    await broker.stop()
    events = [json.loads(line)["event"] for line in output.getvalue().splitlines()]
    assert events.count("request") == 1
