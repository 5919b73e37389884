"""Fields of messages in a version, and the scopes of their counters."""

from __future__ import annotations

import pytest

from kafkalite.capture.model import Direction
from kafkalite.capture.reading.messages import is_known
from kafkalite.lab.replay.comparison.shapes import Shape, shape_of
from kafkalite.lab.replay.rewriting.id_mapping import IdMapping, Scope, ValueKind
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest


def test_shape_has_the_fields_of_its_version() -> None:
    old = shape_of(1, 11, Direction.REQUEST)
    new = shape_of(1, 13, Direction.REQUEST)
    (old_topics,) = (branch for branch in old.branches if branch.name == "topics")
    (new_topics,) = (branch for branch in new.branches if branch.name == "topics")
    assert [leaf.name for leaf in old_topics.shape.leaves] == ["topic"]
    assert [leaf.name for leaf in new_topics.shape.leaves] == ["topic_id"]
    assert ValueKind.TOPIC_ID not in old.kinds
    assert {
        ValueKind.TOPIC_ID,
        ValueKind.SESSION,
        ValueKind.OFFSET,
        ValueKind.LEADER_EPOCH,
    } <= new.kinds


def paths(shape: Shape) -> set[str]:
    below = (paths(branch.shape) for branch in shape.branches)
    return {leaf.path for leaf in shape.leaves}.union(*below)


@pytest.mark.parametrize("direction", Direction)
def test_shape_without_version_has_the_fields_of_all_versions(direction: Direction) -> None:
    """It has no other fields, such as the limits of ShareFetch v0, which Kafka dropped."""
    for api_key in codec.api_keys():
        known = [index for index in range(32) if is_known(api_key, index)]
        paths_by_version = (paths(shape_of(api_key, version, direction)) for version in known)
        assert paths(shape_of(api_key, None, direction)) == set().union(*paths_by_version)


def test_scope_has_the_topic_name_instead_of_the_id() -> None:
    mapping = IdMapping()
    mapping.topic_names[b"x" * 16] = "orders"
    shape = shape_of(1, 13, Direction.REQUEST)
    (topics,) = (branch for branch in shape.branches if branch.name == "topics")
    partition = FetchRequest.FetchPartition(partition=3)
    topic = FetchRequest.FetchTopic(topic_id=b"x" * 16, partitions=[partition])
    scope = topics.shape.scope(topic, Scope(), mapping)
    (partitions,) = topics.shape.branches
    assert partitions.shape.scope(partition, scope, mapping) == Scope(topic="orders", partition=3)


def test_scope_has_the_group() -> None:
    shape = shape_of(8, 9, Direction.REQUEST)
    request = OffsetCommitRequest(group_id="g")
    assert shape.scope(request, Scope(), IdMapping()).group == "g"
