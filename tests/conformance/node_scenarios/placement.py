"""Replicas of new partitions while a node is absent."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.node_scenarios.reassignments import reassign

if TYPE_CHECKING:
    from typing import Any

    from tests.conformance.scenario_cluster import ScenarioCluster
    from tests.conformance.scenario_nodes import ScenarioNodes

_ABSENT = 2
_SHARE_STATE = "__share_group_state"
_SHARE = 2
"""The type of the key of a share partition."""
_TIMEOUT_MS = 10_000
_PAUSE_S = 0.05
_WAIT_S = 15.0


def replicas_are_placed_on_a_node_that_was_shut_down(nodes: ScenarioNodes) -> None:
    """Shut a node down in a controlled way, and create partitions."""
    _delete_share_state(nodes)
    _place_without_a_node(nodes, is_shut_down=True)


def replicas_are_placed_on_a_node_that_was_killed(nodes: ScenarioNodes) -> None:
    """End a node without a shutdown, and create partitions."""
    _delete_share_state(nodes)
    _place_without_a_node(nodes, is_shut_down=False)


def _place_without_a_node(nodes: ScenarioNodes, *, is_shut_down: bool) -> None:
    replicas = {"led": (_ABSENT, 1), "grown": (_ABSENT, 1, 3), "moved": (1, 3)}
    for topic, node_ids in replicas.items():
        nodes.create(topic, node_ids)
    (nodes.stop if is_shut_down else nodes.kill)(_ABSENT)
    nodes.settle("led", 1, (1,))
    nodes.settle("grown", 1, (1, 3))
    cluster = nodes.node(1)

    nodes.begin("without the node")
    full_name = nodes.full_name
    create = partial(_create, nodes, cluster)
    for factor in (1, 3, 4):  # two replicas may be on any two nodes
        create(f"factor-{factor}", factor)
    create("by-hand", -1, (_ABSENT, 3))
    create("nowhere", -1, (_ABSENT,))
    grown = CreatePartitionsRequest.CreatePartitionsTopic(
        name=full_name("grown"), count=4, assignments=None
    )
    cluster.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=_TIMEOUT_MS), 3)
    _record_placement(cluster, full_name("grown"), 4)
    cluster.ask(reassign(full_name("moved"), 1, _ABSENT), 1)
    rows = ListPartitionReassignmentsRequest
    moved = rows.ListPartitionReassignmentsTopics(name=full_name("moved"), partition_indexes=[0])
    cluster.ask(rows(topics=[moved], timeout_ms=_TIMEOUT_MS), 0)
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    find = FindCoordinatorRequest(key_type=_SHARE, coordinator_keys=[f"g:{topic_id}:0"])
    cluster.call_until(
        find,
        6,
        lambda answer: answer.coordinators[0].error_code == ErrorCode.NONE,
        is_recorded=False,
    )
    _record_placement(cluster, _SHARE_STATE)

    nodes.start(_ABSENT)
    nodes.begin("after the start")
    nodes.settle("led", 1, (1, _ABSENT))
    nodes.settle("moved", 1, (1, _ABSENT))


def _create(
    nodes: ScenarioNodes,
    cluster: ScenarioCluster,
    topic: str,
    factor: int,
    replicas: tuple[int, ...] = (),
) -> None:
    """Create a topic of two partitions, or of one with these replicas."""
    rows = CreateTopicsRequest
    name = nodes.full_name(topic)
    row = rows.CreatableTopic(
        name=name,
        num_partitions=-1 if replicas else 2,
        replication_factor=factor,
        assignments=[rows.CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))]
        if replicas
        else [],
    )
    answer = cluster.ask(rows(topics=[row], timeout_ms=_TIMEOUT_MS), 4)
    if answer.topics[0].error_code == ErrorCode.NONE:
        _record_placement(cluster, name, 1 if replicas else 2)


def _record_placement(cluster: ScenarioCluster, name: str, count: int = 1) -> None:
    """Put the placement of a topic into the transcript: the nodes are chosen at random."""
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name)],
        response_partition_limit=100,
    )
    answer = cluster.call_until(
        request, 0, lambda answer: len(answer.topics[0].partitions) >= count, is_recorded=False
    )
    cluster.record(
        f"placement of {name}",
        [_placement(row) for row in answer.topics[0].partitions],
    )


def _placement(row: Any) -> dict[str, Any]:  # noqa: ANN401 - a row of a response
    return {
        "has the absent node": _ABSENT in row.replica_nodes,
        "the absent node leads": row.leader_id == _ABSENT,
        "the absent node is first": row.replica_nodes[0] == _ABSENT,
        "replicas": len(row.replica_nodes),
        "all others are in sync": sorted(row.isr_nodes)
        == sorted(set(row.replica_nodes) - {_ABSENT}),
    }


def _delete_share_state(nodes: ScenarioNodes) -> None:
    """Delete the topic of share coordinators, if it exists."""
    state = DeleteTopicsRequest.DeleteTopicState(name=_SHARE_STATE)
    request = DeleteTopicsRequest(topics=[state], timeout_ms=_TIMEOUT_MS)
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        (row,) = nodes.node(1).probe(request, 6).responses
        if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        time.sleep(_PAUSE_S)
    raise AssertionError(f"{_SHARE_STATE} was not deleted")


SCENARIOS = (
    replicas_are_placed_on_a_node_that_was_shut_down,
    replicas_are_placed_on_a_node_that_was_killed,
)
