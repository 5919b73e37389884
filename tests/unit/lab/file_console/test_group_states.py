"""States of groups from captures of real members, and the requests that matter for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.control.group_status import EMPTY
from kafkalite.lab.checker.groups.requests import time_of
from kafkalite.lab.file_console import group_states
from kafkalite.lab.file_console.group_states import (
    CapturedGroup,
    GroupState,
    assignments_of,
    commits_of,
)

if TYPE_CHECKING:
    import pytest

    from kafkalite.control.group_status import GroupStatus
    from kafkalite.lab.file_console.capture_index import CaptureIndex


def states_of(index: CaptureIndex, group: str) -> list[GroupStatus]:
    """Return the states of a group after each request that matters."""
    state, found = GroupState(group), []
    for number, _ in index.groups[group].requests():
        state.add(index.observation(number), index.topic_names)
        found.append(state.status())
    return found


def test_a_classic_group_has_members_generations_and_offsets(member_lives: CaptureIndex) -> None:
    states = states_of(member_lives, "classic-works")
    both = next(each for each in states if len(each.members) == 2 and each.state == "Stable")
    assert (both.type, both.protocol, both.epoch) == ("classic", "range", 2)
    assert {each.client_id for each in both.members} == {"classic-works-a", "classic-works-b"}
    assert {each.subscription for each in both.members} == {("orders",)}
    last = states[-1]
    assert (last.state, last.members) == (EMPTY, ())
    assert [each.partition for each in last.offsets] == [0, 1, 2, 3]
    assert last == member_lives.groups["classic-works"].state.status()


def test_a_consumer_group_has_epochs_and_assignments(member_lives: CaptureIndex) -> None:
    states = states_of(member_lives, "consumer-killed")
    assert states[-1].type == "consumer"
    assert states[-1].epoch >= 4
    assigned = {
        (row.topic, number)
        for each in states
        for member in each.members
        for row in member.assignment
        for number in row.partitions
    }
    assert assigned == {("orders", number) for number in range(4)}


def test_quiet_heartbeats_are_only_times(member_lives: CaptureIndex) -> None:
    group = member_lives.groups["shared"]
    requests = list(group.requests())
    assert any(
        until_ns > time_of(member_lives.observation(number)) for number, until_ns in requests
    )
    listed = group.state.listed()
    assert (listed.group_id, listed.type) == ("shared", "share")


def test_the_latest_requests_remain(
    member_lives: CaptureIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [number for number, _ in member_lives.groups["classic-works"].requests()]
    monkeypatch.setattr(group_states, "MAX_REQUESTS", 5)
    group = CapturedGroup("classic-works")
    for number in numbers:
        group.add(member_lives.observation(number), member_lives.topic_names, number)
    assert [number for number, _ in group.requests()] == numbers[-5:]
    assert not group.is_complete
    assert member_lives.groups["classic-works"].is_complete


def test_accepted_commits_are_found(member_lives: CaptureIndex) -> None:
    group = member_lives.groups["classic-works"]
    seen = [member_lives.observation(number) for number, _ in group.requests()]
    commits = list(commits_of(seen, member_lives.topic_names))
    assert {each.topic for each in commits} == {"orders"}
    assert [each.at_ms for each in commits] == sorted(each.at_ms for each in commits)


def test_the_partitions_of_members_are_found(member_lives: CaptureIndex) -> None:
    group = member_lives.groups["classic-works"]
    seen = [member_lives.observation(number) for number, _ in group.requests()]
    found = list(assignments_of("classic-works", seen, member_lives.topic_names))
    names = {each.member_id[:15]: None for each in found}
    first, second = names
    steps = [(each.member_id[:15], each.epoch, dict(each.partitions)) for each in found]
    assert steps == [
        (first, 1, {}),
        (first, 1, {"orders": (0, 1, 2, 3)}),
        (second, 2, {}),
        (second, 2, {"orders": (2, 3)}),
        (first, 2, {"orders": (0, 1)}),
        (second, -1, {}),
        (first, -1, {}),
    ]
