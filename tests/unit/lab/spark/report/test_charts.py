"""Charts as figures of Plotly: values, times, colours, labels and escaping."""

from __future__ import annotations

from math import log10

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


def test_each_part_of_a_bar_has_value_colour_and_tooltip() -> None:
    chart = bars(
        [
            Bar("one", (Part(10, "good", "ten"), Part(1, "bad", "one")), "11 commits"),
            Bar("two", (Part(5, "warn", "five"),)),
        ]
    )
    assert chart is not None
    first, second = chart["data"]
    assert (first["y"], first["x"], first["hovertext"]) == ([0, 1], [10, 5], ["ten", "five"])
    assert first["marker"]["color"] == ["var(--good)", "var(--warn)"]
    assert (second["y"], second["x"], second["hovertext"]) == ([0], [1], ["one"])
    assert chart["layout"]["barmode"] == "stack"
    assert chart["layout"]["yaxis"]["ticktext"] == ["one", "two"]


@pytest.mark.parametrize(("is_log", "position"), [(False, 11), (True, log10(11))])
def test_text_is_at_the_end_of_the_bar(is_log: bool, position: float) -> None:  # noqa: FBT001
    chart = bars([Bar("a", (Part(10, "a", ""), Part(1, "b", "")), "eleven")], is_log=is_log)
    assert chart is not None
    (text,) = chart["layout"]["annotations"]
    assert (text["text"], text["x"], text["y"]) == ("eleven", position, 0)
    assert chart["layout"]["xaxis"]["type"] == ("log" if is_log else "linear")
    # A logarithmic axis has a tick at each power of ten only.
    assert chart["layout"]["xaxis"].get("dtick") == (1 if is_log else None)


def test_interval_is_a_bar_and_point_in_time_is_a_marker_above_it() -> None:
    chart = timelines(
        [Timeline("g", (Span(30, 30, "bad", "write"), Span(10, 20.5, "warn", "ghost")))]
    )
    assert chart is not None
    interval, point = chart["data"]
    assert (interval["type"], interval["hovertext"]) == ("bar", ["ghost"])
    assert (interval["base"], interval["x"]) == (["1970-01-01 00:00:10.000000"], [10_500])
    assert (point["type"], point["hovertext"]) == ("scatter", ["write"])
    assert point["x"] == ["1970-01-01 00:00:30.000000"]


def test_lanes_are_rows_from_top_to_bottom() -> None:
    chart = timelines([Timeline(name, (Span(1, 2, "a", name),)) for name in ("g", "h", "g")])
    assert chart is not None
    (trace,) = chart["data"]
    assert trace["y"] == [0, 1, 2]
    axis = chart["layout"]["yaxis"]
    assert axis["tickvals"] == [0, 1, 2]
    assert axis["ticktext"] == ["g", "h", "g"]
    assert axis["range"] == [2.5, -0.5]


def test_time_axes_zoom_and_value_axes_do_not() -> None:
    chart = timelines([Timeline("g", (Span(1, 2, "a", ""),))])
    assert chart is not None
    assert chart["layout"]["xaxis"]["type"] == "date"
    assert "fixedrange" not in chart["layout"]["xaxis"]
    assert chart["layout"]["yaxis"]["fixedrange"] is True


def test_line_is_sorted_by_time() -> None:
    chart = lines([Series("g", ((60, 5), (0, 0), (120.25, 10)))])
    assert chart is not None
    (trace,) = chart["data"]
    assert trace["x"] == [
        "1970-01-01 00:00:00.000000",
        "1970-01-01 00:01:00.000000",
        "1970-01-01 00:02:00.250000",
    ]
    assert trace["y"] == [0, 5, 10]
    assert trace["mode"] == "lines"


def test_series_of_one_point_is_a_marker() -> None:
    chart = lines([Series("g", ((0, 7),)), Series("h", ((0, 1), (1, 2)))])
    assert chart is not None
    assert [trace["mode"] for trace in chart["data"]] == ["markers", "lines"]


def test_chart_without_data_does_not_exist() -> None:
    assert bars([]) is None
    assert timelines([Timeline("g", ())]) is None
    assert lines([Series("g", ())]) is None


def test_markup_in_labels_is_escaped() -> None:
    chart = bars([Bar("</svg><script>", (Part(1, "a", "<b>"),), "&")])
    assert chart is not None
    assert chart["layout"]["yaxis"]["ticktext"] == ["&lt;/svg&gt;&lt;script&gt;"]
    assert chart["layout"]["annotations"][0]["text"] == "&amp;"
    assert chart["data"][0]["hovertext"] == ["&lt;b&gt;"]


def test_unprintable_characters_are_escaped() -> None:
    chart = timelines([Timeline("a\x00\u202eb", (Span(1, 2, "a", "\x1b[31m"),))])
    assert chart is not None
    assert chart["data"][0]["hovertext"] == [r"\x1b[31m"]
    assert chart["layout"]["yaxis"]["ticktext"] == [r"a\x00\u202eb"]


def test_long_label_keeps_its_end() -> None:
    chart = timelines([Timeline("x" * 40 + "-end", (Span(1, 2, "a", ""),))])
    assert chart is not None
    (label,) = chart["layout"]["yaxis"]["ticktext"]
    assert len(label) == 32
    assert label.startswith("…x")
    assert label.endswith("-end")
