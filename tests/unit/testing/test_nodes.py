"""The nodes of a broker under test, controlled from the test's own thread."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def broker() -> Iterator[Broker]:
    config = {"default.replication.factor": 3}
    with Broker(brokers=3, topics={"t": 1}, clock="manual", config=config) as running:
        yield running


def test_nodes_are_a_mapping_by_id(broker: Broker) -> None:
    assert list(broker.nodes) == [1, 2, 3]
    assert len(broker.nodes) == 3
    assert [node.id for node in broker.nodes.values()] == [1, 2, 3]
    assert 4 not in broker.nodes
    assert repr(broker.nodes) == "<nodes 1, 2, 3>"
    assert repr(broker.nodes[2]) == "<node 2>"
    with pytest.raises(KeyError, match="there is no node 4: the nodes are 1, 2, 3"):
        broker.nodes[4]
    with pytest.raises(KeyError, match="there is no node '2': the nodes are 1, 2, 3"):
        broker.nodes["2"]  # type: ignore[index]


def test_every_node_has_an_address(broker: Broker) -> None:
    addresses = [node.bootstrap_servers for node in broker.nodes.values()]
    assert ",".join(addresses) == broker.bootstrap_servers


def test_a_node_stops_and_starts(broker: Broker) -> None:
    node = broker.nodes[2]
    host, port = node.bootstrap_servers.split(":")
    assert (node.state, node.metadata, node.replication) == ("running", "live", "running")
    node.stop()
    assert (node.state, node.metadata, node.led_partitions) == ("stopped", "stale", 0)
    assert node.bootstrap_servers == f"{host}:{port}"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 10)
    node.start()
    assert (node.state, node.metadata) == ("running", "live")
    socket.create_connection((host, int(port)), 10).close()


def test_a_node_is_isolated(broker: Broker) -> None:
    node = broker.nodes[2]
    node.isolate()
    assert (node.state, node.metadata) == ("isolated", "live")
    broker.clock.advance(seconds=9)
    assert (node.state, node.metadata) == ("isolated", "stale")
    node.start()
    assert (node.state, node.metadata) == ("running", "live")


def test_metadata_freezes_and_replication_pauses(broker: Broker) -> None:
    node = broker.nodes[2]
    node.freeze_metadata()
    node.pause_replication()
    assert (node.state, node.metadata, node.replication) == ("running", "frozen", "paused")
    node.thaw_metadata()
    node.resume_replication()
    assert (node.state, node.metadata, node.replication) == ("running", "live", "running")


def test_a_leader_is_moved(broker: Broker) -> None:
    (leader,) = (node.id for node in broker.nodes.values() if node.led_partitions)
    target = leader % 3 + 1
    moved = broker.move_leader("t", 0, target)
    assert (moved.topic, moved.partition, moved.leader) == ("t", 0, target)
    assert (moved.leader_epoch, moved.truncated_records) == (1, 0)
    assert broker.nodes[target].led_partitions == 1
    assert broker.move_leader("t", 0, target) == moved
    with pytest.raises(ValueError, match=r"^INVALID_REPLICA_ASSIGNMENT: Node 4 has no replica "):
        broker.move_leader("t", 0, 4)


def test_an_impossible_change_is_refused(broker: Broker) -> None:
    broker.nodes[1].stop()
    broker.nodes[2].stop()
    with pytest.raises(ValueError, match=r"^node 3 cannot be isolated: no other node is running$"):
        broker.nodes[3].isolate()


def test_a_restarted_broker_has_only_running_nodes() -> None:
    broker = Broker(brokers=2)
    with broker:
        broker.nodes[2].stop()
    with pytest.raises(RuntimeError, match="not running"):
        broker.nodes[2]
    with broker:
        assert broker.nodes[2].state == "running"


def test_one_node_stops_and_starts_and_is_not_isolated() -> None:
    with Broker() as broker:
        with pytest.raises(ValueError, match="no other node is running"):
            broker.nodes[1].isolate()
        broker.nodes[1].stop()
        assert broker.nodes[1].state == "stopped"
        broker.nodes[1].start()
        assert broker.nodes[1].state == "running"


def test_nodes_are_added_and_removed(broker: Broker) -> None:
    node = broker.nodes.add(config={"broker.rack": "b"})
    assert (node.id, node.state, node.is_registered) == (4, "running", True)
    assert broker.nodes.add(7).id == 7
    assert list(broker.nodes) == [1, 2, 3, 4, 7]
    assert broker.bootstrap_servers.split(",")[3] == node.bootstrap_servers
    host, port = node.bootstrap_servers.split(":")
    socket.create_connection((host, int(port)), 10).close()
    node.remove()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 10)
    assert list(broker.nodes) == [1, 2, 3, 7]
    assert len(broker.bootstrap_servers.split(",")) == 4
    with pytest.raises(ValueError, match=r"^node 7 exists already$"):
        broker.nodes.add(7)
    with pytest.raises(ValueError, match="there is no node 4: the nodes are 1, 2, 3, 7"):
        node.remove()
    with pytest.raises(ValueError, match=r"^node 2 cannot be removed: it has replicas of 1 "):
        broker.nodes[2].remove()


def test_a_node_is_shut_down(broker: Broker) -> None:
    (leader,) = (node for node in broker.nodes.values() if node.led_partitions)
    leader.stop(controlled=True)
    assert (leader.state, leader.led_partitions) == ("stopped", 0)
    assert sum(node.led_partitions for node in broker.nodes.values()) == 1
