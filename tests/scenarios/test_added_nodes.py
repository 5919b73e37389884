"""Nodes that are added and removed while clients are connected, over the wire."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.unregister_broker import UnregisterBrokerRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.cluster.served import TOPIC, ServedCluster
from tests.conformance.raw import ConnectionClosedError, RawClient
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BROKER = 4
"""Resource type of DescribeConfigs."""


@pytest.fixture
def cluster() -> Iterator[ServedCluster]:
    with ServedCluster() as running:
        yield running


def described(cluster: ServedCluster, node: int = 1) -> dict[int, tuple[int, str | None]]:
    """Return port and rack of each node in a DescribeCluster response."""
    answer = cluster.client(node).call(DescribeClusterRequest(), 0)
    return {each.broker_id: (each.port, each.rack) for each in answer.brokers}


def reassign(cluster: ServedCluster, *replicas: int, node: int = 1) -> None:
    """Move the replicas of the partition to these nodes; the first one is preferred."""
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition(
        partition_index=0, replicas=list(replicas)
    )
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name=TOPIC, partitions=[partition])
    request = AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=1_000)
    answer = cluster.client(node).call(request, 0)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


def test_clients_find_an_added_node_that_has_no_partitions(cluster: ServedCluster) -> None:
    cluster.broker.nodes.add(config={"broker.rack": "b"})
    for node in (1, 2, 3, 4):
        found = described(cluster, node)
        assert sorted(found) == [1, 2, 3, 4]
        assert found[4] == (cluster.port(4), "b")
        listed = {
            each.node_id: (each.port, each.rack) for each in cluster.metadata(node=node).brokers
        }
        assert listed == found
    assert cluster.leadership(node=4) == (1, 0, {1, 2, 3})
    assert cluster.produce(b"a", node=4).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.create("u", (4, 2))
    assert cluster.leadership("u", node=4) == (4, 0, {4, 2})


def test_the_settings_of_an_added_node_are_described(cluster: ServedCluster) -> None:
    cluster.broker.nodes.add(config={"broker.rack": "b", "replica.lag.time.max.ms": 5_000})
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER, resource_name="4", configuration_keys=None
    )
    answer = cluster.client(4).call(DescribeConfigsRequest(resources=[resource]), 4)
    values = {each.name: each.value for each in answer.results[0].configs}
    assert values["broker.rack"] == "b"
    assert values["replica.lag.time.max.ms"] == "5000"
    assert values["node.id"] == "4"
    assert values["listeners"] == f"PLAINTEXT://127.0.0.1:{cluster.port(4)}"


def test_new_topics_use_an_added_node(cluster: ServedCluster) -> None:
    cluster.broker.nodes.add()
    topic = CreateTopicsRequest.CreatableTopic(name="u", num_partitions=4, replication_factor=4)
    answer = cluster.client(1).call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
    assert answer.topics[0].error_code == ErrorCode.NONE
    assert {cluster.leadership("u", index).leader for index in range(4)} == {1, 2, 3, 4}


def test_a_node_is_replaced_without_loss(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    cluster.broker.nodes.add()
    reassign(cluster, 4, 2, 3)
    leader = cluster.leadership(node=2).leader
    assert leader != 1
    assert cluster.append(b"b", node=leader) == 1
    waiting = cluster.connect(1)
    port = cluster.port(1)
    cluster.broker.nodes[1].remove()
    with pytest.raises(ConnectionClosedError):
        waiting.receive_frame()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 10)
    assert sorted(described(cluster, 2)) == [2, 3, 4]
    cluster.broker.move_leader(TOPIC, 0, 4)
    assert cluster.values(node=4) == [b"a", b"b"]
    assert cluster.append(b"c", node=4) == 2


def test_a_node_with_replicas_is_not_removed(cluster: ServedCluster) -> None:
    with pytest.raises(
        ValueError,
        match=r"^node 2 cannot be removed: it has replicas of 1 partition, such as t-0: reassign "
        r"them to other nodes first$",
    ):
        cluster.broker.nodes[2].remove()
    assert cluster.leadership() == (1, 0, {1, 2, 3})
    assert cluster.metadata(node=2).brokers


def test_an_unregistered_node_is_reported_until_it_is_started_again(cluster: ServedCluster) -> None:
    """As in Kafka, the API unregisters a running node with replicas."""
    node = cluster.broker.nodes[2]
    answer = cluster.client(1).call(UnregisterBrokerRequest(broker_id=2), 0)
    assert answer.error_code == ErrorCode.NONE
    assert (node.state, node.is_registered) == ("running", False)
    assert sorted(described(cluster)) == [1, 3]
    assert cluster.leadership() == (1, 0, {1, 3})
    node.start()
    assert (node.state, node.is_registered) == ("running", True)
    assert cluster.leadership() == (1, 0, {1, 2, 3})


def test_added_and_removed_nodes_survive_a_restart(tmp_path: Path) -> None:
    with ServedCluster(data_directory=tmp_path) as cluster:
        cluster.broker.nodes.add(config={"broker.rack": "b"})
        cluster.broker.nodes.add(9)
        reassign(cluster, 4, 2, 3)
        cluster.broker.nodes[1].remove()
        leader = cluster.leadership(node=2).leader
        cluster.append(b"a", node=leader)
    with Broker(brokers=3, data_directory=tmp_path) as again:
        assert list(again.nodes) == [2, 3, 4, 9]
        assert [node.state for node in again.nodes.values()] == ["running"] * 4
        assert len(again.bootstrap_servers.split(",")) == 4
        again.nodes[9].remove()
        again.nodes.add(1)
    with Broker(data_directory=tmp_path) as alone:
        assert list(alone.nodes) == [1, 4]


def test_nodes_have_the_same_addresses_after_a_restart_with_a_control_api(tmp_path: Path) -> None:
    """The second start would give the port of the control API to the third added node."""
    port = free_port(7)

    def start() -> Broker:
        return Broker(
            brokers=3, port=port, control=f"127.0.0.1:{port + 5}", data_directory=tmp_path
        )

    with start() as broker:
        for _ in range(3):
            broker.nodes.add()
        before = {node.id: node.bootstrap_servers for node in broker.nodes.values()}
        ports = [int(address.rpartition(":")[2]) for address in before.values()]
        assert ports == [port, port + 1, port + 2, port + 3, port + 4, port + 6]
    with start() as broker:
        assert {node.id: node.bootstrap_servers for node in broker.nodes.values()} == before
        assert broker.control_url == f"http://127.0.0.1:{port + 5}"
        with closing(RawClient(port + 6, 10)) as client:
            answer = client.call(DescribeClusterRequest(), 0)
        assert [each.port for each in answer.brokers] == ports
