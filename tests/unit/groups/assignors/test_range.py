"""The range assignor: contiguous, co-partitioned, static members first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.groups.assignors.contract import GroupSpec, MemberSpec
from kafkalite.groups.assignors.range import assign_range

T1, T2 = (bytes([n]) * 16 for n in (1, 2))


def member(*topics: bytes, instance_id: str | None = None) -> MemberSpec:
    return MemberSpec(instance_id=instance_id, topic_ids=frozenset(topics))


def spec(members: dict[str, MemberSpec], counts: dict[bytes, int]) -> GroupSpec:
    return GroupSpec(members=members, partition_counts=counts, is_homogeneous=False)


def test_first_members_get_the_longer_ranges_of_each_topic() -> None:
    members = {"b": member(T1, T2), "a": member(T1, T2)}
    assert assign_range(spec(members, {T1: 3, T2: 5})) == {
        "a": {T1: {0, 1}, T2: {0, 1, 2}},
        "b": {T1: {2}, T2: {3, 4}},
    }


def test_static_members_are_sorted_before_dynamic_members_by_instance_id() -> None:
    members = {
        "a": member(T1),
        "z": member(T1, instance_id="i2"),
        "y": member(T1, instance_id="i3"),
    }
    assert assign_range(spec(members, {T1: 3})) == {"z": {T1: {0}}, "y": {T1: {1}}, "a": {T1: {2}}}


def test_last_members_get_nothing_if_there_are_fewer_partitions() -> None:
    assert assign_range(spec({"a": member(T1), "b": member(T1)}, {T1: 1})) == {
        "a": {T1: {0}},
        "b": {},
    }


@given(
    st.dictionaries(st.text(max_size=3), st.booleans(), min_size=1, max_size=8), st.integers(1, 20)
)
def test_ranges_equal_those_of_a_naive_implementation(who: dict[str, bool], count: int) -> None:
    """The naive implementation assigns partition after partition, longer ranges first."""
    members = {m: member(T1, *([T2] if both else [])) for m, both in who.items()}
    counts = {T1: count} | ({T2: count} if any(who.values()) else {})
    assignments = assign_range(spec(members, counts))
    for topic in counts:
        subscribers = sorted(m for m in who if topic in members[m].topic_ids)
        lengths = [len(range(i, count, len(subscribers))) for i in range(len(subscribers))]
        dealt = [m for m, length in zip(subscribers, lengths, strict=True) for _ in range(length)]
        assert dealt == [m for p in range(count) for m in who if p in assignments[m].get(topic, ())]
