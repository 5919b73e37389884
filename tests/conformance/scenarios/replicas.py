"""Reassignments, moves between log directories, and unregistration of brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
)
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol._generated.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.unregister_broker import UnregisterBrokerRequest
from tests.conformance.setup import create_topic, wait_for_leader

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_UNKNOWN_NODE = 77


def _reassign(
    name: str, *targets: tuple[int, list[int] | None], allow_change: bool = True
) -> AlterPartitionReassignmentsRequest:
    row = AlterPartitionReassignmentsRequest.ReassignablePartition
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(
        name=name,
        partitions=[row(partition_index=index, replicas=replicas) for index, replicas in targets],
    )
    return AlterPartitionReassignmentsRequest(
        topics=[topic], timeout_ms=10_000, allow_replication_factor_change=allow_change
    )


def _ongoing(*topics: tuple[str, list[int]]) -> ListPartitionReassignmentsRequest:
    row = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    return ListPartitionReassignmentsRequest(
        topics=[row(name=name, partition_indexes=indexes) for name, indexes in topics],
        timeout_ms=10_000,
    )


def reassignments_to_the_present_node_change_nothing(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    for version in (0, 1):
        cluster.ask(_reassign(cluster.name, (0, [1]), (1, [1])), version)
    cluster.ask(_reassign(cluster.name, (0, [1]), allow_change=False), 1)
    cluster.ask(_ongoing((cluster.name, [0, 1])), 0)


def reassignments_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    missing = f"{cluster.name}-missing"
    for version in (0, 1):
        cluster.ask(_reassign(cluster.name, (0, [_UNKNOWN_NODE])), version)
    cluster.ask(_reassign(cluster.name, (0, []), (0, [1, 1]), (0, [1, _UNKNOWN_NODE])), 1)
    cluster.ask(_reassign(cluster.name, (7, [1]), (7, None), (-1, [1])), 1)
    cluster.ask(_reassign(cluster.name, (0, None)), 1)
    cluster.ask(_reassign(missing, (0, [1]), (0, None)), 1)
    cluster.ask(_reassign(cluster.name, (0, [1, 1]), allow_change=False), 1)
    cluster.ask(AlterPartitionReassignmentsRequest(topics=[], timeout_ms=10_000), 1)


def no_reassignments_are_listed(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    cluster.ask(_ongoing((cluster.name, [0, 7]), (f"{cluster.name}-missing", [0])), 0)
    cluster.ask(_ongoing(), 0)
    cluster.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000), 0)


def _move(path: str, *topics: tuple[str, list[int]]) -> AlterReplicaLogDirsRequest:
    row = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                path=path,
                topics=[row(name=name, partitions=indexes) for name, indexes in topics],
            )
        ]
    )


def replicas_stay_in_the_log_directory(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_leader(cluster, cluster.name)
    described = cluster.probe(DescribeLogDirsRequest(topics=None), 4)
    path = described.results[0].log_dir
    missing = f"{cluster.name}-missing"
    for version in (1, 2):
        cluster.ask(_move(path, (cluster.name, [0])), version)
        cluster.ask(_move("/not/configured", (cluster.name, [0])), version)
    cluster.ask(_move(path, (missing, [0])), 2)
    cluster.ask(_move(path, (cluster.name, [9])), 2)
    cluster.ask(_move("/not/configured", (missing, [0])), 2)
    for length in (213, 214):
        cluster.ask(_move("/not/configured", ("n" * length, [0])), 2)
    cluster.ask(AlterReplicaLogDirsRequest(dirs=[]), 2)


def unknown_brokers_are_not_unregistered(cluster: ScenarioCluster) -> None:
    for broker in (_UNKNOWN_NODE, -1):
        cluster.ask(UnregisterBrokerRequest(broker_id=broker), 0)


SCENARIOS = (
    reassignments_to_the_present_node_change_nothing,
    reassignments_are_refused,
    no_reassignments_are_listed,
    replicas_stay_in_the_log_directory,
    unknown_brokers_are_not_unregistered,
)
