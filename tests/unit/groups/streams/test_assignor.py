"""The sticky assignor: balance, stickiness and standbys in other processes."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.groups.streams.assignor import MemberSpec, SubtopologySize, assign_tasks
from kafkalite.groups.streams.tasks import NO_TASKS, Tasks
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.streams.tasks import TaskIds

Assigned = dict[str, Tasks]


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
