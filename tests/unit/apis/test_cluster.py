"""DescribeCluster, UnregisterBroker and ElectLeaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.cluster import APIS
from kafkalite.config.layers import ConfigSource
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import NO_LEADER, PartitionImage, ResourceType
from kafkalite.metadata.leadership import ElectionType
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.unregister_broker import UnregisterBrokerRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.cluster import TestCluster
from tests.cluster.metadata import MetadataCluster, code_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DESCRIBE, ELECT, _ = APIS
Partitions = ElectLeadersRequest.TopicPartitions


def test_the_response_has_the_nodes_of_one_listener() -> None:
    cluster = MetadataCluster(racks={1: None, 2: "r"})
    answer = cluster.ask(
        DESCRIBE,
        DescribeClusterRequest(include_cluster_authorized_operations=True),
        listener="OTHER",
    )
    assert [(each.broker_id, each.port, each.rack) for each in answer.brokers] == [
        (1, 19093, None),
        (2, 19094, "r"),
    ]
    assert (answer.cluster_id, answer.controller_id) == ("cluster", 1)
    assert answer.cluster_authorized_operations == 0b1111110100000
    silent = cluster.ask(DESCRIBE, DescribeClusterRequest())
    assert silent.cluster_authorized_operations == -(1 << 31)


def cluster_after_failover() -> MetadataCluster:
    """Return a cluster whose node 1 was away and is back: node 2 leads all of "t"."""
    first = MetadataCluster(nodes=(1, 2))
    assignments = ((0, (1, 2)), (1, (2, 1)))
    first.controller.create_topics([NewTopic(name="t", assignments=assignments)])
    return first.restart(2).restart(1, 2)


def test_every_requested_partition_has_a_result() -> None:
    cluster = cluster_after_failover()
    asked = [Partitions(topic="t", partitions=[0, 1]), Partitions(topic="nope", partitions=[0])]
    answer = cluster.ask(ELECT, ElectLeadersRequest(topic_partitions=asked))
    codes = {
        (result.topic, each.partition_id): each.error_code
        for result in answer.replica_election_results
        for each in result.partition_result
    }
    assert codes == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.ELECTION_NOT_NEEDED,
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert cluster.topic("t").partitions[0].leader == 1


def test_without_a_list_only_changed_partitions_have_results() -> None:
    cluster = cluster_after_failover()
    answer = cluster.ask(ELECT, ElectLeadersRequest(topic_partitions=None))
    (result,) = answer.replica_election_results
    assert [each.partition_id for each in result.partition_result] == [0]
    again = cluster.ask(ELECT, ElectLeadersRequest(topic_partitions=None))
    assert [each.partition_result for each in again.replica_election_results] == [[]]


def described_nodes(answer: Any) -> list[tuple[int, bool]]:  # noqa: ANN401 - a generated response
    return [(each.broker_id, each.is_fenced) for each in answer.brokers]


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster of three nodes; a topic has replicas on nodes 2 and 1."""
    wire = TestCluster(tmp_path, nodes=3)
    wire.cluster.metadata.create_topics([NewTopic(name="t", assignments=((0, (2, 1)),))])
    yield wire
    wire.end()


def state_of(wire: TestCluster) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return leader, replicas and ISR of the partition."""
    partition = wire.cluster.metadata.image.topics["t"].partitions[0]
    return partition.leader, partition.replicas, partition.isr


def unregister(wire: TestCluster, node_id: int, *, on: int = 1) -> tuple[int, str | None]:
    answer = wire.ask(UnregisterBrokerRequest(broker_id=node_id), 0, on)
    return answer.error_code, answer.error_message


def fenced_nodes(wire: TestCluster, version: int = 2) -> list[tuple[int, bool]]:
    request = DescribeClusterRequest(include_fenced_brokers=version > 1)
    return described_nodes(wire.ask(request, version))


def test_a_running_node_is_unregistered_until_it_is_started_again(wire: TestCluster) -> None:
    assert unregister(wire, 2) == (ErrorCode.NONE, "")
    assert state_of(wire) == (1, (2, 1), (1,))
    assert fenced_nodes(wire) == [(1, False), (3, False)]
    assert unregister(wire, 2) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Broker ID 2 is not currently registered",
    )
    # The node still answers its clients, as Kafka's does.
    assert described_nodes(wire.ask(DescribeClusterRequest(), 0, 2)) == [(1, False), (3, False)]
    wire.cluster.node_control.start(2)
    assert fenced_nodes(wire) == [(1, False), (2, False), (3, False)]
    assert state_of(wire) == (1, (2, 1), (1, 2))


def test_a_stopped_node_is_unregistered(wire: TestCluster) -> None:
    wire.cluster.node_control.stop(2)
    assert fenced_nodes(wire) == [(1, False), (2, True), (3, False)]
    assert fenced_nodes(wire, 1) == [(1, False), (3, False)]
    assert unregister(wire, 2) == (ErrorCode.NONE, "")
    assert fenced_nodes(wire) == [(1, False), (3, False)]
    wire.cluster.node_control.start(2)
    assert state_of(wire) == (1, (2, 1), (1, 2))


def test_an_isolated_node_is_unregistered_before_its_session_expires(wire: TestCluster) -> None:
    wire.cluster.node_control.isolate(2)
    assert unregister(wire, 2) == (ErrorCode.NONE, "")
    wire.clock.advance(60_000)
    assert state_of(wire) == (1, (2, 1), (1,))
    wire.cluster.node_control.start(2)
    assert state_of(wire) == (1, (2, 1), (1, 2))


def test_the_next_start_registers_all_nodes(wire: TestCluster) -> None:
    unregister(wire, 2)
    wire.restart()
    assert fenced_nodes(wire) == [(1, False), (2, False), (3, False)]
    assert state_of(wire) == (1, (2, 1), (2, 1))


def test_the_last_node_can_be_unregistered(wire: TestCluster) -> None:
    for node_id in (1, 2, 3):
        assert unregister(wire, node_id) == (ErrorCode.NONE, "")
    assert fenced_nodes(wire) == []
    assert state_of(wire) == (NO_LEADER, (2, 1), ())


def test_elections_of_every_kind_have_kafkas_error_codes(wire: TestCluster) -> None:
    def elect(kind: int) -> int:
        request = ElectLeadersRequest(
            election_type=kind, topic_partitions=[Partitions(topic="t", partitions=[0])]
        )
        ((result,),) = (
            row.partition_result for row in wire.ask(request, 2).replica_election_results
        )
        code: int = result.error_code
        return code

    control = wire.cluster.node_control
    assert [elect(kind) for kind in (0, 1)] == [ErrorCode.ELECTION_NOT_NEEDED] * 2
    control.stop(2)
    assert elect(0) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(1) == ErrorCode.ELECTION_NOT_NEEDED
    control.start(2)
    assert elect(0) == ErrorCode.NONE
    assert state_of(wire) == (2, (2, 1), (1, 2))
    control.stop(1)
    control.stop(2)
    assert state_of(wire)[0] == NO_LEADER
    assert elect(0) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(1) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    control.start(1)
    assert elect(1) == ErrorCode.NONE
    assert state_of(wire) == (1, (2, 1), (1,))


def cluster_with(*replicas: int) -> MetadataCluster:
    """Return a cluster with a topic "t" of one partition with these replicas."""
    cluster = MetadataCluster(nodes=(1, 2, 3))
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, replicas),))])
    return cluster


def partition_of(cluster: MetadataCluster) -> PartitionImage:
    return cluster.topic("t").partitions[0]


def elect_in(cluster: MetadataCluster, kind: ElectionType) -> ErrorCode | None:
    (error,) = cluster.controller.elect_leaders([("t", 0)], kind)
    return code_of(error)


def expand_isr(cluster: MetadataCluster, *isr: int) -> None:
    cluster.controller.alter_isr([(cluster.topic("t").topic_id, 0, isr)])


def test_preferred_replica_must_be_in_sync() -> None:
    cluster = cluster_with(1, 2)
    cluster.controller.fence(1)
    assert elect_in(cluster, ElectionType.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.controller.unfence(1)
    assert elect_in(cluster, ElectionType.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    expand_isr(cluster, 2, 1)
    assert elect_in(cluster, ElectionType.PREFERRED) is None
    assert (partition_of(cluster).leader, partition_of(cluster).leader_epoch) == (1, 2)
    assert elect_in(cluster, ElectionType.PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED


def leaderless_cluster() -> MetadataCluster:
    """Return a cluster in which node 2, which led last, is fenced; node 1 runs but is behind."""
    cluster = cluster_with(1, 2)
    cluster.controller.fence(1)
    cluster.controller.fence(2)
    cluster.controller.unfence(1)
    assert partition_of(cluster).leader == NO_LEADER
    return cluster


def test_partition_without_a_leader_needs_an_unclean_election_to_continue() -> None:
    cluster = leaderless_cluster()
    before = partition_of(cluster)
    assert (before.isr, before.elr, before.last_known_elr) == ((), (2,), (2,))
    assert elect_in(cluster, ElectionType.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect_in(cluster, ElectionType.UNCLEAN) is None
    after = partition_of(cluster)
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (1, (1,), (), ())
    assert after.is_recovering
    assert after.leader_epoch == before.leader_epoch + 1
    assert elect_in(cluster, ElectionType.UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    expand_isr(cluster, 1, 2)
    assert partition_of(cluster).is_recovering


RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}


@pytest.fixture
def racks(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster of four nodes in two racks."""
    node_config = {node_id: {"broker.rack": rack} for node_id, rack in RACKS.items()}
    wire = TestCluster(tmp_path, 4, {"broker.rack": "all"}, node_config=node_config)
    yield wire
    wire.end()


def test_failed_nodes_are_described_on_request(racks: TestCluster) -> None:
    racks.cluster.node_control.stop(2)
    for with_fenced in (False, True):
        request = DescribeClusterRequest(include_fenced_brokers=with_fenced)
        described = racks.ask(request, 2, node=3)
        fenced = {row.broker_id: row.is_fenced for row in described.brokers}
        expected = {1: False, 3: False, 4: False}
        assert fenced == ({**expected, 2: True} if with_fenced else expected)


def test_each_node_describes_its_own_rack(racks: TestCluster) -> None:
    for node_id, rack in RACKS.items():
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=ResourceType.BROKER,
            resource_name=f"{node_id}",
            configuration_keys=["broker.rack"],
        )
        answer = racks.ask(DescribeConfigsRequest(resources=[resource]), 4, node=node_id)
        (config,) = answer.results[0].configs
        assert (config.value, config.config_source) == (rack, ConfigSource.STATIC_BROKER)


def test_replicas_of_a_partition_are_in_different_racks(racks: TestCluster) -> None:
    racks.create("t", partitions=8, replication_factor=2)
    topic = racks.cluster.metadata.image.topics["t"]
    assert len({partition.leader for partition in topic.partitions}) == 4
    for partition in topic.partitions:
        assert {RACKS[node_id] for node_id in partition.replicas} == {"a", "b"}
