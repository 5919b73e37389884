"""Replicas that move between three nodes, and a node that is unregistered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from kafkalite.protocol._generated.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.unregister_broker import UnregisterBrokerRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.compare import differences
from tests.conformance.setup import wait_for_leader
from tests.conformance.world import World
from tests.oracle.real_cluster import real_cluster
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.conformance.world import Entry

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]

TOPIC = "moving"


def _create_topic(world: World) -> None:
    row = CreateTopicsRequest.CreatableReplicaAssignment
    topic = CreateTopicsRequest.CreatableTopic(
        name=TOPIC,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[row(partition_index=0, broker_ids=[1, 2])],
    )
    (created,) = world.probe(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
    assert created.error_code == ErrorCode.NONE, created
    wait_for_leader(world, TOPIC)


def _reassign(*replicas: int, allow_change: bool = True) -> AlterPartitionReassignmentsRequest:
    row = AlterPartitionReassignmentsRequest.ReassignablePartition(
        partition_index=0, replicas=list(replicas)
    )
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name=TOPIC, partitions=[row])
    return AlterPartitionReassignmentsRequest(
        topics=[topic], timeout_ms=10_000, allow_replication_factor_change=allow_change
    )


def _describe_until_replicas_are(world: World, *replicas: int) -> None:
    """Wait for the end of a reassignment, and put the partition into the transcript."""

    def has_replicas(response: Any) -> bool:  # noqa: ANN401 - any response class
        (partition,) = response.topics[0].partitions
        replica_nodes: list[int] = partition.replica_nodes
        return replica_nodes == [*replicas] and set(partition.isr_nodes) == set(replicas)

    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=TOPIC)]
    )
    found = world.call_until(request, 0, has_replicas, is_recorded=False)
    (partition,) = found.topics[0].partitions
    world.record(
        f"replicas {replicas}",
        [
            partition.replica_nodes,
            sorted(partition.isr_nodes),
            partition.leader_id,
            partition.leader_epoch,
            partition.eligible_leader_replicas,
            partition.last_known_elr,
        ],
    )


def _play(port: int) -> list[Entry]:
    world = World(port, "reassignments")
    try:
        _create_topic(world)
        for replicas in ((2, 1), (2, 3), (3, 1, 2), (2,), (1, 3)):
            world.ask(_reassign(*replicas), 1)
            _describe_until_replicas_are(world, *replicas)
        world.ask(_reassign(1, allow_change=False), 1)
        world.ask(_reassign(1, 2, 3, allow_change=False), 1)
        world.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000), 0)
        world.ask(UnregisterBrokerRequest(broker_id=3), 0)
        described = DescribeClusterRequest(include_fenced_brokers=True)
        # A real broker returns the id of a random node as that of the controller.
        found = world.call_until(
            described, 2, lambda response: len(response.brokers) == 2, is_recorded=False
        )
        world.record("nodes", [[node.broker_id, node.is_fenced] for node in found.brokers])
        world.ask(_reassign(1, 3), 1)
        return world.transcript
    finally:
        world.close()


def test_replicas_move_as_in_kafka(tmp_path: Path) -> None:
    with required(), real_cluster(tmp_path / "kafka", 3, COMMON_CONFIG) as nodes:
        real = _play(nodes[0].port)
    emulator = ServedKafkalite(tmp_path / "kafkalite", brokers=3)
    emulator.start()
    try:
        emulated = _play(emulator.port)
    finally:
        emulator.kill()
    lines = differences(real, emulated)
    assert not lines, "\n".join(lines)
