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
def world() -> Iterator[ServedCluster]:
    config: dict[str, str | float] = {
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "min.insync.replicas": 2,
    }
    with ServedCluster(config) as running:
        yield running


def stop_others(world: ServedCluster, node: int) -> tuple[int, int]:
    """Stop all nodes but one, and return the stopped ones."""
    second = other_node(node)
    stopped = second, other_node(node, second)
    for other in stopped:
        world.broker.nodes[other].stop()
    return stopped


def test_offsets_are_not_committed(world: ServedCluster) -> None:
    coordinator = find_coordinator(world, GROUP, 1)
    client = world.client(coordinator)
    assert commit(client, 7) == ErrorCode.NONE
    stopped = stop_others(world, coordinator)
    for _ in range(2):
        assert commit(client, 8) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    group = fetch_committed(client)
    assert group.topics[0].partitions[0].committed_offset == 7
    world.broker.nodes[stopped[0]].start()
    assert commit(client, 9) == ErrorCode.NONE
    assert fetch_committed(client).topics[0].partitions[0].committed_offset == 9


def test_members_neither_join_nor_leave(world: ServedCluster) -> None:
    coordinator = find_coordinator(world, GROUP, 1)
    client = world.client(coordinator)
    epoch = heartbeat(client, 0).member_epoch
    stopped = stop_others(world, coordinator)
    assert heartbeat(client, epoch).error_code == ErrorCode.NONE  # changes nothing
    assert heartbeat(client, -1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.call(join(["range"]), 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    # The member stays while its removal cannot be written; its session then begins again.
    world.advance(60_000)
    assert heartbeat(client, epoch).error_code == ErrorCode.NONE
    world.broker.nodes[stopped[0]].start()
    world.advance(60_000)
    assert heartbeat(client, epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_transactions_neither_begin_nor_end(world: ServedCluster) -> None:
    """`transaction.state.log.min.isr` is 2 by default."""
    coordinator = find_coordinator(world, TRANSACTIONAL, 1)
    client = world.client(coordinator)
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    began = client.call(request, 4)
    producer = (began.producer_id, began.producer_epoch)
    assert add_partition(client, *producer) == ErrorCode.NONE
    stopped = stop_others(world, coordinator)
    end = EndTxnRequest(
        transactional_id="x", producer_id=producer[0], producer_epoch=producer[1], committed=True
    )
    assert client.call(end, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    request.transactional_id = "y"
    assert client.call(request, 4).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [each.state for each in world.broker.transactions()] == [TransactionState.ONGOING]
    world.broker.nodes[stopped[0]].start()
    assert client.call(end, 3).error_code == ErrorCode.NONE
    (ended,) = world.broker.transactions()
    assert ended.state is TransactionState.COMPLETE_COMMIT


def test_a_timed_out_transaction_is_aborted_when_replicas_are_in_sync_again(
    world: ServedCluster,
) -> None:
    coordinator = find_coordinator(world, TRANSACTIONAL, 1)
    client = world.client(coordinator)
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=10_000)
    began = client.call(request, 4)
    assert add_partition(client, began.producer_id, began.producer_epoch) == ErrorCode.NONE
    stopped = stop_others(world, coordinator)
    world.advance(30_000)
    assert [each.state for each in world.broker.transactions()] == [TransactionState.ONGOING]
    world.broker.nodes[stopped[0]].start()
    world.advance(10_000)
    (ended,) = world.broker.transactions()
    assert ended.state is TransactionState.COMPLETE_ABORT


def find_share_coordinator(world: ServedCluster, topic_id: bytes) -> int:
    key = f"s:{uuid_to_text(topic_id)}:0"
    request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])
    (found,) = world.client(1).call(request, 6).coordinators
    assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
    node_id: int = found.node_id
    return node_id


def initialize_share_state(world: ServedCluster, topic_id: bytes, node: int) -> int:
    partition = InitializeShareGroupStateRequest.PartitionData(
        partition=0, state_epoch=1, start_offset=0
    )
    topic = InitializeShareGroupStateRequest.InitializeStateData(
        topic_id=topic_id, partitions=[partition]
    )
    request = InitializeShareGroupStateRequest(group_id="s", topics=[topic])
    code: int = world.client(node).call(request, 0).results[0].partitions[0].error_code
    return code


def test_share_state_is_not_written(world: ServedCluster) -> None:
    """`share.coordinator.state.topic.min.isr` is 2 by default."""
    (topic,) = (each for each in world.metadata().topics if each.name == "t")
    coordinator = find_share_coordinator(world, topic.topic_id)
    stopped = stop_others(world, coordinator)
    code = initialize_share_state(world, topic.topic_id, coordinator)
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.broker.nodes[stopped[0]].start()
    assert initialize_share_state(world, topic.topic_id, coordinator) == ErrorCode.NONE
