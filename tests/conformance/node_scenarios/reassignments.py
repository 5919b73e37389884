"""Replicas that move between three nodes, and a node that is unregistered."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

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
from tests.conformance.batches import batch
from tests.conformance.scenarios.configs import BROKER, DELETE, SET, TOPIC, alter, settled
from tests.conformance.setup import produce

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from tests.conformance.scenario_cluster import ScenarioCluster
    from tests.conformance.scenario_nodes import ScenarioNodes

_NODE = 3
_PRODUCE: Final = 10
_LARGE: Final = 700_000
"""The size of a record of which a follower gets one in each fetch."""
_RECORDS: Final = 8
_THROTTLED: Final = "leader.replication.throttled.replicas"
_RATE: Final = "leader.replication.throttled.rate"


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


def throttled_replicas_wait(nodes: ScenarioNodes) -> None:
    """Move replicas, and let a node return, while the leader sends one record and then waits."""
    nodes.create("throttled", (1, 2))
    leader, name = nodes.node(1), nodes.full_name("throttled")
    with _throttled(nodes, name):
        for _ in range(_RECORDS):
            leader.probe(produce(name, batch(bytes(_LARGE)), acks=1), _PRODUCE)
        nodes.settle("throttled", 1, (1, 2))
        nodes.begin("a replica is added")
        leader.ask(reassign(name, 1, 2, 3), 1)
        _ask_for_progress(leader, name, 1, 2, 3, isr={1, 2})
        nodes.begin("the reassignment is cancelled")
        leader.ask(cancel(name), 1)
        _ask_for_progress(leader, name, 1, 2, isr={1, 2})
        leader.ask(cancel(name), 1)
        nodes.begin("a replica is replaced")
        leader.ask(reassign(name, 1, 3), 1)
        _ask_for_progress(leader, name, 1, 2, 3, isr={1, 2})
        nodes.begin("a replica returns")
        nodes.kill(2)
        nodes.settle("throttled", 1, (1,))
        leader.probe(produce(name, batch(bytes(_LARGE)), acks=1), _PRODUCE)
        leader.probe(produce(name, batch(bytes(_LARGE)), acks=1), _PRODUCE)
        nodes.start(2)
        _ask_for_progress(leader, name, 1, 2, 3, isr={1})
    nodes.begin("nothing is throttled")
    _describe_until_replicas_are(leader, name, 1, 3)
    leader.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000), 0)


@contextmanager
def _throttled(nodes: ScenarioNodes, name: str) -> Iterator[None]:
    """Let node 1 send one record of a topic to followers that lag, and the next one much later."""
    node = nodes.node(1)
    node.probe(alter(BROKER, "1", (_RATE, SET, "1")), 1)
    settled(node, _RATE, "1", BROKER, "1")
    node.probe(alter(TOPIC, name, (_THROTTLED, SET, "*")), 1)
    settled(node, _THROTTLED, "*", TOPIC, name)
    try:
        yield
    finally:
        node.probe(alter(TOPIC, name, (_THROTTLED, DELETE, None)), 1)
        node.probe(alter(BROKER, "1", (_RATE, DELETE, None)), 1)


def _ask_for_progress(cluster: ScenarioCluster, name: str, *replicas: int, isr: set[int]) -> None:
    """Ask which replicas move, and describe the partition once node 1 has this state of it."""
    cluster.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000), 0)
    _describe_until_replicas_are(cluster, name, *replicas, isr=isr)


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


def cancel(name: str) -> AlterPartitionReassignmentsRequest:
    """Ask to cancel the reassignment of partition 0 of a topic."""
    row = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=None)
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=[row])
    return AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=10_000)


def _describe_until_replicas_are(
    cluster: ScenarioCluster, name: str, *replicas: int, isr: Collection[int] | None = None
) -> None:
    """Wait for these replicas, which all are in sync without `isr`, and describe the partition."""
    in_sync = set(replicas if isr is None else isr)

    def has_replicas(response: Any) -> bool:  # noqa: ANN401 - any response class
        (partition,) = response.topics[0].partitions
        replica_nodes: list[int] = partition.replica_nodes
        return replica_nodes == [*replicas] and set(partition.isr_nodes) == in_sync

    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name)],
        response_partition_limit=100,
    )
    cluster.call_until(request, 0, has_replicas)


SCENARIOS = (replicas_move, throttled_replicas_wait, node_is_unregistered_and_returns)
