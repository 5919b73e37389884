"""The page: whole in itself, and safe from what a capture holds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafkalite.spark.report.model import GOOD, WARN, Listing, Section
from kafkalite.spark.report.page import cell, render

SECTION = Section(
    name="fencing",
    title="Commits",
    source="KIP-1251",
    tone=WARN,
    headline="3 commits <b>refused</b>.",
    plot="<svg></svg>",
    legend=((GOOD, "fine"),),
    listings=(Listing("Cases", ("group_id", "at"), (("<script>alert(1)</script>", None),)),),
)


def test_a_page_needs_nothing_from_anywhere() -> None:
    page = render([SECTION], {"requests": "12"}, [])
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "prefers-color-scheme: dark" in page


def test_what_a_capture_holds_is_text() -> None:
    page = render([SECTION], {}, [])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "3 commits &lt;b&gt;refused" in page
    assert "<figure><svg></svg></figure>" in page


def test_problems_are_told_where_there_are_some() -> None:
    row = {"kind": "gap", "file": "a.pcap", "times": 3, "detail": "12 bytes"}
    assert "could not be read" in render([], {}, [row])
    assert "could not be read" not in render([], {}, [])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "-"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (2.5, "2.50"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02 03:04:05"),
        ("text", "text"),
        ("b\x00\u00e9\u202e", "b\\x00\u00e9\\u202e"),
    ],
)
def test_cells_are_for_people(value: object, said: str) -> None:
    assert cell(value) == said
