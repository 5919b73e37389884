"""JSON values that a declared state cannot have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkalite.control.declared_state.json_values import check_json, unique_members
from kafkalite.control.declared_state.shape import MisplacedError


def nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels - 1):
        found = [found]
    return found


@pytest.mark.parametrize("value", [nested(100), {"a": [1, True, None, "\u00e4"]}, -(2**1022)])
def test_other_values_are_valid(value: object) -> None:
    check_json((), value)


@pytest.mark.parametrize(
    ("value", "path", "text"),
    [
        ({"a": ["\ud800"]}, ("a", 0), "a text has a lone surrogate"),
        ({"a": {"\ud800": 1}}, ("a",), "a text has a lone surrogate"),
        ([2**1023], (0,), "a number must be below 2^1023"),
        ({"a": nested(100)}, ("a", 0, 0, 0, 0), "lists and objects may be in each other up to 100"),
    ],
)
def test_an_invalid_value_has_a_path(value: object, path: tuple[object, ...], text: str) -> None:
    with pytest.raises(MisplacedError, match=text.replace("^", r"\^")) as raised:
        check_json(("x",), value)
    assert raised.value.path == ("x", *path)


def test_a_name_may_be_given_only_once() -> None:
    with pytest.raises(ValueError, match="'a' is given twice"):
        json.loads('{"a": 1, "a": 1}', object_pairs_hook=unique_members)
