"""Partitions are added to topics, never removed."""

from __future__ import annotations

import pytest

from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.partition_creation import NewPartitions
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.metadata import MetadataCluster


def cluster_with_topic() -> MetadataCluster:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.create_topics([NewTopic(name="t", partitions=2, replication_factor=2)])
    return cluster


def test_new_partitions_have_as_many_replicas_as_old_ones() -> None:
    cluster = cluster_with_topic()
    assert cluster.controller.create_partitions([NewPartitions(topic="t", partitions=5)]) == [None]
    assert [len(each.replicas) for each in cluster.topic("t").partitions] == [2] * 5
    assert [topic.name for topic in cluster.last_delta.changed] == ["t"]


def test_new_partitions_can_be_placed_by_hand() -> None:
    cluster = cluster_with_topic()
    growth = NewPartitions(topic="t", partitions=4, assignments=((2, 1), (1, 2)))
    assert cluster.controller.create_partitions([growth]) == [None]
    assert [each.replicas for each in cluster.topic("t").partitions[2:]] == [(2, 1), (1, 2)]


def test_another_number_of_replicas_is_refused() -> None:
    cluster = cluster_with_topic()
    growth = NewPartitions(topic="t", partitions=3, assignments=((1,),))
    (error,) = cluster.controller.create_partitions([growth])
    assert error is not None
    assert (error.code, error.message) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (
            "The manual partition assignment includes a partition with 1 replica(s), but this "
            "is not consistent with previous partitions, which have 2 replica(s)."
        ),
    )


@pytest.mark.parametrize("is_shut_down", [False, True], ids=["failed", "shut down"])
def test_new_partitions_have_no_fenced_node_in_sync(*, is_shut_down: bool) -> None:
    cluster = cluster_with_topic()
    if is_shut_down:
        cluster.controller.begin_shutdown(2)
    cluster.controller.fence(2)
    assert cluster.controller.create_partitions([NewPartitions(topic="t", partitions=4)]) == [None]
    assert [(each.replicas, each.isr) for each in cluster.topic("t").partitions[2:]] == [
        ((1, 2), (1,))
    ] * 2
    cluster.controller.create_topics([NewTopic(name="u", assignments=((0, (1, 2)),))])
    (error,) = cluster.controller.create_partitions(
        [NewPartitions(topic="u", partitions=2, assignments=((2, 1),))]
    )
    assert error is None
    (_, added) = cluster.topic("u").partitions
    assert (added.replicas, added.isr, added.leader) == ((2, 1), (1,), 1)


def test_new_partitions_on_fenced_nodes_only_are_refused() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, (1,)),))])
    cluster.controller.fence(2)
    growth = NewPartitions(topic="t", partitions=3, assignments=((1,), (2,)))
    (error,) = cluster.controller.create_partitions([growth])
    assert error is not None
    assert (error.code, error.message) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (
            "All brokers specified in the manual partition assignment for partition 2 are fenced "
            "or in controlled shutdown."
        ),
    )


def test_too_few_nodes_are_reported_without_the_prefix_of_new_topics() -> None:
    cluster = cluster_with_topic()
    cluster.controller.unregister_broker(2)
    (error,) = cluster.controller.create_partitions([NewPartitions(topic="t", partitions=3)])
    assert error is not None
    assert (error.code, error.message) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        (
            "The target replication factor of 2 cannot be reached because only 1 broker(s) are "
            "registered or some brokers have all their log directories cordoned."
        ),
    )


def test_the_partitions_of_all_topics_together_are_limited() -> None:
    requested = [NewPartitions("a", 6_000), NewPartitions("b", 6_000), NewPartitions("none", 9)]
    for release, is_limited in (("4.3", False), ("4.4", True)):
        cluster = MetadataCluster(as_version=release)
        topics = [NewTopic(name=name, partitions=1, replication_factor=1) for name in "ab"]
        cluster.controller.create_topics(topics)
        if is_limited:
            with pytest.raises(KafkaError) as refused:
                cluster.controller.create_partitions(requested)
            assert refused.value.code is ErrorCode.POLICY_VIOLATION
            requested[1:2] = []
        (*errors, unknown) = cluster.controller.create_partitions(requested, validate_only=True)
        assert not any(errors)
        assert unknown is not None
