"""Coordinators whose log has too few in-sync replicas, over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.transactions.state import TransactionState
from tests.cluster.served import ServedCluster
from tests.scenarios.test_stopped_nodes import (
    GROUP,
    TRANSACTIONAL,
    add_partition,
    commit,
    fetch_committed,
    find_coordinator,
    heartbeat,
    join,
    other_node,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARE = 2


@pytest.fixture
def cluster() -> Iterator[ServedCluster]:
    config: dict[str, str | float] = {
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "min.insync.replicas": 2,
    }
    with ServedCluster(config) as running:
        yield running


def stop_others(cluster: ServedCluster, node: int) -> tuple[int, int]:
    """Stop all nodes but one, and return the stopped ones."""
    second = other_node(node)
    stopped = second, other_node(node, second)
    for other in stopped:
        cluster.broker.nodes[other].stop()
    return stopped


def test_offsets_are_not_committed(cluster: ServedCluster) -> None:
    coordinator = find_coordinator(cluster, GROUP, 1)
    client = cluster.client(coordinator)
    assert commit(client, 7) == ErrorCode.NONE
    stopped = stop_others(cluster, coordinator)
    for _ in range(2):
        assert commit(client, 8) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    group = fetch_committed(client)
    assert group.topics[0].partitions[0].committed_offset == 7
    cluster.broker.nodes[stopped[0]].start()
    assert commit(client, 9) == ErrorCode.NONE
    assert fetch_committed(client).topics[0].partitions[0].committed_offset == 9


def test_members_neither_join_nor_leave(cluster: ServedCluster) -> None:
    coordinator = find_coordinator(cluster, GROUP, 1)
    client = cluster.client(coordinator)
    epoch = heartbeat(client, 0).member_epoch
    stopped = stop_others(cluster, coordinator)
    assert heartbeat(client, epoch).error_code == ErrorCode.NONE  # changes nothing
    assert heartbeat(client, -1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.call(join(["range"]), 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    # The member stays while its removal cannot be written; its session then begins again.
    cluster.advance(60_000)
    assert heartbeat(client, epoch).error_code == ErrorCode.NONE
    cluster.broker.nodes[stopped[0]].start()
    cluster.advance(60_000)
    assert heartbeat(client, epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_transactions_neither_begin_nor_end(cluster: ServedCluster) -> None:
    """`transaction.state.log.min.isr` is 2 by default."""
    coordinator = find_coordinator(cluster, TRANSACTIONAL, 1)
    client = cluster.client(coordinator)
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    began = client.call(request, 4)
    producer = (began.producer_id, began.producer_epoch)
    assert add_partition(client, *producer) == ErrorCode.NONE
    stopped = stop_others(cluster, coordinator)
    end = EndTxnRequest(
        transactional_id="x", producer_id=producer[0], producer_epoch=producer[1], committed=True
    )
    assert client.call(end, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    request.transactional_id = "y"
    assert client.call(request, 4).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [each.state for each in cluster.broker.transactions()] == [TransactionState.ONGOING]
    cluster.broker.nodes[stopped[0]].start()
    assert client.call(end, 3).error_code == ErrorCode.NONE
    (ended,) = cluster.broker.transactions()
    assert ended.state is TransactionState.COMPLETE_COMMIT


def test_a_timed_out_transaction_is_aborted_when_replicas_are_in_sync_again(
    cluster: ServedCluster,
) -> None:
    coordinator = find_coordinator(cluster, TRANSACTIONAL, 1)
    client = cluster.client(coordinator)
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=10_000)
    began = client.call(request, 4)
    assert add_partition(client, began.producer_id, began.producer_epoch) == ErrorCode.NONE
    stopped = stop_others(cluster, coordinator)
    cluster.advance(30_000)
    assert [each.state for each in cluster.broker.transactions()] == [TransactionState.ONGOING]
    cluster.broker.nodes[stopped[0]].start()
    cluster.advance(10_000)
    (ended,) = cluster.broker.transactions()
    assert ended.state is TransactionState.COMPLETE_ABORT


def find_share_coordinator(cluster: ServedCluster, topic_id: bytes) -> int:
    key = f"s:{uuid_to_text(topic_id)}:0"
    request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])
    (found,) = cluster.client(1).call(request, 6).coordinators
    assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
    node_id: int = found.node_id
    return node_id


def initialize_share_state(cluster: ServedCluster, topic_id: bytes, node: int) -> int:
    partition = InitializeShareGroupStateRequest.PartitionData(
        partition=0, state_epoch=1, start_offset=0
    )
    topic = InitializeShareGroupStateRequest.InitializeStateData(
        topic_id=topic_id, partitions=[partition]
    )
    request = InitializeShareGroupStateRequest(group_id="s", topics=[topic])
    code: int = cluster.client(node).call(request, 0).results[0].partitions[0].error_code
    return code


def test_share_state_is_not_written(cluster: ServedCluster) -> None:
    """`share.coordinator.state.topic.min.isr` is 2 by default."""
    (topic,) = (each for each in cluster.metadata().topics if each.name == "t")
    coordinator = find_share_coordinator(cluster, topic.topic_id)
    stopped = stop_others(cluster, coordinator)
    code = initialize_share_state(cluster, topic.topic_id, coordinator)
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.broker.nodes[stopped[0]].start()
    assert initialize_share_state(cluster, topic.topic_id, coordinator) == ErrorCode.NONE
