"""Partitions have a live leader at every start, with any set of nodes."""

from __future__ import annotations

import pytest

from kafkalite.metadata.creation import NewTopic
from tests.unit.metadata_world import MetadataWorld


@pytest.mark.parametrize("before", [(1,), (1, 2, 3), (4, 5)])
@pytest.mark.parametrize("after", [(1,), (2,), (1, 2, 3), (7, 8)])
def test_every_partition_has_a_live_leader(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    first = MetadataWorld(nodes=before)
    first.controller.create_topics(
        [NewTopic(name="t", partitions=6, replication_factor=len(before))]
    )
    old = first.topic("t")
    world = first.restart(*after)
    assert set(world.image.brokers) == set(after)
    for was, partition in zip(old.partitions, world.topic("t").partitions, strict=True):
        assert partition.leader in after
        assert partition.leader in partition.isr
        assert set(partition.isr) == set(partition.replicas) & set(after)
        moved = partition.leader != was.leader
        assert partition.leader_epoch == was.leader_epoch + moved
        assert world.topic("t").topic_id == old.topic_id


def test_absent_replicas_remain_replicas() -> None:
    first = MetadataWorld(nodes=(1, 2, 3))
    first.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2, 3)),))])
    second = first.restart(2)
    away = second.topic("t").partitions[0]
    assert (away.replicas, away.isr, away.leader, away.leader_epoch) == ((1, 2, 3), (2,), 2, 1)
    back = second.restart(1, 2, 3).topic("t").partitions[0]
    assert (back.isr, back.leader, back.leader_epoch) == ((1, 2, 3), 2, 1)


def test_a_start_that_changes_nothing_writes_nothing() -> None:
    first = MetadataWorld(nodes=(1, 2))
    first.controller.create_topics([NewTopic(name="t", replication_factor=2)])
    entries = len(first.log.entries)
    first.restart(1, 2)
    assert len(first.log.entries) == entries


def test_recreated_topic_has_another_id() -> None:
    world = MetadataWorld()
    world.controller.create_topics([NewTopic(name="t", configs={"retention.ms": "5"})])
    old = world.topic("t").topic_id
    world.controller.delete_topics([old])
    assert (world.image.topics, world.image.topic_config("t")) == ({}, {})
    world.controller.create_topics([NewTopic(name="t")])
    assert world.topic("t").topic_id != old
    assert list(world.image.topics_by_id) == [world.topic("t").topic_id]


def test_truncation_by_a_new_leader_remains_in_the_image() -> None:
    """Later leaders may have no reason to truncate, although a crash prevented the truncation."""
    world = MetadataWorld(nodes=(1, 2, 3))
    world.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2, 3)),))])

    def truncation(world: MetadataWorld) -> tuple[int, int, int]:
        (partition,) = world.topic("t").partitions
        return partition.leader_epoch, partition.epoch_start_offset, partition.truncation_epoch

    assert truncation(world) == (0, -1, -1)
    world.controller.move_leader("t", 0, 2)
    assert truncation(world) == (1, -1, -1)
    world.controller.truncate_at(lambda *_: 50)
    world.controller.move_leader("t", 0, 3)
    assert truncation(world) == (2, 50, 2)
    world.controller.truncate_at(lambda *_: -1)
    world.controller.move_leader("t", 0, 1)
    world.controller.fence(1)
    assert truncation(world) == (4, 50, 2)
    world.controller.truncate_at(lambda *_: 40)
    world.controller.fence(2)
    assert truncation(world) == (5, 40, 5)
    assert truncation(world.restart(1)) == (6, 40, 5)
    assert truncation(world.restart(7)) == (7, 40, 5)
