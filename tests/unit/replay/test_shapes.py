"""What messages are made of in a version, and whose counters stand in them."""

from __future__ import annotations

import pytest

from kafkalite.capture.messages import is_known
from kafkalite.capture.model import Direction
from kafkalite.protocol import codec
from kafkalite.protocol.messages.fetch import FetchRequest
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.replay.mapping import Kind, Mapping, Scope
from kafkalite.replay.shapes import Shape, shape_of


def test_a_shape_has_the_fields_of_its_version() -> None:
    old = shape_of(1, 11, Direction.REQUEST)
    new = shape_of(1, 13, Direction.REQUEST)
    (topics_then,) = (branch for branch in old.branches if branch.name == "topics")
    (topics_now,) = (branch for branch in new.branches if branch.name == "topics")
    assert [leaf.name for leaf in topics_then.shape.leaves] == ["topic"]
    assert [leaf.name for leaf in topics_now.shape.leaves] == ["topic_id"]
    assert Kind.TOPIC_ID not in old.kinds
    assert {Kind.TOPIC_ID, Kind.SESSION, Kind.OFFSET, Kind.LEADER_EPOCH} <= new.kinds


def paths(shape: Shape) -> set[str]:
    below = (paths(branch.shape) for branch in shape.branches)
    return {leaf.path for leaf in shape.leaves}.union(*below)


@pytest.mark.parametrize("direction", Direction)
def test_without_a_version_it_has_the_fields_of_all_that_are_known(direction: Direction) -> None:
    """And no others: ShareFetch v0, which Kafka dropped, had limits that no message has now."""
    for api_key in codec.api_keys():
        known = [each for each in range(32) if is_known(api_key, each)]
        each_of = (paths(shape_of(api_key, version, direction)) for version in known)
        assert paths(shape_of(api_key, None, direction)) == set().union(*each_of)


def test_a_scope_names_the_partition_by_its_topics_name() -> None:
    meaning = Mapping()
    meaning.topics[b"x" * 16] = "orders"
    shape = shape_of(1, 13, Direction.REQUEST)
    (topics,) = (branch for branch in shape.branches if branch.name == "topics")
    partition = FetchRequest.FetchPartition(partition=3)
    topic = FetchRequest.FetchTopic(topic_id=b"x" * 16, partitions=[partition])
    scope = topics.shape.scope(topic, Scope(), meaning)
    (partitions,) = topics.shape.branches
    assert partitions.shape.scope(partition, scope, meaning) == Scope(topic="orders", partition=3)


def test_a_scope_names_the_group() -> None:
    shape = shape_of(8, 9, Direction.REQUEST)
    request = OffsetCommitRequest(group_id="g")
    assert shape.scope(request, Scope(), Mapping()).group == "g"
