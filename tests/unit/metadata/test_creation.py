"""New topics: each invalid one is refused, and the others are created."""

from __future__ import annotations

import pytest

from kafkalite.metadata.creation import NewTopic
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.metadata import MetadataCluster


def test_topic_is_created_with_its_settings() -> None:
    cluster = MetadataCluster(nodes=(1, 2, 3))
    (made,) = cluster.controller.create_topics(
        [NewTopic(name="t", partitions=4, replication_factor=2, configs={"retention.ms": "5"})]
    )
    topic = cluster.topic("t")
    assert made.error is None
    assert (made.topic_id, made.partitions, made.replication_factor) == (topic.topic_id, 4, 2)
    assert cluster.image.topics_by_id[topic.topic_id] is topic
    assert [partition.index for partition in topic.partitions] == [0, 1, 2, 3]
    for partition in topic.partitions:
        assert partition.leader == partition.replicas[0]
        assert partition.isr == partition.replicas
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert cluster.image.topic_config("t") == {"retention.ms": "5"}


def test_omitted_counts_are_the_brokers_defaults() -> None:
    cluster = MetadataCluster(nodes=(1, 2), num_partitions="3", default_replication_factor="2")
    (made,) = cluster.controller.create_topics([NewTopic(name="t")])
    assert (made.partitions, made.replication_factor) == (3, 2)


REFUSED = [
    (
        NewTopic(name="like_this"),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'like_this' collides with existing topic: like.this",
    ),
    (
        NewTopic(name="t", configs={"foo": "1"}),
        ErrorCode.INVALID_CONFIG,
        "Unknown topic config name: foo",
    ),
    (
        NewTopic(name="t", configs={"b": None, "a": None}),
        ErrorCode.INVALID_CONFIG,
        "Null value not supported for topic configs: a,b",
    ),
    (
        NewTopic(name="t", partitions=1, assignments=((0, (1,)),)),
        ErrorCode.INVALID_REQUEST,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    (
        NewTopic(name="t", replication_factor=1, assignments=((0, (1,)),)),
        ErrorCode.INVALID_REQUEST,
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    (
        NewTopic(name="t", assignments=((0, (1,)), (0, (1,)))),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Found multiple manual partition assignments for partition 0",
    ),
    (
        NewTopic(name="t", assignments=((0, ()),)),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes an empty replica list.",
    ),
    (
        NewTopic(name="t", assignments=((0, (1, 2)), (1, (1,)))),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (
            "The manual partition assignment includes a partition with 1 replica(s), but this is "
            "not consistent with previous partitions, which have 2 replica(s)."
        ),
    ),
]


@pytest.mark.parametrize(("new", "code", "message"), REFUSED)
def test_refusals_have_kafkas_codes_and_messages(
    new: NewTopic, code: ErrorCode, message: str
) -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.create_topics([NewTopic(name="like.this")])
    entries = len(cluster.log.entries)
    (outcome,) = cluster.controller.create_topics([new])
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == (code, message)
    assert len(cluster.log.entries) == entries


def test_manual_assignment_is_used_unchanged() -> None:
    cluster = MetadataCluster(nodes=(1, 2, 3))
    cluster.controller.create_topics([NewTopic(name="t", assignments=((1, (3, 1)), (0, (2, 3))))])
    assert [each.replicas for each in cluster.topic("t").partitions] == [(2, 3), (3, 1)]


def test_a_request_for_too_many_partitions_is_refused() -> None:
    cluster = MetadataCluster()
    topics = [NewTopic(name=f"t{index}", partitions=6_000) for index in range(2)]
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.create_topics(topics)
    assert refusal.value.code is ErrorCode.POLICY_VIOLATION
    assert cluster.image.topics == {}


def shut_down(cluster: MetadataCluster, node_id: int) -> None:
    """Begin a controlled shutdown, whose record is written only for a node that leads."""
    cluster.controller.create_topics([NewTopic(name="led", assignments=((0, (node_id,)),))])
    cluster.controller.begin_shutdown(node_id)
    assert cluster.image.brokers[node_id].is_shutting_down


@pytest.mark.parametrize("is_shut_down", [False, True], ids=["failed", "shut down"])
def test_a_fenced_node_follows_but_is_not_in_sync(*, is_shut_down: bool) -> None:
    cluster = MetadataCluster(nodes=(1, 2, 3))
    if is_shut_down:
        shut_down(cluster, 2)
    cluster.controller.fence(2)
    cluster.controller.create_topics(
        [
            NewTopic(name="t", partitions=4, replication_factor=3),
            NewTopic(name="manual", assignments=((0, (2, 3)),)),
        ]
    )
    for partition in cluster.topic("t").partitions:
        assert partition.replicas[2] == 2
        assert partition.isr == partition.replicas[:2]
        assert partition.leader == partition.replicas[0]
    (manual,) = cluster.topic("manual").partitions
    assert (manual.replicas, manual.isr, manual.leader) == ((2, 3), (3,), 3)


def test_replicas_on_fenced_nodes_only_are_refused() -> None:
    cluster = MetadataCluster(nodes=(1, 2, 3))
    cluster.controller.fence(2)
    cluster.controller.fence(3)
    new_topic = NewTopic(name="t", assignments=((0, (1, 2)), (1, (2, 3))))
    (creation,) = cluster.controller.create_topics([new_topic])
    assert creation.error is not None
    assert (creation.error.code, creation.error.message) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (
            "All brokers specified in the manual partition assignment for partition 1 are fenced "
            "or in controlled shutdown."
        ),
    )


def test_registered_nodes_limit_the_replication_factor_also_if_they_are_fenced() -> None:
    cluster = MetadataCluster(nodes=(1, 2, 3))
    cluster.controller.fence(2)
    cluster.controller.unregister_broker(3)
    new_topics = [
        NewTopic(name="two", replication_factor=2), NewTopic(name="three", replication_factor=3)
    ]  # fmt: skip
    two, three = cluster.controller.create_topics(new_topics)
    assert two.error is None
    assert three.error is not None
    assert three.error.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 2 broker(s) are registered" in (three.error.message or "")
