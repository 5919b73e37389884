"""Leaders after a start with any set of nodes, and the incarnation epochs of partitions."""

from __future__ import annotations

import pytest

from kafkalite.metadata.changes import Changes
from kafkalite.metadata.controller import MetadataSerde
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.partition_creation import NewPartitions
from kafkalite.metadata.topics import Topics
from kafkalite.protocol._generated.records.partition import PartitionRecord
from kafkalite.protocol._generated.records.remove_topic import RemoveTopicRecord
from kafkalite.protocol._generated.records.topic import TopicRecord
from tests.cluster.metadata import MetadataCluster

ID, OTHER_ID = bytes(15) + b"1", bytes(15) + b"2"


@pytest.mark.parametrize("before", [(1,), (1, 2, 3), (4, 5)])
@pytest.mark.parametrize("after", [(1,), (2,), (1, 2, 3), (7, 8)])
def test_every_partition_has_a_live_leader(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    first = MetadataCluster(nodes=before)
    first.controller.create_topics(
        [NewTopic(name="t", partitions=6, replication_factor=len(before))]
    )
    old = first.topic("t")
    cluster = first.restart(*after)
    assert set(cluster.image.brokers) == set(after)
    for was, partition in zip(old.partitions, cluster.topic("t").partitions, strict=True):
        assert partition.leader in after
        assert partition.leader in partition.isr
        assert set(partition.isr) == set(partition.replicas) & set(after)
        moved = partition.leader != was.leader
        assert partition.leader_epoch == was.leader_epoch + moved
        assert cluster.topic("t").topic_id == old.topic_id


def test_absent_replicas_remain_replicas() -> None:
    first = MetadataCluster(nodes=(1, 2, 3))
    first.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2, 3)),))])
    second = first.restart(2)
    away = second.topic("t").partitions[0]
    assert (away.replicas, away.isr, away.leader, away.leader_epoch) == ((1, 2, 3), (2,), 2, 1)
    back = second.restart(1, 2, 3).topic("t").partitions[0]
    assert (back.isr, back.leader, back.leader_epoch) == ((1, 2, 3), 2, 1)


def test_a_start_with_the_same_nodes_only_registers_them() -> None:
    first = MetadataCluster(nodes=(1, 2))
    first.controller.create_topics([NewTopic(name="t", replication_factor=2)])
    entries = len(first.log.entries)
    second = first.restart(1, 2)
    assert len(first.log.entries) == entries + len(second.image.brokers)
    assert second.image.topics == first.image.topics


def test_recreated_topic_has_another_id() -> None:
    cluster = MetadataCluster()
    cluster.controller.create_topics([NewTopic(name="t", configs={"retention.ms": "5"})])
    old = cluster.topic("t").topic_id
    cluster.controller.delete_topics([old])
    assert (cluster.image.topics, cluster.image.topic_config("t")) == ({}, {})
    cluster.controller.create_topics([NewTopic(name="t")])
    assert cluster.topic("t").topic_id != old
    assert list(cluster.image.topics_by_id) == [cluster.topic("t").topic_id]


def test_truncation_by_a_new_leader_remains_in_the_image() -> None:
    """Later leaders may have no reason to truncate, although a crash prevented the truncation."""
    cluster = MetadataCluster(nodes=(1, 2, 3))
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2, 3)),))])

    def truncation(cluster: MetadataCluster) -> tuple[int, int, int]:
        (partition,) = cluster.topic("t").partitions
        return partition.leader_epoch, partition.epoch_start_offset, partition.truncation_epoch

    assert truncation(cluster) == (0, -1, -1)
    cluster.controller.move_leader("t", 0, 2)
    assert truncation(cluster) == (1, -1, -1)
    cluster.controller.truncate_at(lambda *_: 50)
    cluster.controller.move_leader("t", 0, 3)
    assert truncation(cluster) == (2, 50, 2)
    cluster.controller.truncate_at(lambda *_: -1)
    cluster.controller.move_leader("t", 0, 1)
    cluster.controller.fence(1)
    assert truncation(cluster) == (4, 50, 2)
    cluster.controller.truncate_at(lambda *_: 40)
    cluster.controller.fence(2)
    assert truncation(cluster) == (5, 40, 5)
    assert truncation(cluster.restart(1)) == (6, 40, 5)
    assert truncation(cluster.restart(7)) == (7, 40, 5)


def epochs_of(cluster: MetadataCluster, topic: str) -> list[int]:
    return [partition.incarnation_epoch for partition in cluster.topic(topic).partitions]


def test_each_created_partition_has_the_next_incarnation_epoch() -> None:
    cluster = MetadataCluster()
    assert cluster.image.max_incarnation_epoch == 0
    cluster.controller.create_topics([NewTopic(name="t", partitions=2), NewTopic(name="u")])
    assert (epochs_of(cluster, "t"), epochs_of(cluster, "u")) == ([1, 2], [3])
    assert cluster.image.max_incarnation_epoch == 3
    cluster.controller.create_partitions([NewPartitions("t", 4), NewPartitions("u", 2)])
    assert (epochs_of(cluster, "t"), epochs_of(cluster, "u")) == ([1, 2, 4, 5], [3, 6])
    assert cluster.image.max_incarnation_epoch == 6


def test_each_deleted_topic_increases_the_largest_incarnation_epoch() -> None:
    cluster = MetadataCluster()
    cluster.controller.create_topics([NewTopic(name="t", partitions=2), NewTopic(name="u")])
    cluster.controller.delete_topics([cluster.topic("t").topic_id, cluster.topic("u").topic_id])
    assert cluster.image.max_incarnation_epoch == 5
    cluster.controller.create_topics([NewTopic(name="t")])
    assert epochs_of(cluster, "t") == [6]


def test_refused_and_validated_requests_do_not_count() -> None:
    cluster = MetadataCluster()
    cluster.controller.create_topics([NewTopic(name="."), NewTopic(name="t")])
    cluster.controller.create_topics([NewTopic(name="u")], validate_only=True)
    cluster.controller.create_partitions([NewPartitions("t", 5)], validate_only=True)
    cluster.controller.delete_topics([b"n" * 16])
    assert (epochs_of(cluster, "t"), cluster.image.max_incarnation_epoch) == ([1], 1)


def test_a_new_leader_keeps_the_incarnation_epoch() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    cluster.controller.move_leader("t", 0, 2)
    (partition,) = cluster.topic("t").partitions
    assert (partition.leader_epoch, partition.incarnation_epoch) == (1, 1)


def test_incarnation_epochs_are_in_the_log() -> None:
    first = MetadataCluster()
    first.controller.create_topics([NewTopic(name="t", partitions=2), NewTopic(name="u")])
    first.controller.delete_topics([first.topic("t").topic_id])
    cluster = first.restart(1)
    assert (epochs_of(cluster, "u"), cluster.image.max_incarnation_epoch) == ([3], 4)
    records = [MetadataSerde().decode(*entry) for entry in cluster.log.read_all()]
    values = [record.value for record in records if record is not None]
    assert [each.incarnation_epoch for each in values if isinstance(each, PartitionRecord)] == [
        1, 2, 3,
    ]  # fmt: skip
    assert [each.incarnation_epoch for each in values if isinstance(each, RemoveTopicRecord)] == [4]


def test_records_without_incarnation_epochs_are_counted() -> None:
    """A log of Kafka or of an older release; later records have tags."""
    topics = Topics(Changes())
    topics.replay_topic(TopicRecord(name="t", topic_id=ID))
    topics.replay_partition(PartitionRecord(partition_id=0, topic_id=ID))
    topics.replay_partition(PartitionRecord(partition_id=1, topic_id=ID))
    topics.replay_topic(TopicRecord(name="u", topic_id=OTHER_ID))
    topics.replay_partition(PartitionRecord(partition_id=0, topic_id=OTHER_ID))
    topics.replay_remove_topic(RemoveTopicRecord(topic_id=OTHER_ID))
    assert [each.incarnation_epoch for each in topics.by_id[ID].image().partitions] == [1, 2]
    assert topics.max_incarnation_epoch == 4
    added = [PartitionRecord(partition_id=2, topic_id=ID)]
    topics.set_incarnation_epochs(added)
    topics.replay_partition(added[0])
    assert topics.by_id[ID].partitions[2].incarnation_epoch == topics.max_incarnation_epoch == 5
