"""The uniform assignor: known assignments, and its properties on random groups."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kafkalite.groups.assignors.contract import Assignment, GroupSpec, MemberSpec
from kafkalite.groups.assignors.uniform import assign_uniform

if TYPE_CHECKING:
    from collections.abc import Mapping

T1, T2, T3 = (bytes([n]) * 16 for n in (1, 2, 3))


def group(
    subscriptions: Mapping[str, set[bytes]],
    counts: Mapping[bytes, int],
    previous: Mapping[str, Assignment] | None = None,
) -> GroupSpec:
    subscribed = set().union(*subscriptions.values()) if subscriptions else set()
    return GroupSpec(
        members={
            member_id: MemberSpec(
                instance_id=None,
                topic_ids=frozenset(topics),
                previous=(previous or {}).get(member_id, {}),
            )
            for member_id, topics in subscriptions.items()
        },
        partition_counts={topic: counts[topic] for topic in subscribed},
        is_homogeneous=all(topics == subscribed for topics in subscriptions.values()),
    )


def sizes(assignments: Mapping[str, Assignment]) -> dict[str, int]:
    return {m: sum(map(len, assignment.values())) for m, assignment in assignments.items()}


def owners(assignments: Mapping[str, Assignment]) -> dict[tuple[bytes, int], str]:
    pairs = [
        ((topic, partition), member)
        for member, assignment in assignments.items()
        for topic, partitions in assignment.items()
        for partition in partitions
    ]
    assert len(dict(pairs)) == len(pairs), "a partition was given twice"
    return dict(pairs)


def test_a_new_group_fills_members_in_order_and_the_last_get_the_extras() -> None:
    spec = group({"m0": {T1}, "m1": {T1}, "m2": {T1}}, {T1: 7})
    assert assign_uniform(spec) == {
        "m0": {T1: {0, 1}},
        "m1": {T1: {2, 3}},
        "m2": {T1: {4, 5, 6}},
    }


def test_a_new_member_gets_the_highest_partitions_of_the_others() -> None:
    spec = group({"a": {T1}, "b": {T1}}, {T1: 4}, {"a": {T1: frozenset(range(4))}})
    assert assign_uniform(spec) == {"a": {T1: {0, 1}}, "b": {T1: {2, 3}}}


def test_a_member_with_an_extra_partition_retains_it() -> None:
    previous = {"a": {T1: frozenset({0})}, "b": {T1: frozenset({1, 2})}}
    spec = group({"a": {T1}, "b": {T1}}, {T1: 3}, previous)
    assert assign_uniform(spec) == previous


def test_a_topic_without_subscribers_is_unassigned() -> None:
    spec = group({"a": {T2}}, {T2: 1}, {"a": {T1: frozenset({0})}})
    assert assign_uniform(spec) == {"a": {T2: {0}}}


def test_members_without_any_topic_get_nothing() -> None:
    assert assign_uniform(group({"a": set(), "b": set()}, {})) == {"a": {}, "b": {}}
    assert assign_uniform(group({}, {})) == {}


def test_different_subscriptions_are_balanced_if_a_move_helps() -> None:
    spec = group(
        {"a": {T1, T2}, "b": {T2}},
        {T1: 2, T2: 4},
        {"a": {T1: frozenset({0, 1}), T2: frozenset({0, 1, 2, 3})}},
    )
    assert assign_uniform(spec) == {
        "a": {T1: {0, 1}, T2: {0}},
        "b": {T2: {1, 2, 3}},
    }


def test_topics_with_more_partitions_per_subscriber_are_assigned_first() -> None:
    spec = group({"a": {T1, T2}, "b": {T1, T2}, "c": {T1}}, {T1: 3, T2: 4})
    # T2 is first, two partitions to each; then all of T1 to c, which has nothing yet.
    assert assign_uniform(spec) == {
        "a": {T2: {0, 2}, T1: {2}},
        "b": {T2: {1, 3}},
        "c": {T1: {0, 1}},
    }


subscriptions_of = st.dictionaries(
    st.sampled_from([f"m{n}" for n in range(7)]),
    st.sets(st.sampled_from([T1, T2, T3]), min_size=1),
    min_size=1,
)
counts_of = st.fixed_dictionaries({t: st.integers(1, 9) for t in (T1, T2, T3)})


@given(st.lists(subscriptions_of, min_size=1, max_size=5), counts_of)
def test_any_history_of_members_is_valid_and_balanced(
    history: list[dict[str, set[bytes]]], counts: dict[bytes, int]
) -> None:
    assignments: Mapping[str, Assignment] = {}
    for subscriptions in history:
        spec = group(subscriptions, counts, assignments)
        assignments = assign_uniform(spec)
        owner_of = owners(assignments)
        assert owner_of.keys() == {
            (topic, p) for topic, count in spec.partition_counts.items() for p in range(count)
        }
        assert all(topic in subscriptions[member] for (topic, _), member in owner_of.items())
        load = sizes(assignments)
        for (topic, _), member in owner_of.items():
            # No single move would make two loads more even.
            assert all(
                load[member] - load[other] <= 1
                for other, topics in subscriptions.items()
                if topic in topics
            )


@given(
    st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), min_size=2, max_size=6),
    st.integers(1, 20),
)
def test_equal_subscriptions_move_as_few_partitions_as_possible(
    history: list[set[str]], count: int
) -> None:
    """A naive implementation counts the fewest possible moves."""
    assignments: Mapping[str, Assignment] = {}
    for before, members in pairwise([set(), *history]):
        spec = group({m: {T1} for m in members}, {T1: count}, assignments)
        old, assignments = owners(assignments), assign_uniform(spec)
        retained = sum(owners(assignments).get(key) == member for key, member in old.items())
        held = sorted((sum(o == m for o in old.values()) for m in members), reverse=True)
        quota, extras = divmod(count, len(members))
        fewest_moves_keep = sum(
            min(size, quota + (position < extras)) for position, size in enumerate(held)
        )
        assert retained == fewest_moves_keep, before
