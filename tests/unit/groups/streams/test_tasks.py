"""Tasks: overlap and inclusion of sets of tasks."""

from __future__ import annotations

from kafkalite.groups.streams.tasks import NO_OWNED_TASKS, NO_TASKS, OwnedTasks, Tasks

HELD = OwnedTasks(active={"0": {0: 2, 1: 3}}, standby={"1": {4}}, warmup={"2": {5}})


def test_tasks_are_empty_or_not() -> None:
    assert NO_TASKS.is_empty()
    assert NO_OWNED_TASKS.is_empty()
    assert not HELD.is_empty()
    assert not Tasks(warmup={"0": {1}}).is_empty()


def test_tasks_overlap_only_within_their_kind() -> None:
    assert Tasks(active={"0": {1, 7}}).overlap_with(HELD)
    assert Tasks(standby={"1": {4}}).overlap_with(HELD)
    assert Tasks(warmup={"2": {5}}).overlap_with(HELD)
    for other in (Tasks(active={"1": {4}}), Tasks(standby={"0": {0}}), Tasks(active={"0": {2}})):
        assert not other.overlap_with(HELD)


def test_a_subset_of_the_owned_tasks_is_recognized() -> None:
    assert NO_TASKS.are_subset_of(HELD)
    assert Tasks(active={"0": {1}}, standby={"1": {4}}).are_subset_of(HELD)
    for other in (Tasks(active={"0": {1, 2}}), Tasks(standby={"0": {0}}), Tasks(warmup={"9": {0}})):
        assert not other.are_subset_of(HELD)


def test_active_tasks_have_assignment_epochs() -> None:
    assert HELD.assignment_epoch("0", 1) == 3
    assert HELD.assignment_epoch("0", 2) is None
    assert HELD.assignment_epoch("1", 4) is None
