"""Charts as HTML: widths, colours, labels, tooltips and escaping."""

from __future__ import annotations

import re

import pytest

from kafkalite.lab.spark.report.charts import (
    Bar,
    Part,
    Series,
    Span,
    Timeline,
    bars,
    lines,
    timelines,
)


def boxes(chart: str | None) -> list[tuple[str, str, str]]:
    """Return the class, style and tooltip of each bar and span."""
    assert chart is not None
    return re.findall(r'<i class="box ([^"]*)" style="([^"]*)" title="([^"]*)">', chart)


def labels(chart: str | None) -> list[str]:
    assert chart is not None
    return re.findall(r'<span class="label"[^>]*>([^<]*)<', chart)


def test_each_part_of_a_bar_has_width_colour_and_tooltip() -> None:
    chart = bars(
        [
            Bar("one", (Part(9, "good", "nine"), Part(1, "bad", "one")), "10 commits"),
            Bar("two", (Part(5, "warn", "five"),)),
        ]
    )
    assert boxes(chart) == [
        ("good", "width:90.00%", "nine"),
        ("bad", "width:10.00%", "one"),
        ("warn", "width:50.00%", "five"),
    ]
    assert labels(chart) == ["one", "two"]
    assert "10 commits" in str(chart)


def test_a_logarithmic_scale_begins_below_the_smallest_bar() -> None:
    chart = bars([Bar(str(n), (Part(n, "a", ""),)) for n in (10, 100, 1000)], is_log=True)
    assert [style for _, style, _ in boxes(chart)] == [
        "width:33.33%",
        "width:66.67%",
        "width:100.00%",
    ]


def test_bars_of_zero_are_empty() -> None:
    assert boxes(bars([Bar("none", (Part(0, "a", ""),))])) == []
    assert boxes(bars([Bar("none", (Part(0, "a", ""),))], is_log=True)) == []


def test_a_point_in_time_is_above_intervals() -> None:
    chart = timelines(
        [Timeline("g", (Span(20, 20, "bad", "write"), Span(10, 30, "warn", "ghost")))]
    )
    assert boxes(chart) == [
        ("warn", "left:0.00%;width:100.00%", "00:00:10 ghost"),
        ("point bad", "left:50.00%", "00:00:20 write"),
    ]
    assert ">00:00:10<" in str(chart)
    assert ">00:00:30<" in str(chart)


def test_a_line_is_sorted_by_time_and_as_high_as_its_value() -> None:
    chart = lines([Series("g", ((60, 5), (0, 0), (120, 10)))])
    assert 'points="0.0,240.0 500.0,120.0 1000.0,0.0"' in str(chart)


def test_a_series_of_one_point_is_visible() -> None:
    chart = lines([Series("g", ((0, 7),))])
    assert 'points="0.0,0.0 1.0,0.0"' in str(chart)


def test_a_chart_of_days_has_dates() -> None:
    chart = lines([Series("g", ((0, 1), (200_000, 2)))])
    assert "1970-01-01 00:00" in str(chart)


def test_chart_without_data_does_not_exist() -> None:
    assert bars([]) is None
    assert timelines([Timeline("g", ())]) is None
    assert lines([Series("g", ())]) is None


@pytest.mark.parametrize(
    "chart",
    [
        bars([Bar("</i><script>", (Part(1, "a", '"><b>'),), "<u>")]),
        timelines([Timeline("</i><script>", (Span(1, 2, "a", '"><b>'),))]),
        lines([Series("</i><script>", ((1, 2),))]),
    ],
)
def test_markup_in_labels_is_escaped(chart: str) -> None:
    assert "&lt;/i&gt;&lt;script&gt;" in chart
    assert not any(each in chart for each in ("<script", "<b>", "<u>"))


def test_unprintable_characters_are_escaped() -> None:
    chart = timelines([Timeline("a\x00\u202eb", (Span(1, 2, "a", "\x1b[31m"),))])
    assert labels(chart) == [r"a\x00\u202eb"]
    assert r"\x1b[31m" in str(chart)
