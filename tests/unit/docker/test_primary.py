"""The primary: containers that join, leave, are silent or are refused, and topics."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kafkalite import __version__
from kafkalite.cluster.node import NodeState
from kafkalite.docker import primary as primary_module
from kafkalite.docker import relay as relay_module
from kafkalite.docker.cluster_messages import (
    Challenge,
    FirstLine,
    Greeting,
    RequestedTopic,
    Sign,
    line_of,
    proof_of,
)
from kafkalite.docker.membership import Membership
from kafkalite.docker.primary import FirstBroker, Primary
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.security.certificates import CertificateAuthority
from kafkalite.server.addresses import Address
from kafkalite.server.listener import bind
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.oracle.target import free_port
from tests.unit.docker.joined_cluster import HOST, JoinedCluster, RelayedNode, until
from tests.unit.server.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

GREETING = Greeting(__version__, "")


@pytest.fixture
async def cluster() -> AsyncIterator[JoinedCluster]:
    joined = JoinedCluster(
        topics=[
            RequestedTopic("orders", 3, 3, {"cleanup.policy": "compact", "retention.ms": "60000"})
        ]
    )
    await joined.start()
    yield joined
    await joined.close()


def states(joined: JoinedCluster) -> dict[int, NodeState]:
    assert joined.broker.cluster is not None
    return {node_id: node.state for node_id, node in joined.broker.cluster.nodes.items()}


async def test_nodes_of_other_containers_take_part(cluster: JoinedCluster) -> None:
    for node_id in (3, 2):
        await cluster.join(node_id)
    assert states(cluster) == dict.fromkeys((1, 2, 3), NodeState.RUNNING)
    assert cluster.broker.cluster is not None
    image = cluster.broker.cluster.metadata.image
    assert [len(each.replicas) for each in image.topics["orders"].partitions] == [3, 3, 3]
    configs = image.topic_config("orders")
    assert configs == {"cleanup.policy": "compact", "retention.ms": "60000"}


async def test_topic_is_created_when_there_are_enough_nodes(cluster: JoinedCluster) -> None:
    assert cluster.broker.cluster is not None
    await cluster.join(2)
    assert "orders" not in cluster.broker.cluster.metadata.image.topics
    await cluster.join(3, topics=(RequestedTopic("own", 1, 2), RequestedTopic("a b", 1)))
    assert {"orders", "own"} == cluster.broker.cluster.metadata.image.topics.keys()


async def test_stopped_container_is_a_stopped_node_that_comes_back(cluster: JoinedCluster) -> None:
    registration = cluster.registration(2)
    first = await cluster.relay(registration).ready()
    assert await first.stop() == 0
    assert states(cluster)[2] is NodeState.STOPPED
    await cluster.relay(registration).ready()
    assert states(cluster)[2] is NodeState.RUNNING


async def test_killed_container_is_a_stopped_node(cluster: JoinedCluster) -> None:
    relay = await cluster.join(2)
    await relay.kill()
    await until(lambda: states(cluster)[2] is NodeState.STOPPED)


async def test_silent_container_is_an_isolated_node(
    cluster: JoinedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = await cluster.join(2)
    monkeypatch.setattr(primary_module, "MAX_SILENCE_S", -1.0)
    await until(lambda: states(cluster)[2] is NodeState.ISOLATED)
    monkeypatch.undo()
    await until(lambda: states(cluster)[2] is NodeState.RUNNING)
    monkeypatch.setattr(primary_module, "MAX_SILENCE_S", -1.0)
    await until(lambda: states(cluster)[2] is NodeState.ISOLATED)
    await relay.kill()
    await until(lambda: states(cluster)[2] is NodeState.STOPPED)


async def refusal_of(relay: RelayedNode) -> str:
    assert await relay.run == 2
    (line,) = relay.lines
    return line


async def test_container_that_does_not_belong_to_the_cluster_is_refused(
    cluster: JoinedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = cluster.relay(cluster.registration(2, cluster_id="5L6g3nShT-eMCtK--X86sw"))
    assert "refuses this container: its cluster id is 5L6g3nShT" in await refusal_of(refused)
    refused = cluster.relay(cluster.registration(1))
    assert await refusal_of(refused) == f"{HOST} refuses this container: node 1 is taken by {HOST}"
    await cluster.join(2)
    refused = cluster.relay(cluster.registration(2))
    assert "node 2 is taken by kafka-2" in await refusal_of(refused)
    refused = cluster.relay(cluster.registration(3), secret="other")  # noqa: S106 - of a test
    assert "another KAFKALITE_CLUSTER_SECRET" in await refusal_of(refused)
    refused = cluster.relay(cluster.registration(3, listen=(f"OTHER://{HOST}:1",), advertise=()))
    assert "the cluster has no listener OTHER: its listeners are PLAINTEXT" in (
        await refusal_of(refused)
    )
    listeners = {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT"}
    refused = cluster.relay(cluster.registration(3, config=listeners))
    assert "has the security protocol PLAINTEXT, not SASL_PLAINTEXT" in await refusal_of(refused)
    monkeypatch.setattr(primary_module, "__version__", "0.0.1")
    refused = cluster.relay(cluster.registration(3))
    assert "the primary 0.0.1" in await refusal_of(refused)


async def test_settings_that_differ_are_named(cluster: JoinedCluster) -> None:
    config = {
        "group.version": "1",
        "log.retention.hours": "7",
        "group.max.size": "7",
        "broker.rack": "b",
        "node.id": "2",
    }
    relay = await cluster.join(2, config=config)
    assert relay.admissions[0].without_effect == ("group.version",)
    assert cluster.broker.cluster is not None
    assert cluster.broker.cluster.config.node_int(2, "log.retention.hours") == 7
    assert cluster.broker.cluster.nodes[2].rack == "b"


async def test_controller_joins_without_a_node(cluster: JoinedCluster) -> None:
    relay = await cluster.join(9, is_broker=False, listen=(), advertise=())
    assert states(cluster).keys() == {1}
    assert await relay.stop() == 0


async def test_clients_of_the_controller_are_served_in_each_container() -> None:
    cluster = JoinedCluster()
    advertised = f"{HOST}:{free_port()}"
    await cluster.start(
        Settings(listen=(f"{HOST}:0",), expected_brokers=3, controller_advertise=advertised),
        controllers=advertised,
    )
    await cluster.join(3)
    own = f"CONTROLLER://{HOST}:{free_port()}"
    await cluster.join(9, is_broker=False, listen=(own,), advertise=(own,))
    for address in (advertised, own.partition("://")[2]):
        client = await Client.to(address)
        described = await client.ask(DescribeClusterRequest(endpoint_type=2), 1)
        assert [f"{each.host}:{each.port}" for each in described.brokers] == [advertised]
        await client.close()
    await cluster.broker.nodes.stop(1)
    client = await Client.to(advertised)
    described = await client.ask(DescribeClusterRequest(endpoint_type=2), 1)
    assert [each.broker_id for each in described.brokers] == [3]
    await cluster.broker.nodes.stop(3)
    assert await client.is_closed()
    await client.close()
    client = await Client.to(advertised)
    assert await client.is_closed()
    await client.close()
    await cluster.close()


async def test_clients_of_a_secured_controller_log_in_at_each_container() -> None:
    cluster = JoinedCluster()
    advertised = f"{HOST}:{free_port()}"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f'{module} user_alice="pw";',
    }
    await cluster.start(
        Settings(listen=(f"{HOST}:0",), config=config, controller_advertise=advertised),
        controllers=advertised,
    )
    own = f"CONTROLLER://{HOST}:{free_port()}"
    await cluster.join(9, is_broker=False, listen=(own,), advertise=(own,))
    for address in (advertised, own.partition("://")[2]):
        client = await Client.to(address)
        await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        wrong = await client.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0no"), 2)
        assert wrong.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        await client.close()
        client = await Client.to(address)
        await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        await client.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0pw"), 2)
        described = await client.ask(DescribeClusterRequest(endpoint_type=2), 1)
        assert [f"{each.host}:{each.port}" for each in described.brokers] == [advertised]
        await client.close()
    await cluster.close()


async def test_nodes_of_stored_data_are_stopped_until_their_containers_join(
    tmp_path: Path,
) -> None:
    cluster = JoinedCluster(topics=[RequestedTopic("orders", 3, 2)])
    settings = Settings(listen=(f"{HOST}:0",), data_directory=str(tmp_path))
    await cluster.start(settings)
    relay = await cluster.join(2)
    await cluster.close_primary()
    await cluster.start(settings)
    assert states(cluster) == {1: NodeState.RUNNING, 2: NodeState.STOPPED}
    await relay.ready()
    assert states(cluster) == dict.fromkeys((1, 2), NodeState.RUNNING)
    assert cluster.broker.cluster is not None
    topic = cluster.broker.cluster.metadata.image.topics["orders"]
    assert {each.isr for each in topic.partitions} <= {(1, 2), (2, 1)}
    await cluster.close()


def key_store(directory: Path, authority: CertificateAuthority, name: str) -> dict[str, str]:
    issued = authority.issue(name, [name])
    path = directory / f"{name}.pem"
    path.write_bytes(authority.chain_pem(issued))
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}


async def test_node_has_the_certificate_of_its_container(tmp_path: Path) -> None:
    authority = CertificateAuthority.create()
    listeners = (f"SSL://{HOST}:0",)
    cluster = JoinedCluster()
    first = key_store(tmp_path, authority, "kafka-1")
    await cluster.start(Settings(listen=listeners, config=first))
    own = f"SSL://{HOST}:{free_port()}"
    second = key_store(tmp_path, authority, "kafka-2")
    relay = await cluster.join(2, listen=(own,), advertise=(own,), config=second)
    assert relay.admissions[0].without_effect == ()
    other = f"SSL://{HOST}:{free_port()}"
    relays = [relay, await cluster.join(3, listen=(other,), advertise=(other,), config=first)]
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    for each, name in zip(relays, ("kafka-2", "kafka-1"), strict=True):
        _, port = each.address.split(":")
        _, writer = await asyncio.open_connection(
            HOST, int(port), ssl=trusting, server_hostname=name
        )
        writer.close()
        await writer.wait_closed()
    missing = {**second, "ssl.keystore.location": "/no/such/file"}
    refused = cluster.relay(
        cluster.registration(4, listen=(own,), advertise=(own,), config=missing)
    )
    line = await refusal_of(refused)
    assert "/no/such/file" in line
    assert line.endswith(f"{HOST} needs the files of its key stores, too")
    await cluster.close()


@pytest.mark.parametrize(
    "line", [b"GET / HTTP/1.1\r\n", line_of(Sign()), b'{"introduction": {}}\n', b"\x00" * 2**21]
)
async def test_other_clients_of_the_port_are_disconnected(
    cluster: JoinedCluster, line: bytes
) -> None:
    reader, writer = await asyncio.open_connection(HOST, cluster.membership.port)
    writer.write(line)
    try:
        answer = await reader.read()
    except ConnectionResetError:
        answer = b""
    assert answer == b"" or json.loads(answer)["refused"]
    writer.close()


HOSTILE = (
    b"",
    b"{",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the first bytes of TLS
    b"\x00\x00\x00\x12\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04test\x00",  # ApiVersions
    line_of(FirstLine(greeting=GREETING)),
    line_of(FirstLine(greeting=GREETING)) + b'{"proof": "' + b"x" * 60_000,
)
"""What programs that are no containers of the cluster send, before they wait."""


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection, which the other side may have reset."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def test_forgotten_connections_are_limited_and_others_are_served(
    cluster: JoinedCluster,
) -> None:
    relay = await cluster.join(2)
    client = await Client.to(relay.address)
    limit = primary_module._MAX_UNKNOWN
    opened = []
    for number in range(2 * limit):
        reader, writer = await asyncio.open_connection(HOST, cluster.membership.port)
        writer.write(HOSTILE[number % len(HOSTILE)])
        opened.append((reader, writer))
    gates = cluster._primary._gates
    await until(lambda: len(gates._unknown) == limit)
    for reader, _ in opened[:limit]:
        with suppress(ConnectionResetError):
            await reader.read()
        assert reader.at_eof() or reader.exception() is not None
    await cluster.join(3)
    await client.ask(DescribeClusterRequest(), 1)
    await client.close()
    assert states(cluster) == dict.fromkeys((1, 2, 3), NodeState.RUNNING)
    for _, writer in opened:
        await closed(writer)
    await until(lambda: not gates._unknown)


async def test_first_line_in_single_bytes_is_handled_and_a_long_one_disconnected(
    cluster: JoinedCluster,
) -> None:
    reader, writer = await asyncio.open_connection(HOST, cluster.membership.port)
    for byte in line_of(FirstLine(greeting=GREETING)):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0)
    line = await reader.readuntil()
    other, hostile = await asyncio.open_connection(HOST, cluster.membership.port)
    hostile.write(b"x" * (primary_module._MAX_FIRST_LINE_BYTES + 1))
    with suppress(ConnectionResetError):
        assert await other.read() == b""
    await closed(hostile)
    writer.write(proven(line))
    assert "token" in json.loads(await reader.readuntil())
    await closed(writer)


async def test_silent_connection_is_closed(
    cluster: JoinedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primary_module, "_FIRST_LINE_TIMEOUT_S", 0.0)
    reader, writer = await asyncio.open_connection(HOST, cluster.membership.port)
    with suppress(ConnectionResetError):
        assert await reader.read() == b""
    await closed(writer)
    assert not cluster._primary._gates._unknown


async def test_proof_that_is_no_text_is_refused(cluster: JoinedCluster) -> None:
    reader, writer = await asyncio.open_connection(HOST, cluster.membership.port)
    writer.write(line_of(FirstLine(greeting=GREETING)))
    application = json.loads(proven(await reader.readuntil()))
    writer.write(json.dumps({**application, "proof": "\ud800"}).encode() + b"\n")
    assert json.loads(await reader.read())["refused"]
    await closed(writer)


async def test_number_of_nodes_is_limited(
    cluster: JoinedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primary_module, "_MAX_NODES", 2)
    registration = cluster.registration(2)
    relay = await cluster.relay(registration).ready()
    answer = await answer_to(cluster, node_id=3)
    assert answer["refused"] == "the cluster has 2 nodes, the most that it can have"
    await relay.stop()
    await cluster.relay(registration).ready()


def proven(line: bytes, **changes: object) -> bytes:
    """Return an application of node 4, or of another one, as the answer to a challenge."""
    proof = proof_of("", GREETING, Challenge(json.loads(line)["nonce"]))
    registration: dict[str, object] = {
        "node_id": 4, "host": "kafka-4", "is_broker": True, "config": {},
        "listen": [f"{HOST}:1"], "advertise": [f"{HOST}:1"],
    }  # fmt: skip
    return line_of({"proof": proof, "registration": {**registration, **changes}})


async def answer_to(joined: JoinedCluster, **changes: object) -> dict[str, object]:
    """Return the answer to an application with these changes."""
    reader, writer = await asyncio.open_connection(HOST, joined.membership.port)
    writer.write(line_of(FirstLine(greeting=GREETING)))
    writer.write(proven(await reader.readuntil(), **changes))
    answer: dict[str, object] = json.loads(await reader.readuntil())
    writer.close()
    return answer


async def test_node_that_the_metadata_cannot_contain_is_refused(cluster: JoinedCluster) -> None:
    answer = await answer_to(cluster, advertise=[f"{'h' * 70_000}:1"])
    assert answer["refused"] == "a string of 70000 bytes"
    assert states(cluster).keys() == {1}
    assert "token" in await answer_to(cluster)


async def test_bug_is_answered(cluster: JoinedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Primary, "_check", lambda *_: 1 // 0)
    answer = await answer_to(cluster)
    assert answer["refused"] == "the primary failed: its log has the reason"


@pytest.mark.parametrize(
    "first", [b"{}\n", b'{"introduction":{"token":"TOKEN","listener":"x","host":"h","port":1}}\nx']
)
async def test_first_line_without_a_field_or_with_more_bytes_is_refused(
    cluster: JoinedCluster, first: bytes
) -> None:
    relay = await cluster.join(2)
    reader, writer = await asyncio.open_connection(HOST, cluster.membership.port)
    writer.write(first.replace(b"TOKEN", relay.admissions[0].token.encode()))
    assert json.loads(await reader.read())["refused"]
    writer.close()


async def test_refusals_are_logged_without_control_characters(
    cluster: JoinedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.broker.log.level = Level.WARNING
    reader, writer = await asyncio.open_connection(HOST, cluster.membership.port)
    writer.write(line_of({"greeting": {"version": "\x1b[2J\n" + "1" * 10_000, "nonce": ""}}))
    assert json.loads(await reader.read())["refused"]
    writer.close()
    (line,) = capsys.readouterr().err.splitlines()
    assert "\\x1b[2J\\n1" in line.replace("\\\\", "\\")
    assert len(line) < 1_000


@pytest.mark.parametrize("is_broker", [True, False])
async def test_silent_container_is_replaced_and_disconnected(
    cluster: JoinedCluster, monkeypatch: pytest.MonkeyPatch, *, is_broker: bool
) -> None:
    addresses = {} if is_broker else {"listen": (), "advertise": ()}
    registration = cluster.registration(2, is_broker=is_broker, **addresses)
    monkeypatch.setattr(relay_module, "SIGN_INTERVAL_S", 60.0)
    first = await cluster.relay(registration).ready()
    address = f"{HOST}:{free_port()}"
    changes: dict[str, object] = {"listen": [address], "advertise": [address]}
    monkeypatch.setattr(primary_module, "SIGN_INTERVAL_S", 0.0)
    answer = await answer_to(cluster, node_id=2, is_broker=is_broker, **changes)
    assert answer == {"refused": "node 2 is taken by kafka-2", "is_temporary": True}
    monkeypatch.setattr(primary_module, "SIGN_INTERVAL_S", 0.01)
    monkeypatch.setattr(primary_module, "MAX_SILENCE_S", -1.0)
    (member,) = cluster._primary._members.values()
    await until(lambda: member.is_isolated)
    answer = await answer_to(cluster, node_id=2, is_broker=is_broker, **changes)
    assert "token" in answer
    await until(lambda: any("the cluster has ended" in line for line in first.lines))


async def test_topic_is_requested_once(cluster: JoinedCluster) -> None:
    registration = cluster.registration(2, topics=(RequestedTopic("own", 1, 9),))
    for _ in range(3):
        relay = await cluster.relay(registration).ready()
        await relay.stop()
    assert [each.name for each in cluster._primary._topics] == ["orders", "own"]


async def test_primary_without_a_broker_waits_for_the_first_one() -> None:
    membership = Membership(HOST, free_port(), True, "VOTERS", 1, 3)
    first = FirstBroker(membership, Log(Level.ERROR), None, 4)
    bound = bind(Address(HOST, membership.port))
    waiting = asyncio.ensure_future(first.wait(bound, asyncio.Event()))
    other = JoinedCluster()
    other.membership = membership
    relays = [
        other.relay(other.registration(2, is_broker=False, listen=(), advertise=())),
        other.relay(other.registration(5)),
        other.relay(other.registration(4)),
    ]
    registration = await waiting
    assert registration is not None
    assert registration.node_id == 4
    assert [relay.lines for relay in relays] == [[], [], []]
    for relay in relays:
        await relay.kill()
    for each in bound:
        each.close()


async def test_primary_without_a_broker_can_be_stopped() -> None:
    membership = Membership(HOST, free_port(), True, "VOTERS", 1, 3)
    stop = asyncio.Event()
    stop.set()
    first = FirstBroker(membership, Log(Level.ERROR), None, None)
    assert await first.wait((), stop) is None
