"""The sticky task assignor: even, sticky, and with copies elsewhere."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.groups.streams.assignor import MemberSpec, SubtopologySize, assign_sticky
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


def after(given: Mapping[str, Tasks], **processes: str) -> dict[str, MemberSpec]:
    """Return members that had what they were given before."""
    return {
        member: MemberSpec(process_id=process, previous=given.get(member, NO_TASKS))
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


def test_nobody_gets_nothing() -> None:
    assert assign_sticky({}, sizes(4), 1) == {}
    assert assign_sticky(members(a="p"), {}, 1) == {"a": NO_TASKS}


def test_tasks_go_round() -> None:
    found = assign_sticky(members(a="p", b="q"), sizes(4), 0)
    assert {member: dict(tasks.active) for member, tasks in found.items()} == {
        "a": {"0": {0, 2}},
        "b": {"0": {1, 3}},
    }


def test_load_is_counted_by_process_and_its_members() -> None:
    found = assign_sticky(members(a="p", b="p", c="q"), sizes(6), 0)
    assert {member: count(tasks.active) for member, tasks in found.items()} == {
        "a": 2, "b": 2, "c": 2,
    }  # fmt: skip


def test_a_new_member_takes_no_more_than_its_share() -> None:
    first = assign_sticky(members(a="p", b="q"), sizes(6), 0)
    second = assign_sticky(after(first, a="p", b="q", c="r"), sizes(6), 0)
    for member in ("a", "b"):
        assert pairs(second[member].active) < pairs(first[member].active)
    assert [count(second[member].active) for member in "abc"] == [2, 2, 2]


def test_who_leaves_leaves_the_others_what_they_have() -> None:
    first = assign_sticky(members(a="p", b="q", c="r"), sizes(6), 0)
    second = assign_sticky(after(first, a="p", b="q"), sizes(6), 0)
    for member in ("a", "b"):
        assert pairs(second[member].active) > pairs(first[member].active)


def test_a_standby_becomes_active_where_its_state_is() -> None:
    first = assign_sticky(members(a="p", b="q", c="r"), sizes(3, stateful=True), 1)
    (lost,) = pairs(first["a"].active)
    (heir,) = [member for member in "bc" if lost in pairs(first[member].standby)]
    second = assign_sticky(after(first, b="q", c="r"), sizes(3, stateful=True), 1)
    assert lost in pairs(second[heir].active)


def test_standbys_are_as_many_as_there_are_processes_for() -> None:
    alone = assign_sticky(members(a="p", b="p"), sizes(4, stateful=True), 2)
    assert [count(tasks.standby) for tasks in alone.values()] == [0, 0]
    found = assign_sticky(members(a="p", b="q"), sizes(4, stateful=True), 2)
    assert [count(tasks.standby) for tasks in found.values()] == [2, 2]
    stateless = assign_sticky(members(a="p", b="q"), sizes(4), 2)
    assert [count(tasks.standby) for tasks in stateless.values()] == [0, 0]


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, str]]:
    """Draw who was there, time after time: member → process."""
    names = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("pqr"), min_size=1)
    return draw(st.lists(names, min_size=1, max_size=4))


@settings(max_examples=examples(150), deadline=None)
@given(
    history=histories(),
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    replicas=st.integers(0, 2),
)
def test_every_task_is_done_once_and_copied_elsewhere(
    history: list[dict[str, str]], counts: list[int], replicas: int
) -> None:
    assigned: Assigned = {}
    for processes in history:
        subtopologies = sizes(*counts, stateful=True)
        assigned = assign_sticky(after(assigned, **processes), subtopologies, replicas)
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
        wanted = min(replicas, len(set(processes.values())) - 1)
        standbys = Counter(chain.from_iterable(pairs(each.standby) for each in assigned.values()))
        assert all(standbys[task] == wanted for task in active)


@settings(max_examples=examples(50), deadline=None)
@given(history=histories(), counts=st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_nothing_moves_when_nothing_changes(
    history: list[dict[str, str]], counts: list[int]
) -> None:
    assigned: Assigned = {}
    for processes in history:
        assigned = assign_sticky(after(assigned, **processes), sizes(*counts), 0)
    again = assign_sticky(after(assigned, **history[-1]), sizes(*counts), 0)
    shares = sorted(count(tasks.active) for tasks in assigned.values())
    if shares[-1] - shares[0] <= 1:
        assert again == assigned
