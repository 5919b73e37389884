"""Texts of clients on a page."""

from __future__ import annotations

import pytest

from kafkalite.control.console.texts import (
    MAX_NAME,
    ago_text,
    facts_of,
    json_text,
    name_text,
    time_text,
    visible,
)


def test_characters_that_change_a_page_are_visible() -> None:
    assert visible("a\u202eb\x00c\nd") == "a\\u202eb\\x00c\nd"
    assert name_text("a\nb") == "a\\nb"
    assert len(name_text("x" * 1000)) == MAX_NAME


def test_json_is_cut() -> None:
    assert json_text({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}'
    assert json_text("x" * 100_000).endswith("…")


def test_times_are_short() -> None:
    assert time_text(1_700_000_000_123) == "22:13:20.123"
    assert time_text(2**63 - 1) == str(2**63 - 1)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (61_500, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
    ],
)
def test_a_duration_has_two_units(milliseconds: int, text: str) -> None:
    assert ago_text(milliseconds) == text


def test_empty_facts_are_omitted() -> None:
    facts = {"member_id": "m", "rule": None, "reasons": ["a", "b"], "epochs": [1], "regex": ""}
    assert facts_of(facts) == [("member id", "m"), ("reasons", "a, b"), ("epochs", "1")]
