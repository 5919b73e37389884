"""A plan keeps what is asked for, and steps over the rest."""

from __future__ import annotations

import pytest

from kafkalite.capture.model import Direction
from kafkalite.columnar.plan import UNKEPT, Counted, Packed, Rows, Run, Tags, message_plan


def test_neighbours_of_fixed_size_are_one_step() -> None:
    plan = message_plan(8, 9, Direction.REQUEST)

    group_id, generation, member_id, instance_id, topics, tags = plan.body.steps
    assert isinstance(group_id, Counted)
    assert isinstance(generation, Run)
    assert isinstance(member_id, Counted)
    assert isinstance(instance_id, Counted)
    assert isinstance(tags, Tags)
    assert isinstance(topics, Rows)
    partitions = topics.body.steps[1]
    assert isinstance(partitions, Rows)
    index_offset_and_epoch, *_ = partitions.body.steps
    assert isinstance(index_offset_and_epoch, Run)
    assert index_offset_and_epoch.size == 16
    assert plan.above == (0, 0, 1)


def test_what_nobody_asks_for_has_no_slot() -> None:
    plan = message_plan(8, 9, Direction.REQUEST, ("member_id",))

    kept = [step for step in plan.body.steps if getattr(step, "slot", UNKEPT) != UNKEPT]
    assert kept == [plan.body.steps[2]]
    assert plan.slots == 2


def test_rows_of_one_size_are_packed() -> None:
    plan = message_plan(71, 0, Direction.RESPONSE)

    accepted, requested = (step for step in plan.body.steps if not isinstance(step, Run | Tags))

    assert isinstance(accepted, Packed)
    assert accepted.size == 1
    assert isinstance(requested, Rows)


def test_an_unknown_version_has_no_plan() -> None:
    with pytest.raises(KeyError):
        message_plan(8, 99, Direction.REQUEST)
