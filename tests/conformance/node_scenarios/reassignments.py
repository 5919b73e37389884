"""Replicas that move between three nodes, and a node that is unregistered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from kafkalite.protocol._generated.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.unregister_broker import UnregisterBrokerRequest

if TYPE_CHECKING:
    from typing import Any

    from tests.conformance.node_world import NodeWorlds
    from tests.conformance.world import World

_NODE = 3


def replicas_move(worlds: NodeWorlds) -> None:
    """Move the replicas of a partition between all nodes."""
    worlds.create("moving", (1, 2))
    worlds.begin("while replicas move")
    world = worlds.node(1)
    name = worlds.full_name("moving")
    for replicas in ((2, 1), (2, 3), (3, 1, 2), (2,), (1, 3)):
        world.ask(reassign(name, *replicas), 1)
        _describe_until_replicas_are(world, name, *replicas)
    world.ask(reassign(name, 1, allow_change=False), 1)
    world.ask(reassign(name, 1, 2, 3, allow_change=False), 1)
    world.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000), 0)


def node_is_unregistered_and_returns(worlds: NodeWorlds) -> None:
    """Unregister a running node, and let it register again."""
    replicas = {"led": (_NODE, 1), "followed": (2, _NODE)}
    for topic, node_ids in replicas.items():
        worlds.create(topic, node_ids)
    worlds.node(1).ask(UnregisterBrokerRequest(broker_id=_NODE), 0)
    worlds.begin("after a node was unregistered")
    # It still runs, but it receives no metadata.
    worlds.kill(_NODE)
    try:
        worlds.settle("led", 1, (1,))
        worlds.settle("followed", 2, (2,))
        worlds.describe_cluster()
        for topic in replicas:
            worlds.describe(topic)
            worlds.node(1).ask(reassign(worlds.full_name(topic), 1, 2, _NODE), 1)
            worlds.describe(topic)
    finally:
        worlds.start(_NODE)
    worlds.begin("after the node returned")
    worlds.settle("led", 1, (1, _NODE))
    worlds.settle("followed", 2, (2, _NODE))
    worlds.describe_cluster()
    for topic in replicas:
        worlds.describe(topic)


def reassign(
    name: str, *replicas: int, allow_change: bool = True
) -> AlterPartitionReassignmentsRequest:
    """Ask to move the replicas of partition 0 of a topic."""
    row = AlterPartitionReassignmentsRequest.ReassignablePartition(
        partition_index=0, replicas=list(replicas)
    )
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=[row])
    return AlterPartitionReassignmentsRequest(
        topics=[topic], timeout_ms=10_000, allow_replication_factor_change=allow_change
    )


def _describe_until_replicas_are(world: World, name: str, *replicas: int) -> None:
    """Wait for the end of a reassignment, and put the partition into the transcript."""

    def has_replicas(response: Any) -> bool:  # noqa: ANN401 - any response class
        (partition,) = response.topics[0].partitions
        replica_nodes: list[int] = partition.replica_nodes
        return replica_nodes == [*replicas] and set(partition.isr_nodes) == set(replicas)

    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name)],
        response_partition_limit=100,
    )
    world.call_until(request, 0, has_replicas)


SCENARIOS = (replicas_move, node_is_unregistered_and_returns)
