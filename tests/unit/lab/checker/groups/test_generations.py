"""Generations of classic groups in a capture of real members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.checker.groups.generations import (
    JOINED,
    LEFT,
    REMOVED,
    generations_of,
    partitions_in,
)

if TYPE_CHECKING:
    from kafkalite.lab.checker.groups.requests import GroupRequests


def test_generations_follow_each_other(member_lives: GroupRequests) -> None:
    first, second = generations_of(member_lives.of("classic-works"))
    assert (first.number, first.before, second.number, second.before) == (1, -1, 2, 1)
    assert len(first.members) == 1
    assert len(second.members) == 2
    assert [each.kind for each in second.triggers] == [JOINED]
    assert first.begun_ns < second.started_ns < second.begun_ns
    partitions = [each.partitions for each in second.assigned.values()]
    assert sorted(map(len, partitions)) == [2, 2]
    assert not frozenset.intersection(*partitions)


def test_a_killed_member_is_removed_and_a_closed_one_leaves(member_lives: GroupRequests) -> None:
    kinds = {
        trigger.kind
        for group in ("classic-killed", "rolling")
        for generation in generations_of(member_lives.of(group))
        for trigger in generation.triggers
    }
    assert {REMOVED, LEFT} <= kinds


def test_the_assignment_of_another_kind_of_members_has_no_partitions() -> None:
    assert partitions_in(b"") == frozenset()
