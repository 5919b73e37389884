"""The HTML page: self-contained, with all values escaped."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from kafkalite.lab.spark.report.charts import Bar, Part, bars
from kafkalite.lab.spark.report.model import GOOD, WARN, Answer, Listing, Proof, Section
from kafkalite.lab.spark.report.page import cell, render, to_json

PLOT = bars([Bar("</script><script>alert(2)", (Part(1, "warn", "one"),))])
SECTION = Section(
    name="fencing",
    title="Commits",
    source="KIP-1251",
    tone=WARN,
    headline="3 commits <b>refused</b>.",
    plot=PLOT,
    legend=((GOOD, "fine"),),
    listings=(Listing("Cases", ("group_id", "at"), (("<script>alert(1)</script>", None),)),),
)


class Elements(HTMLParser):
    """The elements of a page: (tag, attributes), and the texts of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and data.strip():
            self.scripts.append(data)


def test_page_loads_nothing() -> None:
    page = render([SECTION], {"requests": "12"}, [])
    elements = Elements(page)
    loading = [
        (tag, attributes)
        for tag, attributes in elements.found
        if tag in {"link", "img", "iframe", "object"} or "src" in attributes
    ]
    assert loading == []
    assert "prefers-color-scheme: dark" in page


def test_page_contains_the_chart_and_the_library_of_tables() -> None:
    page = render([SECTION], {}, [])
    tables, start = Elements(page).scripts
    assert PLOT is not None
    assert PLOT in page
    assert "ITable" in json.loads(tables)
    assert "new ITable(" in start


def test_page_is_small() -> None:
    assert len(render([SECTION], {}, [])) < 900_000


def test_json_has_what_the_page_shows() -> None:
    answer = Answer(
        tone=WARN, heading="lost", proofs=(Proof("a.pcap", ("kafkalite show a.pcap",)),)
    )
    content = json.loads(to_json([replace(SECTION, answers=(answer,))], {"requests": "12"}, []))
    (section,) = content["sections"]
    assert section["headline"] == SECTION.headline
    assert section["findings"][0]["proofs"][0]["commands"] == ["kafkalite show a.pcap"]
    assert section["tables"][0]["rows"] == [{"group_id": "<script>alert(1)</script>", "at": None}]


def test_an_answer_has_its_proofs() -> None:
    answer = Answer(tone=WARN, heading="<i>lost", proofs=(Proof("a.pcap", ("kafkalite show a",)),))
    page = render([replace(SECTION, answers=(answer,))], {}, [])
    assert "<h3>&lt;i&gt;lost</h3>" in page
    assert "1 request proves it" in page
    assert "<code>kafkalite show a</code>" in page


def test_values_from_captures_are_escaped() -> None:
    page = render([SECTION], {}, [])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "3 commits &lt;b&gt;refused" in page
    assert "</script><script>alert(2)" not in page


def test_cells_are_sorted_by_exact_values() -> None:
    rows = ((1234567,), (None,), (0.123456,))
    section = replace(SECTION, listings=(Listing("Numbers", ("n",), rows),))
    cells = [
        attributes["data-order"]
        for tag, attributes in Elements(render([section], {}, [])).found
        if tag == "td"
    ]
    assert cells == ["1234567", "", "0.123456"]


def test_problems_are_shown_only_if_there_are_any() -> None:
    row = {"kind": "gap", "file": "a.pcap", "count": 3, "detail": "12 bytes"}
    assert "could not be read" in render([], {}, [row])
    assert "could not be read" not in render([], {}, [])


@pytest.mark.parametrize(
    ("value", "expected"),
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
def test_cells_are_formatted_by_type(value: object, expected: str) -> None:
    assert cell(value) == expected
