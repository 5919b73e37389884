"""Tasks: what one set of them has in common with another."""

from __future__ import annotations

from kafkalite.groups.streams.tasks import HOLDS_NOTHING, NO_TASKS, HeldTasks, Tasks

HELD = HeldTasks(active={"0": {0: 2, 1: 3}}, standby={"1": {4}}, warmup={"2": {5}})


def test_there_are_tasks_or_there_are_none() -> None:
    assert NO_TASKS.is_empty()
    assert HOLDS_NOTHING.is_empty()
    assert not HELD.is_empty()
    assert not Tasks(warmup={"0": {1}}).is_empty()


def test_tasks_overlap_within_their_kind_alone() -> None:
    assert Tasks(active={"0": {1, 7}}).share_any_with(HELD)
    assert Tasks(standby={"1": {4}}).share_any_with(HELD)
    assert Tasks(warmup={"2": {5}}).share_any_with(HELD)
    for other in (Tasks(active={"1": {4}}), Tasks(standby={"0": {0}}), Tasks(active={"0": {2}})):
        assert not other.share_any_with(HELD)


def test_tasks_are_within_what_is_held() -> None:
    assert NO_TASKS.are_within(HELD)
    assert Tasks(active={"0": {1}}, standby={"1": {4}}).are_within(HELD)
    for other in (Tasks(active={"0": {1, 2}}), Tasks(standby={"0": {0}}), Tasks(warmup={"9": {0}})):
        assert not other.are_within(HELD)


def test_active_tasks_know_their_epoch() -> None:
    assert HELD.assignment_epoch("0", 1) == 3
    assert HELD.assignment_epoch("0", 2) is None
    assert HELD.assignment_epoch("1", 4) is None
