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

    from tests.conformance.scenario_cluster import ScenarioCluster
    from tests.conformance.scenario_nodes import ScenarioNodes

_NODE = 3


def replicas_move(nodes: ScenarioNodes) -> None:
    """Move the replicas of a partition between all nodes."""
    nodes.create("moving", (1, 2))
    nodes.begin("while replicas move")
    cluster = nodes.node(1)
    name = nodes.full_name("moving")
    for replicas in ((2, 1), (2, 3), (3, 1, 2), (2,), (1, 3)):
        cluster.ask(reassign(name, *replicas), 1)
        _describe_until_replicas_are(cluster, name, *replicas)
    cluster.ask(reassign(name, 1, allow_change=False), 1)
    cluster.ask(reassign(name, 1, 2, 3, allow_change=False), 1)
    cluster.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000), 0)


def node_is_unregistered_and_returns(nodes: ScenarioNodes) -> None:
    """Unregister a running node, and let it register again."""
    replicas = {"led": (_NODE, 1), "followed": (2, _NODE)}
    for topic, node_ids in replicas.items():
        nodes.create(topic, node_ids)
    nodes.node(1).ask(UnregisterBrokerRequest(broker_id=_NODE), 0)
    nodes.begin("after a node was unregistered")
    # It still runs, but it receives no metadata.
    nodes.kill(_NODE)
    try:
        nodes.settle("led", 1, (1,))
        nodes.settle("followed", 2, (2,))
        nodes.describe_cluster()
        for topic in replicas:
            nodes.describe(topic)
            nodes.node(1).ask(reassign(nodes.full_name(topic), 1, 2, _NODE), 1)
            nodes.describe(topic)
    finally:
        nodes.start(_NODE)
    nodes.begin("after the node returned")
    nodes.settle("led", 1, (1, _NODE))
    nodes.settle("followed", 2, (2, _NODE))
    nodes.describe_cluster()
    for topic in replicas:
        nodes.describe(topic)


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


def _describe_until_replicas_are(cluster: ScenarioCluster, name: str, *replicas: int) -> None:
    """Wait for the end of a reassignment, and put the partition into the transcript."""

    def has_replicas(response: Any) -> bool:  # noqa: ANN401 - any response class
        (partition,) = response.topics[0].partitions
        replica_nodes: list[int] = partition.replica_nodes
        return replica_nodes == [*replicas] and set(partition.isr_nodes) == set(replicas)

    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name)],
        response_partition_limit=100,
    )
    cluster.call_until(request, 0, has_replicas)


SCENARIOS = (replicas_move, node_is_unregistered_and_returns)
