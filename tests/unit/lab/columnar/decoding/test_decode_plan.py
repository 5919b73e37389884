"""Unit tests of decode plans: columns of requested fields."""

from __future__ import annotations

import pytest

from kafkalite.capture.model import Direction
from kafkalite.lab.columnar.decoding import decode_program
from kafkalite.lab.columnar.decoding.decode_plan import (
    AbsentColumn,
    ListColumn,
    OptionalColumn,
    StructColumn,
    message_plan,
)


def test_columns_are_in_the_order_of_the_type() -> None:
    plan = message_plan(8, 9, Direction.REQUEST)

    assert [each.name for each in plan.type] == [
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
    ]
    assert isinstance(plan.column.children[4], AbsentColumn)
    topics = plan.column.children[5]
    assert isinstance(topics, ListColumn)
    assert isinstance(topics.element, StructColumn)


def test_fields_that_are_not_requested_have_no_buffer() -> None:
    whole = message_plan(8, 9, Direction.REQUEST).program
    part = message_plan(8, 9, Direction.REQUEST, ("member_id",)).program

    assert [row[0] for row in part.code.tolist()] == [row[0] for row in whole.code.tolist()]
    assert [each.width for each in part.buffers] == [decode_program.END_BYTES, 1]
    assert len(part.fields) == 0


def test_tagged_fields_are_optional_columns() -> None:
    plan = message_plan(1, 17, Direction.REQUEST)
    names = [each.name for each in plan.type]
    for name in ("cluster_id", "replica_state"):
        column = plan.column.children[names.index(name)]
        assert isinstance(column, OptionalColumn)
        assert column.default is None


def test_unknown_version_raises_key_error() -> None:
    with pytest.raises(KeyError):
        message_plan(8, 99, Direction.REQUEST)
