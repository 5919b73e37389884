"""The simple assignor: cases computed by Kafka 4.3, and properties of all assignments."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.groups.share.simple_assignor import Subscriber, assign_partitions
from kafkalite.protocol.uuids import uuid_from_text
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.assignors.contract import Assignment

T = b"T" * 16
U = b"U" * 16


def assign(
    members: Mapping[str, list[bytes]],
    assignable: Mapping[bytes, int],
    previous: Mapping[str, Assignment] | None = None,
) -> dict[str, dict[bytes, list[int]]]:
    had = previous or {}
    subscribers = {
        member: Subscriber(topic_ids=topics, previous=had.get(member, {}))
        for member, topics in members.items()
    }
    assigned = assign_partitions(
        subscribers,
        {topic: frozenset(range(count)) for topic, count in assignable.items()},
        is_homogeneous=len({tuple(sorted(topics)) for topics in members.values()}) == 1,
    )
    return {
        member: {topic: sorted(share) for topic, share in shares.items()}
        for member, shares in assigned.items()
    }


def test_members_without_subscriptions_get_no_partitions() -> None:
    assert assign({"a": [], "b": []}, {}) == {"a": {}, "b": {}}
    assert assign_partitions({}, {}, is_homogeneous=True) == {}


def test_partitions_without_share_state_are_not_assigned() -> None:
    assert assign({"a": [T]}, {}) == {"a": {}}
    assert assign({"a": [T], "b": [U]}, {U: 1}) == {"a": {}, "b": {U: [0]}}


def test_a_single_member_gets_all_partitions() -> None:
    assert assign({"a": [T, U]}, {T: 2, U: 1}) == {"a": {T: [0, 1], U: [0]}}


def test_equal_numbers_of_members_and_partitions_are_matched_one_to_one() -> None:
    assert assign({"a": [T], "b": [T]}, {T: 2}) == {"a": {T: [0]}, "b": {T: [1]}}


def test_members_retain_their_partitions() -> None:
    had = {"a": {T: frozenset({0, 1, 2, 3})}}
    assert assign({"a": [T], "b": [T]}, {T: 4}, had) == {"a": {T: [2, 3]}, "b": {T: [0, 1]}}


def test_a_topic_without_remaining_partitions_stays_in_the_assignment() -> None:
    had = {"a": {T: frozenset({0}), U: frozenset({0})}}
    assigned = assign({"a": [T, U], "b": [T, U]}, {T: 1, U: 1}, had)
    assert assigned in (
        {"a": {T: [], U: [0]}, "b": {T: [0]}},
        {"a": {T: [0], U: []}, "b": {U: [0]}},
    )


def test_a_topic_without_subscribers_is_removed() -> None:
    had = {"a": {T: frozenset({0}), U: frozenset({0})}}
    assert assign({"a": [T]}, {T: 1}, had) == {"a": {T: [0]}}


def test_each_topic_is_assigned_to_its_own_subscribers() -> None:
    members = {"a": [T], "b": [T, U], "c": [U]}
    assert assign(members, {T: 2, U: 2}) == {
        "a": {T: [0]}, "b": {T: [1], U: [0]}, "c": {U: [1]},
    }  # fmt: skip


def test_partitions_with_too_many_members_lose_some() -> None:
    had = {member: {T: frozenset({0})} for member in "abcd"}
    assigned = assign({member: [T] for member in "abcd"}, {T: 2}, had)
    assert Counter(index for each in assigned.values() for index in each[T]) == {0: 2, 1: 2}


def test_a_partition_remains_unassigned_if_all_members_are_full() -> None:
    """A partition that lost its share state still counts as assigned, so quotas may be reached."""
    had = {"a": {T: frozenset({5})}, "b": {T: frozenset({6})}}
    assigned = assign({member: [T] for member in "ab"}, {T: 2}, had)
    assert assigned == {"a": {T: [5]}, "b": {T: [6]}}


def read_topics(text: str) -> Assignment:
    """Parse the format `topic:1+2,topic:` of the cases."""
    rows = [row.split(":") for row in text.split(",") if row]
    return {
        uuid_from_text(topic): frozenset(int(index) for index in indexes.split("+") if index)
        for topic, indexes in rows
    }


def read_case(case: str) -> tuple[dict[str, Subscriber], dict[bytes, frozenset[int]], bool]:
    """Parse the format `1|topic=count:0,1;…|member=topic,…=topic:0+1,…;…` of a group."""
    is_homogeneous, topics, members = case.split("|")
    rows = [row.split("=") for row in topics.split(";")]
    assignable = {
        uuid_from_text(topic): frozenset(map(int, partitions.split(":")[1].split(",")))
        for topic, partitions in rows
    }
    subscribers = {
        member: Subscriber(
            topic_ids=[uuid_from_text(topic) for topic in topics.split(",")],
            previous=read_topics(had),
        )
        for member, topics, had in (row.split("=") for row in members.split(";"))
    }
    return subscribers, assignable, is_homogeneous == "1"


CASES = (Path(__file__).parent / "simple_by_kafka.txt").read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    ("case", "kafkas"), list(zip(CASES[::2], CASES[1::2], strict=True)), ids=range(len(CASES) // 2)
)
def test_assignments_equal_those_of_kafkas_assignor(case: str, kafkas: str) -> None:
    """Each pair of lines has a group and the assignment of Kafka 4.3.1's assignor."""
    subscribers, assignable, is_homogeneous = read_case(case)
    answers = dict(row.split("=") for row in kafkas.split(";"))
    assert assign_partitions(subscribers, assignable, is_homogeneous=is_homogeneous) == {
        member: read_topics(shares) for member, shares in answers.items()
    }


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sets(st.sampled_from([T, U]), min_size=1), min_size=1, max_size=12), st.data())
def test_members_per_partition_and_partitions_per_member_are_even(
    subscriptions: list[set[bytes]], data: st.DataObject
) -> None:
    counts = {T: data.draw(st.integers(1, 9)), U: data.draw(st.integers(1, 9))}
    members = {f"m{index}": sorted(topics) for index, topics in enumerate(subscriptions)}
    assigned = assign(members, counts)
    for topic, count in counts.items():
        readers = [member for member, topics in members.items() if topic in topics]
        for member in members.keys() - set(readers):
            assert topic not in assigned[member]
        held = Counter(index for member in readers for index in assigned[member].get(topic, ()))
        assert len(set(held.values())) <= 1, "all partitions have the same number of members"
        assert len(held) == (count if readers else 0)
