"""DescribeCluster and ElectLeaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.cluster import APIS
from kafkalite.config.layers import ConfigSource
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ResourceType
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.apis.cluster_wire import ClusterWire
from tests.unit.metadata_world import MetadataWorld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DESCRIBE, ELECT = APIS
Partitions = ElectLeadersRequest.TopicPartitions


def test_the_response_has_the_nodes_of_one_listener() -> None:
    world = MetadataWorld(racks={1: None, 2: "r"})
    answer = world.ask(
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
    silent = world.ask(DESCRIBE, DescribeClusterRequest())
    assert silent.cluster_authorized_operations == -(1 << 31)


def test_controller_endpoints_are_not_supported() -> None:
    for kind, code in (
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ):
        answer = MetadataWorld().ask(DESCRIBE, DescribeClusterRequest(endpoint_type=kind))
        assert (answer.error_code, answer.endpoint_type, answer.brokers) == (code, 1, [])
        assert answer.error_message


def cluster_after_failover() -> MetadataWorld:
    """Return a cluster whose node 1 was away and is back: node 2 leads all of "t"."""
    first = MetadataWorld(nodes=(1, 2))
    assignments = ((0, (1, 2)), (1, (2, 1)))
    first.controller.create_topics([NewTopic(name="t", assignments=assignments)])
    return first.restart(2).restart(1, 2)


def test_every_requested_partition_has_a_result() -> None:
    world = cluster_after_failover()
    asked = [Partitions(topic="t", partitions=[0, 1]), Partitions(topic="nope", partitions=[0])]
    answer = world.ask(ELECT, ElectLeadersRequest(topic_partitions=asked))
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
    assert world.topic("t").partitions[0].leader == 1


def test_without_a_list_only_changed_partitions_have_results() -> None:
    world = cluster_after_failover()
    answer = world.ask(ELECT, ElectLeadersRequest(topic_partitions=None))
    (result,) = answer.replica_election_results
    assert [each.partition_id for each in result.partition_result] == [0]
    again = world.ask(ELECT, ElectLeadersRequest(topic_partitions=None))
    assert [each.partition_result for each in again.replica_election_results] == [[]]


def test_an_unknown_election_type_is_refused() -> None:
    asked = [Partitions(topic="t", partitions=[0])]
    answer = cluster_after_failover().ask(
        ELECT, ElectLeadersRequest(election_type=9, topic_partitions=asked)
    )
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    (result,) = answer.replica_election_results
    assert [each.error_code for each in result.partition_result] == [ErrorCode.INVALID_REQUEST]


RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}


@pytest.fixture
def racks(tmp_path: Path) -> Iterator[ClusterWire]:
    """Return a cluster of four nodes in two racks."""
    node_config = {node_id: {"broker.rack": rack} for node_id, rack in RACKS.items()}
    wire = ClusterWire(tmp_path, 4, {"broker.rack": "all"}, node_config=node_config)
    yield wire
    wire.end()


def test_each_node_has_its_own_rack(racks: ClusterWire) -> None:
    described = racks.ask(DescribeClusterRequest(), 1)
    assert {row.broker_id: row.rack for row in described.brokers} == RACKS
    metadata = racks.ask(MetadataRequest(topics=[]), 12, node=2)
    assert {row.node_id: row.rack for row in metadata.brokers} == RACKS


def test_failed_nodes_are_described_on_request(racks: ClusterWire) -> None:
    racks.cluster.node_control.stop(2)
    for with_fenced in (False, True):
        request = DescribeClusterRequest(include_fenced_brokers=with_fenced)
        described = racks.ask(request, 2, node=3)
        fenced = {row.broker_id: row.is_fenced for row in described.brokers}
        expected = {1: False, 3: False, 4: False}
        assert fenced == ({**expected, 2: True} if with_fenced else expected)


def test_each_node_describes_its_own_rack(racks: ClusterWire) -> None:
    for node_id, rack in RACKS.items():
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=ResourceType.BROKER,
            resource_name=f"{node_id}",
            configuration_keys=["broker.rack"],
        )
        answer = racks.ask(DescribeConfigsRequest(resources=[resource]), 4, node=node_id)
        (config,) = answer.results[0].configs
        assert (config.value, config.config_source) == (rack, ConfigSource.STATIC_BROKER)


def test_replicas_of_a_partition_are_in_different_racks(racks: ClusterWire) -> None:
    racks.create("t", partitions=8, replication_factor=2)
    topic = racks.cluster.metadata.image.topics["t"]
    assert len({partition.leader for partition in topic.partitions}) == 4
    for partition in topic.partitions:
        assert {RACKS[node_id] for node_id in partition.replicas} == {"a", "b"}
