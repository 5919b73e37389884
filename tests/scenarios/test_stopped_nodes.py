"""Nodes that stop and start, over the wire: connections, leaders, metadata and coordinators."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.state import TransactionState
from tests.cluster.served import TOPIC, Leadership, ServedCluster, fetch_request
from tests.conformance.raw import ConnectionClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.raw import RawClient

GROUP, TRANSACTIONAL = 0, 1


@pytest.fixture
def cluster() -> Iterator[ServedCluster]:
    # One partition, so that the test can move the coordinator of every key.
    config: dict[str, str | float] = {
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    with ServedCluster(config) as running:
        yield running


# Connections


def test_the_port_of_a_stopped_node_refuses_connections(cluster: ServedCluster) -> None:
    port = cluster.port(2)
    cluster.broker.nodes[2].stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 10)
    assert cluster.metadata(node=1).brokers
    cluster.broker.nodes[2].start()
    assert cluster.port(2) == port
    assert cluster.metadata(node=2).brokers


def test_the_connections_of_a_stopped_node_end(cluster: ServedCluster) -> None:
    idle, waiting = cluster.connect(2), cluster.connect(2)
    other = cluster.connect(3)
    waiting.send(fetch_request(max_wait_ms=600_000), 12)
    cluster.metadata(node=2)
    cluster.broker.nodes[2].stop()
    for client in (idle, waiting):
        with pytest.raises(ConnectionClosedError):
            client.receive_frame()
    assert other.call(DescribeClusterRequest(), 0).error_code == ErrorCode.NONE


def test_fetch_sessions_end_with_the_node(cluster: ServedCluster) -> None:
    request = fetch_request()
    request.session_epoch = 0
    session_id = cluster.client(2).call(request, 12).session_id
    assert session_id
    cluster.broker.nodes[2].stop()
    cluster.broker.nodes[2].start()
    cluster.disconnect(2)
    following = FetchRequest(max_bytes=1, session_id=session_id, session_epoch=1)
    answer = cluster.client(2).call(following, 12)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_stopped_node_that_is_stopped_again_and_a_running_one_that_starts_do_not_change(
    cluster: ServedCluster,
) -> None:
    cluster.broker.nodes[3].start()
    cluster.broker.nodes[2].stop()
    before = cluster.leadership()
    cluster.broker.nodes[2].stop()
    assert cluster.leadership() == before == (1, 0, {1, 3})


# Leaders and metadata


def test_a_stopped_leader_is_replaced_in_the_next_epoch(cluster: ServedCluster) -> None:
    cluster.append(b"a")
    cluster.broker.nodes[1].stop()
    assert cluster.leadership(node=2) == (2, 1, {2, 3})
    assert cluster.values(node=2) == [b"a"]
    assert cluster.append(b"b", node=2) == 1
    cluster.broker.nodes[2].stop()
    assert cluster.leadership(node=3) == (3, 2, {3})
    assert cluster.append(b"c", node=3) == 2
    cluster.broker.nodes[1].start()
    cluster.disconnect(1)
    assert cluster.leadership(node=1) == (3, 2, {1, 3})
    assert cluster.values(node=1) == [b"a", b"b", b"c"]


def test_a_stopped_follower_leaves_the_isr_without_an_election(cluster: ServedCluster) -> None:
    cluster.broker.nodes[3].stop()
    assert cluster.leadership() == (1, 0, {1, 2})
    cluster.broker.nodes[3].start()
    assert cluster.leadership() == (1, 0, {1, 2, 3})


def test_a_partition_whose_only_replica_stops_has_no_leader(cluster: ServedCluster) -> None:
    cluster.create("single", (2,))
    cluster.broker.nodes[2].stop()
    # The replica is eligible, but not in sync (KIP-966).
    assert cluster.leadership("single") == (-1, 1, set())
    (topic,) = (each for each in cluster.metadata().topics if each.name == "single")
    assert topic.partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert topic.partitions[0].offline_replicas == [2]
    cluster.broker.nodes[2].start()
    assert cluster.leadership("single") == (2, 2, {2})


def test_metadata_and_describe_cluster_do_not_list_a_stopped_node(cluster: ServedCluster) -> None:
    def listed() -> tuple[set[int], set[int], int]:
        described = cluster.client(2).call(DescribeClusterRequest(), 0)
        metadata = cluster.metadata(node=2)
        return (
            {each.node_id for each in metadata.brokers},
            {each.broker_id for each in described.brokers},
            metadata.controller_id,
        )

    assert listed() == ({1, 2, 3}, {1, 2, 3}, 1)
    cluster.broker.nodes[1].stop()
    assert listed() == ({2, 3}, {2, 3}, 2)
    cluster.broker.nodes[1].start()
    assert listed() == ({1, 2, 3}, {1, 2, 3}, 1)


def test_a_follower_names_the_new_leader_to_a_producer(cluster: ServedCluster) -> None:
    cluster.broker.nodes[1].stop()
    assert cluster.produce(b"a", node=3).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# Coordinators


def find_coordinator(cluster: ServedCluster, kind: int, node: int) -> int:
    """Return the coordinator of every key of a kind; the first call creates its topic."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["k"])
    for _ in range(2):
        (found,) = cluster.client(node).call(request, 6).coordinators
    assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
    node_id: int = found.node_id
    return node_id


def other_node(*nodes: int) -> int:
    """Return a node that is none of these."""
    return min({1, 2, 3} - set(nodes))


def commit(client: RawClient, offset: int) -> int:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    answer = client.call(OffsetCommitRequest(group_id="g", topics=[topic]), 9)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def fetch_committed(client: RawClient) -> Any:  # noqa: ANN401 - a response class of its version
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    return client.call(OffsetFetchRequest(groups=[group]), 9).groups[0]


def test_committed_offsets_move_to_the_next_coordinator(cluster: ServedCluster) -> None:
    first = find_coordinator(cluster, GROUP, 1)
    assert commit(cluster.client(first), 7) == ErrorCode.NONE
    cluster.broker.nodes[first].stop()
    second = find_coordinator(cluster, GROUP, other_node(first))
    assert second != first
    third = other_node(first, second)
    assert commit(cluster.client(third), 8) == ErrorCode.NOT_COORDINATOR
    assert fetch_committed(cluster.client(third)).error_code == ErrorCode.NOT_COORDINATOR
    group = fetch_committed(cluster.client(second))
    assert group.topics[0].partitions[0].committed_offset == 7
    assert commit(cluster.client(second), 8) == ErrorCode.NONE
    cluster.broker.nodes[first].start()
    assert find_coordinator(cluster, GROUP, second) == second


def heartbeat(client: RawClient, epoch: int) -> Any:  # noqa: ANN401 - see above
    is_joining = epoch == 0
    return client.call(
        ConsumerGroupHeartbeatRequest(
            group_id="c",
            member_id="AAAAAAAAAAAAAAAAAAAAAg",
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if is_joining else -1,
            subscribed_topic_names=[TOPIC] if is_joining else None,
            topic_partitions=[] if is_joining else None,
        ),
        1,
    )


def test_members_of_a_consumer_group_continue_at_the_next_coordinator(
    cluster: ServedCluster,
) -> None:
    first = find_coordinator(cluster, GROUP, 1)
    epoch = heartbeat(cluster.client(first), 0).member_epoch
    cluster.broker.nodes[first].stop()
    second = find_coordinator(cluster, GROUP, other_node(first))
    answer = heartbeat(cluster.client(second), epoch)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, epoch)


def join(protocols: list[str], member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="j",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=b"") for name in protocols
        ],
    )


def test_a_waiting_join_ends_when_the_coordinator_moves(cluster: ServedCluster) -> None:
    first = find_coordinator(cluster, GROUP, 1)
    assert cluster.client(first).call(join(["range"]), 3).error_code == ErrorCode.NONE
    waiting = cluster.connect(first)
    waiting.send(join(["range"]), 3)
    cluster.metadata(node=first)
    cluster.broker.move_leader(OFFSETS_TOPIC, 0, other_node(first))
    answer = waiting.receive()
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert find_coordinator(cluster, GROUP, first) == other_node(first)


def add_partition(client: RawClient, producer_id: int, epoch: int) -> int:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
    answer = client.call(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[topic],
        ),
        3,
    )
    code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return code


@pytest.mark.parametrize("by", ["stop", "move"])
def test_an_open_transaction_moves_to_the_next_coordinator(cluster: ServedCluster, by: str) -> None:
    first = find_coordinator(cluster, TRANSACTIONAL, 1)
    began = cluster.client(first).call(
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4
    )
    assert began.error_code == ErrorCode.NONE
    producer = (began.producer_id, began.producer_epoch)
    assert add_partition(cluster.client(first), *producer) == ErrorCode.NONE
    (before,) = cluster.broker.transactions()
    if by == "stop":
        cluster.broker.nodes[first].stop()
    else:
        cluster.broker.move_leader(TRANSACTION_STATE_TOPIC, 0, other_node(first))
    (after,) = cluster.broker.transactions()
    assert after == before
    assert after.state is TransactionState.ONGOING
    assert after.partitions == {(TOPIC, 0)}
    second = find_coordinator(cluster, TRANSACTIONAL, other_node(first))
    assert second != first
    end = EndTxnRequest(
        transactional_id="x", producer_id=producer[0], producer_epoch=producer[1], committed=True
    )
    if by == "move":
        assert cluster.client(first).call(end, 3).error_code == ErrorCode.NOT_COORDINATOR
    assert cluster.client(second).call(end, 3).error_code == ErrorCode.NONE
    (ended,) = cluster.broker.transactions()
    assert ended.state is TransactionState.COMPLETE_COMMIT
    leader = cluster.leadership(node=second).leader
    assert cluster.log_end(leader) == 1  # the marker


def test_an_isolated_coordinator_answers_no_request(cluster: ServedCluster) -> None:
    first = find_coordinator(cluster, GROUP, 1)
    assert commit(cluster.client(first), 7) == ErrorCode.NONE
    cluster.broker.nodes[first].isolate()
    assert commit(cluster.client(first), 8) == ErrorCode.NOT_COORDINATOR
    cluster.broker.nodes[first].start()
    assert commit(cluster.client(first), 9) == ErrorCode.NONE


# Commands


def test_the_last_running_node_is_not_isolated(cluster: ServedCluster) -> None:
    nodes = cluster.broker.nodes
    nodes[1].stop()
    nodes[2].isolate()
    with pytest.raises(ValueError, match=r"^node 3 cannot be isolated: no other node is running$"):
        nodes[3].isolate()
    with pytest.raises(ValueError, match=r"^node 1 is stopped: start it before isolating it$"):
        nodes[1].isolate()
    assert nodes[3].state == "running"


def test_a_port_that_was_taken_meanwhile_prevents_a_start(cluster: ServedCluster) -> None:
    port = cluster.port(2)
    cluster.broker.nodes[2].stop()
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(ValueError, match=r"^node 2 cannot be started: cannot listen on "):
            cluster.broker.nodes[2].start()
        assert cluster.broker.nodes[2].state == "stopped"
    cluster.broker.nodes[2].start()
    assert cluster.leadership(node=2) == Leadership(1, 0, {1, 2, 3})
