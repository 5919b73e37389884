"""How far share state has come: one value after the other."""

from __future__ import annotations

from kafkalite.groups.share.states import NO_PARTITIONS, NamedPartitions, SharePartitions
from tests.unit.groups.consumer.stage import image_of, topic_id

T, U = topic_id("T"), topic_id("U")
IMAGE = image_of({"T": 3, "U": 1})


def named(*partitions: int, name: str = "T") -> NamedPartitions:
    return NamedPartitions(name, frozenset(partitions))


def test_state_is_asked_for_and_comes_part_by_part() -> None:
    begun = NO_PARTITIONS.begun({T: named(0, 1, 2)})
    half = begun.done({T: named(0)})
    assert half == SharePartitions(initializing={T: named(1, 2)}, initialized={T: named(0)})
    assert half.unfinished() == {T: [1, 2]}
    assert half.done({T: named(1, 2)}) == SharePartitions(initialized={T: named(0, 1, 2)})


def test_what_is_missing_depends_on_what_is_under_way() -> None:
    half = SharePartitions(initializing={T: named(1)}, initialized={T: named(0)})
    assert half.uninitialized([T, U], IMAGE, {T}) == {T: named(2), U: named(0, name="U")}
    assert half.uninitialized([T], IMAGE, ()) == {T: named(1, 2)}
    full = SharePartitions(initialized={T: named(0, 1, 2)})
    assert full.uninitialized([T], IMAGE, ()) == {}


def test_what_starts_anew_is_not_asked_for_again() -> None:
    altered = SharePartitions(initialized={T: named(0, 1, 2)}).begun({T: named(1)})
    assert altered.unfinished() == {}


def test_a_topic_without_partitions_to_start_stays_as_it_is() -> None:
    odd = NO_PARTITIONS.begun({T: named()})
    assert odd.done({U: named(0, name="U")}).initializing == {T: named()}


def test_deleting_names_every_partition_that_may_have_a_state() -> None:
    partitions = SharePartitions(
        initializing={T: named(0)}, initialized={T: named(1)}, deleting={U: "U", b"gone": "gone"}
    )
    doomed, every = partitions.giving_up_all(IMAGE)
    assert every == {T: [0, 1], U: [0]}
    assert doomed == SharePartitions(deleting={T: "T", U: "U"})
    assert doomed.given_up([T]) == SharePartitions(deleting={U: "U"})
    assert partitions.topic_ids() == {T, U, b"gone"}
    assert partitions.forgotten([T, U, b"gone"]) == NO_PARTITIONS
