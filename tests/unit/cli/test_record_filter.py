"""Conditions about records."""

from __future__ import annotations

import pytest

from kafkalite.cli.record_filter import conditions_of
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.records import ConsumerRecord

RECORD = ConsumerRecord(
    TopicPartition("orders", 2), 7, b"a=b~c", None, (("h", b"1"), ("h", b"2"), ("n", None)), 0, 0
)


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("value=a=b~c", True),
        ("value=a", False),
        ("value~=b~", True),
        ("value~x", False),
        ("key=", False),
        ("key~", False),
        ("partition=2", True),
        ("offset=70", False),
        ("header.h=2", True),
        ("header.h=3", False),
        ("header.n=", False),
        ("header.none~", False),
    ],
)
def test_record_meets_a_condition(text: str, is_met: bool) -> None:  # noqa: FBT001
    (condition,) = conditions_of([text])
    assert condition(RECORD) is is_met


@pytest.mark.parametrize("text", ["", "value", "=x", "~x"])
def test_other_texts_are_no_condition(text: str) -> None:
    with pytest.raises(ValueError, match="write FIELD=TEXT"):
        conditions_of([text])


def test_unknown_field_has_similar_names() -> None:
    with pytest.raises(ValueError, match=r"no field 'patition', .*similar names are partition"):
        conditions_of(["patition=1"])
