"""The sticky assignor: balance, stickiness and standbys in other processes."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.config.rules import Rules, rules_of
from kafkalite.groups.streams.assignor import (
    MemberSpec,
    StandbyPlacement,
    SubtopologySize,
)
from kafkalite.groups.streams.assignor import assign_tasks as assign_tasks_and_explain
from kafkalite.groups.streams.tasks import NO_TASKS, Tasks
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.streams.tasks import TaskIds

Assigned = dict[str, Tasks]


def assign_tasks(
    members: Mapping[str, MemberSpec],
    subtopologies: Mapping[str, SubtopologySize],
    standby_replicas: int,
    rules: Rules = Rules(),  # noqa: B008 - immutable
) -> Assigned:
    targets, _ = assign_tasks_and_explain(members, subtopologies, standby_replicas, rules)
    return targets


def members(**processes: str) -> dict[str, MemberSpec]:
    return {
        member: MemberSpec(process_id=process, previous=NO_TASKS)
        for member, process in processes.items()
    }


def after(assigned: Mapping[str, Tasks], **processes: str) -> dict[str, MemberSpec]:
    """Return members whose previous tasks are those that were assigned."""
    return {
        member: MemberSpec(process_id=process, previous=assigned.get(member, NO_TASKS))
        for member, process in processes.items()
    }


def sizes(*counts: int, stateful: bool = False) -> dict[str, SubtopologySize]:
    return {
        str(name): SubtopologySize(task_count=count, is_stateful=stateful)
        for name, count in enumerate(counts)
    }


def count(tasks: TaskIds) -> int:
    return sum(len(partitions) for partitions in tasks.values())


def pairs(tasks: TaskIds) -> set[tuple[str, int]]:
    return {(name, partition) for name, partitions in tasks.items() for partition in partitions}


def test_no_members_get_no_tasks() -> None:
    assert assign_tasks({}, sizes(4), 1) == {}
    assert assign_tasks(members(a="p"), {}, 1) == {"a": NO_TASKS}


def test_tasks_are_distributed_round_robin() -> None:
    is_assigned = assign_tasks(members(a="p", b="q"), sizes(4), 0)
    assert {member: dict(tasks.active) for member, tasks in is_assigned.items()} == {
        "a": {"0": {0, 2}},
        "b": {"0": {1, 3}},
    }


def test_load_is_counted_by_process_and_its_members() -> None:
    is_assigned = assign_tasks(members(a="p", b="p", c="q"), sizes(6), 0)
    assert {member: count(tasks.active) for member, tasks in is_assigned.items()} == {
        "a": 2, "b": 2, "c": 2,
    }  # fmt: skip


def test_a_new_member_gets_at_most_its_share() -> None:
    first = assign_tasks(members(a="p", b="q"), sizes(6), 0)
    second = assign_tasks(after(first, a="p", b="q", c="r"), sizes(6), 0)
    for member in ("a", "b"):
        assert pairs(second[member].active) < pairs(first[member].active)
    assert [count(second[member].active) for member in "abc"] == [2, 2, 2]


def test_remaining_members_retain_their_tasks() -> None:
    first = assign_tasks(members(a="p", b="q", c="r"), sizes(6), 0)
    second = assign_tasks(after(first, a="p", b="q"), sizes(6), 0)
    for member in ("a", "b"):
        assert pairs(second[member].active) > pairs(first[member].active)


def test_a_standby_becomes_active_where_its_state_is() -> None:
    first = assign_tasks(members(a="p", b="q", c="r"), sizes(3, stateful=True), 1)
    (lost,) = pairs(first["a"].active)
    (standby_member,) = [member for member in "bc" if lost in pairs(first[member].standby)]
    second = assign_tasks(after(first, b="q", c="r"), sizes(3, stateful=True), 1)
    assert lost in pairs(second[standby_member].active)


def test_the_number_of_standbys_is_limited_by_processes() -> None:
    alone = assign_tasks(members(a="p", b="p"), sizes(4, stateful=True), 2)
    assert [count(tasks.standby) for tasks in alone.values()] == [0, 0]
    is_assigned = assign_tasks(members(a="p", b="q"), sizes(4, stateful=True), 2)
    assert [count(tasks.standby) for tasks in is_assigned.values()] == [2, 2]
    stateless = assign_tasks(members(a="p", b="q"), sizes(4), 2)
    assert [count(tasks.standby) for tasks in stateless.values()] == [0, 0]


def read_tasks(text: str) -> dict[str, frozenset[int]]:
    """Parse the format `subtopology:0+1,…` of the cases."""
    rows = [row.split(":") for row in text.split(",") if row]
    return {name: frozenset(map(int, partitions.split("+"))) for name, partitions in rows}


def read_offsets(text: str) -> dict[str, dict[int, int]]:
    """Parse the format `subtopology:partition@offset+…,…` of the cases."""
    offsets: dict[str, dict[int, int]] = {}
    for name, entries in (row.split(":") for row in text.split(",") if row):
        pairs_of_numbers = (entry.split("@") for entry in entries.split("+"))
        offsets[name] = {int(partition): int(offset) for partition, offset in pairs_of_numbers}
    return offsets


def read_case(
    case: str, *, has_offsets: bool
) -> tuple[dict[str, MemberSpec], dict[str, SubtopologySize], int]:
    """Parse the format `replicas|subtopology=count[s];…|member=process=active=standby=offsets;…`.

    Subtopologies with `s` have state.
    """
    replicas, subtopologies, group = case.split("|")
    sizes_by_name = {
        name: SubtopologySize(int(count_text.rstrip("s")), is_stateful=count_text.endswith("s"))
        for name, count_text in (row.split("=") for row in subtopologies.split(";"))
    }
    specs = {
        member: MemberSpec(
            process,
            Tasks(active=read_tasks(active), standby=read_tasks(standby)),
            read_offsets(offsets) if has_offsets else {},
        )
        for member, process, active, standby, offsets in (
            row.split("=") for row in group.split(";")
        )
    }
    return specs, sizes_by_name, int(replicas)


@pytest.mark.parametrize("release", ["4.3", "4.4"])
def test_assignments_equal_those_of_kafkas_assignor(release: str) -> None:
    """Each pair of lines has a group and the assignment of Kafka's StickyTaskAssignor.

    The groups are random, with the seeds 43 and 44. Kafka 4.3 does not use offsets.
    """
    rules = rules_of(release)
    path = Path(__file__).parent / f"sticky_by_kafka_{release.replace('.', '_')}.txt"
    lines = path.read_text("utf-8").splitlines()
    for case, kafkas in zip(lines[::2], lines[1::2], strict=True):
        specs, sizes_by_name, replicas = read_case(case, has_offsets=rules.sends_offset_settings)
        expected = {
            member: Tasks(active=read_tasks(active), standby=read_tasks(standby))
            for member, active, standby in (row.split("=") for row in kafkas.split(";"))
        }
        assert assign_tasks(specs, sizes_by_name, replicas, rules) == expected, case


def test_a_member_with_the_largest_offset_gets_the_task() -> None:
    on_disk = {
        member: MemberSpec(member, NO_TASKS, {"0": {0: offset}})
        for member, offset in (("a", 5), ("b", 7), ("c", 6))
    }
    assigned = assign_tasks(on_disk, sizes(1, stateful=True), 1)
    assert pairs(assigned["b"].active) == {("0", 0)}
    assert pairs(assigned["c"].standby) == {("0", 0)}


def test_the_places_of_standbys_are_explained() -> None:
    first, placement = assign_tasks_and_explain(
        members(a="p", b="q", c="q"), sizes(2, stateful=True), 2
    )
    assert placement == StandbyPlacement(least_loaded=2, missing=2)
    _, placement = assign_tasks_and_explain(
        after(first, a="p", b="q", c="q"), sizes(2, stateful=True), 1
    )
    assert placement == StandbyPlacement(with_state=2)
    _, placement = assign_tasks_and_explain({}, sizes(2), 1)
    assert placement == StandbyPlacement()


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, str]]:
    """Draw a sequence of memberships: member → process."""
    names = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("pqr"), min_size=1)
    return draw(st.lists(names, min_size=1, max_size=4))


@settings(max_examples=examples(150), deadline=None)
@given(
    history=histories(),
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    replicas=st.integers(0, 2),
)
def test_every_task_has_one_owner_and_standbys_in_other_processes(
    history: list[dict[str, str]], counts: list[int], replicas: int
) -> None:
    assigned: Assigned = {}
    for processes in history:
        subtopologies = sizes(*counts, stateful=True)
        assigned = assign_tasks(after(assigned, **processes), subtopologies, replicas)
        assert assigned.keys() == processes.keys()
        active = Counter(chain.from_iterable(pairs(each.active) for each in assigned.values()))
        assert set(active) == {(str(n), p) for n, size in enumerate(counts) for p in range(size)}
        assert set(active.values()) == {1}
        places = [
            (task, processes[member])
            for member, tasks in assigned.items()
            for task in [*pairs(tasks.active), *pairs(tasks.standby)]
        ]
        assert len(places) == len(set(places)), "one process has a task twice"
        expected_count = min(replicas, len(set(processes.values())) - 1)
        standbys = Counter(chain.from_iterable(pairs(each.standby) for each in assigned.values()))
        assert all(standbys[task] == expected_count for task in active)


@settings(max_examples=examples(50), deadline=None)
@given(history=histories(), counts=st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_tasks_do_not_move_without_changes(
    history: list[dict[str, str]], counts: list[int]
) -> None:
    assigned: Assigned = {}
    for processes in history:
        assigned = assign_tasks(after(assigned, **processes), sizes(*counts), 0)
    again = assign_tasks(after(assigned, **history[-1]), sizes(*counts), 0)
    shares = sorted(count(tasks.active) for tasks in assigned.values())
    if shares[-1] - shares[0] <= 1:
        assert again == assigned
