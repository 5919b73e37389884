"""The language of conditions, and the positions of mistakes in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.time_travel.conditions import Call, calls_of, parse_condition
from kafkalite.control.time_travel.points import TimeTravelError

if TYPE_CHECKING:
    from kafkalite.control.time_travel.conditions import Value

VALUES: dict[str, Value] = {
    "committed(shop, orders, 0)": 5,
    "members(shop)": 2,
    "state(my shop)": "Stable",
    "epoch(shop)": None,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("committed(shop, orders, 0) < 6", True),
        ("committed(shop,orders,0)==5 and members(shop) != 2", False),
        ("members(shop) > 2 or committed(shop, orders, 0) >= 5", True),
        ("not members(shop) > 2", True),
        ("not (members(shop) == 2 or members(shop) == 3) and 1 == 1", False),
        ("members(shop) == 3 or members(shop) == 2 and members(shop) <= 2", True),
        ("state('my shop') == Stable", True),
        ('state("my shop") == "Stable"', True),
        ("epoch(shop) == none", True),
        ("epoch(shop) < 5 or epoch(shop) >= 5", False),
        ("epoch(shop) != 3", True),
        ("5 > -3 and members('shop') == 2", True),
        ("committed(shop, orders, 0) < 9223372036854775807", True),
    ],
)
def test_conditions_compare_values(text: str, expected: bool) -> None:  # noqa: FBT001 - a row
    assert parse_condition(text).is_true(lambda call: VALUES[str(call)]) is expected


def test_the_calls_of_a_condition_are_in_its_order_once() -> None:
    condition = parse_condition("members(a) < 1 or committed(a, t, 3) == members(a)")
    assert calls_of(condition) == [Call("members", ("a",)), Call("committed", ("a", "t"), 3)]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("commited(a, b, 0) < 3", "column 1 of the condition: there is no function 'commited'"),
        ("committed(a, b) < 3", "column 15 of the condition: expected ',', not ') < 3'"),
        (
            "committed(a, b, x) < 3",
            "column 17 of the condition: expected PARTITION of committed(GR",
        ),
        ("members(x) <", "column 13 of the condition: expected a function, a number, a word or"),
        (
            "members(x) < 3 3",
            "column 16 of the condition: expected `and`, `or` or the end, not '3'",
        ),
        ("((members(x) < 3)", "column 18 of the condition: expected ')', not the end"),
        (
            "members(x) ~ 3",
            "column 12 of the condition: expected one of == != < <= > >=, not '~ 3'",
        ),
        (
            "members(x, y) < 3",
            "column 10 of the condition: expected ')' at the end of members(GROUP)",
        ),
        ("", "column 1 of the condition: expected a function"),
        ("1 < 2", "the condition has no function; there are committed, members, epoch"),
        (f"{'(' * 60}members(x) < 3", "column 52 of the condition: at most 50 nested parts"),
        ("x" * 10_001, "the condition is longer than 10000 characters"),
        (f"members(x) < {'9' * 30}", "column 14 of the condition: expected an integer of at most"),
        (
            "members(x) == Empty",
            "column 15 of the condition: the number members(x) cannot be compared with the text 'E",
        ),
        ("state(x) != 3", "the text state(x) cannot be compared with the number 3"),
        ("'a' < members(x)", "the text 'a' cannot be compared with the number members(x)"),
        ("state(x) == epoch(x)", "the text state(x) cannot be compared with the number epoch(x)"),
        ("members(x) < 5.5", "column 14 of the condition: expected an integer of at most 19"),
        ("members(x) < -1e3", "column 14 of the condition: expected an integer of at most 19"),
    ],
)
def test_a_mistake_is_reported_with_its_position(text: str, error: str) -> None:
    with pytest.raises(TimeTravelError, match=re.escape(error)):
        parse_condition(text)


def test_control_characters_of_names_are_escaped() -> None:
    assert str(Call("members", ("a\x1b[31m\n",))) == r"members(a\x1b[31m\n)"
