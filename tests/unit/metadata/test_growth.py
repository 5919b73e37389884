"""Topics grow and never shrink."""

from __future__ import annotations

import pytest

from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.growth import Growth
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.metadata_world import MetadataWorld


def world_with_topic() -> MetadataWorld:
    world = MetadataWorld(nodes=(1, 2))
    world.controller.create_topics([NewTopic(name="t", partitions=2, replication_factor=2)])
    return world


def test_new_partitions_have_as_many_replicas_as_old_ones() -> None:
    world = world_with_topic()
    assert world.controller.create_partitions([Growth(topic="t", partitions=5)]) == [None]
    assert [len(each.replicas) for each in world.topic("t").partitions] == [2] * 5
    assert [topic.name for topic in world.last_delta.changed] == ["t"]


def test_new_partitions_can_be_placed_by_hand() -> None:
    world = world_with_topic()
    growth = Growth(topic="t", partitions=4, assignments=((2, 1), (1, 2)))
    assert world.controller.create_partitions([growth]) == [None]
    assert [each.replicas for each in world.topic("t").partitions[2:]] == [(2, 1), (1, 2)]


def test_asking_only_adds_nothing() -> None:
    world = world_with_topic()
    growths = [Growth(topic="t", partitions=9)]
    assert world.controller.create_partitions(growths, validate_only=True) == [None]
    assert len(world.topic("t").partitions) == 2


@pytest.mark.parametrize(
    ("growth", "code", "message"),
    [
        (Growth(topic="nope", partitions=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (
            Growth(topic="t", partitions=2),
            ErrorCode.INVALID_PARTITIONS,
            "Topic already has 2 partition(s).",
        ),
        (
            Growth(topic="t", partitions=1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            Growth(topic="t", partitions=20_000),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
        (
            Growth(topic="t", partitions=5, assignments=((1, 2),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 3 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            Growth(topic="t", partitions=3, assignments=((1,),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                "The manual partition assignment includes a partition with 1 replica(s), but this "
                "is not consistent with previous partitions, which have 2 replica(s)."
            ),
        ),
    ],
)
def test_refusals(growth: Growth, code: ErrorCode, message: str | None) -> None:
    world = world_with_topic()
    (error,) = world.controller.create_partitions([growth])
    assert error is not None
    assert (error.code, error.message) == (code, message)
