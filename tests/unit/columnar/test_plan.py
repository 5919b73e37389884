"""A plan keeps what is asked for, and steps over the rest."""

from __future__ import annotations

import pytest

from kafkalite.capture.model import Direction
from kafkalite.columnar import program
from kafkalite.columnar.plan import Absent, Lists, Sometimes, Structs, message_plan


def test_columns_stand_in_the_order_of_their_type() -> None:
    plan = message_plan(8, 9, Direction.REQUEST)

    assert [each.name for each in plan.type] == [
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
    ]
    assert isinstance(plan.column.children[4], Absent)
    topics = plan.column.children[5]
    assert isinstance(topics, Lists)
    assert isinstance(topics.element, Structs)


def test_what_nobody_asks_for_has_no_buffer() -> None:
    whole = message_plan(8, 9, Direction.REQUEST).program
    part = message_plan(8, 9, Direction.REQUEST, ("member_id",)).program

    assert [row[0] for row in part.code.tolist()] == [row[0] for row in whole.code.tolist()]
    assert [each.width for each in part.buffers] == [program.END_WIDTH, 1]
    assert len(part.fields) == 0


def test_what_is_behind_a_tag_is_there_or_not() -> None:
    plan = message_plan(1, 17, Direction.REQUEST)
    names = [each.name for each in plan.type]
    for name in ("cluster_id", "replica_state"):
        column = plan.column.children[names.index(name)]
        assert isinstance(column, Sometimes)
        assert column.default is None


def test_an_unknown_version_has_no_plan() -> None:
    with pytest.raises(KeyError):
        message_plan(8, 99, Direction.REQUEST)
