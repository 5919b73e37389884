"""DescribeCluster and ElectLeaders."""

from __future__ import annotations

from kafkalite.apis.cluster import APIS
from kafkalite.metadata.creation import NewTopic
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.metadata_world import MetadataWorld

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
