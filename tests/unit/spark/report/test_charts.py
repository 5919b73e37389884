"""Plots: every mark is there, in its place, with its title, and nothing breaks out of it."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from kafkalite.spark.report.charts import Bar, Lane, Part, Series, Span, bars, lanes, lines, short


def marks(svg: str, kind: str) -> list[ET.Element]:
    return ET.fromstring(svg).findall(kind)  # noqa: S314 - our own


def test_a_bar_is_as_long_as_its_value() -> None:
    plot = bars([Bar("one", (Part(10, "good", "ten"),)), Bar("two", (Part(5, "bad", "five"),))])
    first, second = (float(each.attrib["width"]) for each in marks(plot, "rect"))
    assert first == pytest.approx(2 * second, abs=0.2)


def test_parts_of_a_bar_stand_one_behind_the_other() -> None:
    plot = bars([Bar("one", (Part(3, "good", "a"), Part(1, "bad", "b")))])
    first, second = marks(plot, "rect")
    end = float(first.attrib["x"]) + float(first.attrib["width"])
    assert float(second.attrib["x"]) == pytest.approx(end, abs=0.2)


def test_by_magnitude_a_tenth_is_not_a_tenth_as_long() -> None:
    plot = bars([Bar("a", (Part(1000, "a", ""),)), Bar("b", (Part(100, "a", ""),))], is_log=True)
    first, second = (float(each.attrib["width"]) for each in marks(plot, "rect"))
    assert 0.2 < second / first < 0.9


def test_what_lasted_is_a_bar_and_what_happened_a_dot() -> None:
    plot = lanes([Lane("g", (Span(10, 20, "warn", "ghost"), Span(30, 30, "bad", "write")))])
    assert [each.findtext("title") for each in marks(plot, "rect")] == ["ghost"]
    assert [each.findtext("title") for each in marks(plot, "circle")] == ["write"]


def test_lines_reach_from_the_first_moment_to_the_last() -> None:
    plot = lines([Series("g", ((0, 0), (60, 5), (120, 10)))])
    (line,) = marks(plot, "polyline")
    xs = [float(each.split(",")[0]) for each in line.attrib["points"].split()]
    ys = [float(each.split(",")[1]) for each in line.attrib["points"].split()]
    assert xs == sorted(xs)
    assert ys == sorted(ys, reverse=True)


@pytest.mark.parametrize(
    ("seconds", "second_tick"),
    [
        (4 * 86_400, "Jan 02 00:00"),
        (8, "00:00:02"),
        (1, "00:00:00.250"),
        (0.002, "00:00:00.000500"),
    ],
)
def test_no_two_ticks_are_the_same(seconds: float, second_tick: str) -> None:
    plot = lines([Series("g", ((0, 0), (seconds, 1)))])
    ticks = [each.text for each in marks(plot, "text") if each.attrib["class"] == "axis"]
    assert ticks[1] == second_tick
    assert len({*ticks}) == len(ticks) == 5


def test_nothing_is_no_plot() -> None:
    assert lanes([]) == ""
    assert lines([]) == ""


def test_names_cannot_break_out_of_a_plot() -> None:
    plot = bars([Bar("</svg><script>", (Part(1, "a", "<b>"),), "&")])
    assert "<script>" not in plot
    assert [each.findtext("title") for each in marks(plot, "rect")] == ["<b>"]


def test_what_cannot_be_seen_is_written_out() -> None:
    plot = lanes([Lane("a\x00\u202eb", (Span(1, 2, "a", "\x1b[31m"),))])
    assert [each.findtext("title") for each in marks(plot, "rect")] == [r"\x1b[31m"]
    (label,) = (each for each in marks(plot, "text") if each.attrib["class"] == "label")
    assert label.text == r"a\x00\u202eb"


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (12, "12"), (1.5, "1.5"), (1234, "1.2k"), (2e6, "2M"), (7e9, "7G")],
)
def test_numbers_are_short(value: float, said: str) -> None:
    assert short(value) == said
