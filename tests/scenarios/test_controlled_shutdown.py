"""Nodes that are shut down in a controlled way, over the wire: leaders, waits and connections."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.served import ServedCluster, fetch_request
from tests.conformance.raw import ConnectionClosedError
from tests.scenarios.test_stopped_nodes import (
    GROUP,
    commit,
    fetch_committed,
    find_coordinator,
    other_node,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def cluster() -> Iterator[ServedCluster]:
    config: dict[str, str | float] = {
        "offsets.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 3_000,
    }
    with ServedCluster(config) as running:
        yield running


def test_the_leader_moves_and_the_isr_shrinks_without_the_node(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    port = cluster.port(1)
    cluster.broker.nodes[1].stop(controlled=True)
    assert cluster.leadership(node=2) == (2, 1, {2, 3})
    assert cluster.values(node=2) == [b"a"]
    assert cluster.append(b"b", node=2) == 1
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 10)
    assert {each.node_id for each in cluster.metadata(node=2).brokers} == {2, 3}
    cluster.broker.nodes[1].start()
    cluster.disconnect(1)
    assert cluster.leadership(node=1) == (2, 1, {1, 2, 3})
    assert cluster.port(1) == port


def test_a_node_that_was_shut_down_gets_replicas_of_new_topics(cluster: ServedCluster) -> None:
    """The first group, too, creates its topic without this node in sync."""
    cluster.broker.nodes[1].stop(controlled=True)
    rows = CreateTopicsRequest
    topic = rows.CreatableTopic(name="new", num_partitions=1, replication_factor=3)
    (created,) = cluster.client(2).call(rows(topics=[topic], timeout_ms=1_000), 7).topics
    assert created.error_code == ErrorCode.NONE, created.error_message
    assert find_coordinator(cluster, GROUP, 2) in (2, 3)
    for name in ("new", OFFSETS_TOPIC):
        leader, _, isr = cluster.leadership(name, node=2)
        assert leader in (2, 3)
        assert isr == {2, 3}
    cluster.broker.nodes[1].start()
    for name in ("new", OFFSETS_TOPIC):
        assert cluster.leadership(name, node=2).isr == {1, 2, 3}


def test_a_waiting_produce_is_answered_before_the_connection_ends(cluster: ServedCluster) -> None:
    cluster.broker.nodes[3].pause_replication()
    waiting = cluster.begin_produce(b"a")
    assert not waiting.is_answered
    cluster.broker.nodes[1].stop(controlled=True)
    assert waiting.answer().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ConnectionClosedError):
        waiting._client.receive_frame()


def test_a_waiting_fetch_is_answered_before_the_connection_ends(cluster: ServedCluster) -> None:
    client = cluster.connect(1)
    client.send(fetch_request(max_wait_ms=600_000), 10)  # only the leader answers this version
    cluster.metadata(node=1)
    cluster.broker.nodes[1].stop(controlled=True)
    answer = client.receive().responses[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ConnectionClosedError):
        client.receive_frame()


def test_a_member_that_waits_for_its_group_is_sent_to_the_next_coordinator(
    cluster: ServedCluster,
) -> None:
    first = find_coordinator(cluster, GROUP, 1)
    client = cluster.connect(first)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=30_000, rebalance_timeout_ms=30_000,
        protocol_type="consumer", protocols=[protocol],
    )  # fmt: skip
    client.send(request, 3)  # waits for group.initial.rebalance.delay.ms
    cluster.metadata(node=first)
    cluster.broker.nodes[first].stop(controlled=True)
    assert client.receive().error_code == ErrorCode.NOT_COORDINATOR


def test_committed_offsets_move_to_the_next_coordinator(cluster: ServedCluster) -> None:
    first = find_coordinator(cluster, GROUP, 1)
    assert commit(cluster.client(first), 7) == ErrorCode.NONE
    cluster.broker.nodes[first].stop(controlled=True)
    second = find_coordinator(cluster, GROUP, other_node(first))
    assert second != first
    group = fetch_committed(cluster.client(second))
    assert group.topics[0].partitions[0].committed_offset == 7
    assert first not in cluster.leadership(OFFSETS_TOPIC, node=second).isr


def test_a_partition_without_another_replica_in_sync_has_no_leader(cluster: ServedCluster) -> None:
    cluster.create("single", (2,))
    cluster.broker.nodes[2].stop(controlled=True)
    assert cluster.leadership("single") == (-1, 1, set())
    cluster.broker.nodes[2].start()
    assert cluster.leadership("single") == (2, 2, {2})


def test_an_isolated_node_is_not_shut_down(cluster: ServedCluster) -> None:
    nodes = cluster.broker.nodes
    nodes[1].isolate()
    with pytest.raises(ValueError, match=r"^node 1 is isolated: a controlled shutdown needs the "):
        nodes[1].stop(controlled=True)
