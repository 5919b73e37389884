"""SharePartitions: initialization and deletion of share state."""

from __future__ import annotations

from kafkalite.groups.share.share_partitions import NO_PARTITIONS, NamedPartitions, SharePartitions
from tests.unit.groups.consumer.stage import image_of, topic_id

T, U = topic_id("T"), topic_id("U")
IMAGE = image_of({"T": 3, "U": 1})


def named(*partitions: int, name: str = "T") -> NamedPartitions:
    return NamedPartitions(name, frozenset(partitions))


def test_partitions_become_initialized_one_by_one() -> None:
    started = NO_PARTITIONS.with_initializing({T: named(0, 1, 2)})
    half = started.with_initialized({T: named(0)})
    assert half == SharePartitions(initializing={T: named(1, 2)}, initialized={T: named(0)})
    assert half.incomplete() == {T: [1, 2]}
    assert half.with_initialized({T: named(1, 2)}) == SharePartitions(
        initialized={T: named(0, 1, 2)}
    )


def test_initializing_partitions_are_not_missing() -> None:
    half = SharePartitions(initializing={T: named(1)}, initialized={T: named(0)})
    assert half.uninitialized([T, U], IMAGE, {T}) == {T: named(2), U: named(0, name="U")}
    assert half.uninitialized([T], IMAGE, ()) == {T: named(1, 2)}
    full = SharePartitions(initialized={T: named(0, 1, 2)})
    assert full.uninitialized([T], IMAGE, ()) == {}


def test_reinitialized_partitions_are_not_missing() -> None:
    altered = SharePartitions(initialized={T: named(0, 1, 2)}).with_initializing({T: named(1)})
    assert altered.incomplete() == {}


def test_a_topic_without_partitions_remains_unchanged() -> None:
    odd = NO_PARTITIONS.with_initializing({T: named()})
    assert odd.with_initialized({U: named(0, name="U")}).initializing == {T: named()}


def test_deletion_covers_every_partition_that_may_have_a_state() -> None:
    partitions = SharePartitions(
        initializing={T: named(0)}, initialized={T: named(1)}, deleting={U: "U", b"gone": "gone"}
    )
    doomed, every = partitions.with_all_deleting(IMAGE)
    assert every == {T: [0, 1], U: [0]}
    assert doomed == SharePartitions(deleting={T: "T", U: "U"})
    assert doomed.with_deleted([T]) == SharePartitions(deleting={U: "U"})
    assert partitions.topic_ids() == {T, U, b"gone"}
    assert partitions.without_topics([T, U, b"gone"]) == NO_PARTITIONS
