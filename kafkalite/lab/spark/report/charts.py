"""Charts of the report as specifications for Plotly, which draws them in the reader's browser.

A chart is a JSON object with the keys `data` and `layout` of Plotly's figures. Colours are names
of the page's CSS variables, such as `var(--warn)`. The page replaces them by the variables'
values, so that charts follow its light and dark themes.
"""

from __future__ import annotations

import html
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from math import log10
from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.spark.report.formatting import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.lab.spark.report.model import Chart

_ROW_HEIGHT: Final = 28
_AXIS_HEIGHT: Final = 60
_LINES_HEIGHT: Final = 320
_MAX_LABEL_LENGTH: Final = 32
_TONES: Final = ("a", "b", "c", "d", "e", "f")
_TICK_DISTANCE: Final = 1
"""Distance of the ticks of a logarithmic axis, in powers of ten."""
_HOVER: Final = "%{hovertext}<extra></extra>"
"""Shows only the text of the bar or point, without the name of its trace."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar."""

    value: float
    tone: str
    """A colour of the page: good, warn, bad, plain, or a to f."""
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of one or more parts, with a label on the left and a text on the right."""

    label: str
    parts: tuple[Part, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """An interval in seconds since the Unix epoch; a point in time if both are equal."""

    start_s: float
    end_s: float
    tone: str
    title: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """A row of the chart: a label, with intervals and points in time."""

    label: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A line over time: (seconds since the Unix epoch, value)."""

    name: str
    points: tuple[tuple[float, float], ...]


def bars(rows: Sequence[Bar], *, is_log: bool = False) -> Chart | None:
    """Return a chart of horizontal stacked bars; `is_log` makes the scale logarithmic."""
    if not rows:
        return None
    totals = [sum(part.value for part in row.parts) for row in rows]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [number for number, part in enumerate(layer) if part],
            "x": [part.value for part in layer if part],
            "marker": {"color": [_colour(part.tone) for part in layer if part]},
            "hovertext": [_text(part.title) for part in layer if part],
            "hovertemplate": _HOVER,
        }
        # A layer has the first part of each bar, the next layer the second part, and so on.
        for layer in zip_longest(*(row.parts for row in rows))
    ]
    labels_at_ends = [
        {
            "x": log10(total) if is_log and total > 0 else total,
            "y": number,
            "text": _text(row.text),
            "xanchor": "left",
            "showarrow": False,
            "font": {"color": "var(--soft)"},
        }
        for number, (row, total) in enumerate(zip(rows, totals, strict=True))
    ]
    layout = _rows_layout([row.label for row in rows])
    layout |= {"barmode": "stack", "annotations": labels_at_ends}
    layout["xaxis"] |= {"type": "log" if is_log else "linear", "fixedrange": True}
    if is_log:
        layout["xaxis"] |= {"dtick": _TICK_DISTANCE}
    return {"data": traces, "layout": layout}


def timelines(rows: Sequence[Timeline]) -> Chart | None:
    """Return a chart of timelines below each other, with a common time axis."""
    by_kind: defaultdict[tuple[bool, str], list[tuple[int, Span]]] = defaultdict(list)
    for number, row in enumerate(rows):
        for span in row.spans:
            by_kind[span.end_s > span.start_s, span.tone].append((number, span))
    if not by_kind:
        return None
    # Points are drawn after intervals, so that no interval hides them.
    traces = [
        (_intervals if is_interval else _points)(tone, by_kind[is_interval, tone])
        for is_interval, tone in sorted(by_kind, key=lambda kind: not kind[0])
    ]
    layout = _rows_layout([row.label for row in rows])
    layout |= {"barmode": "overlay"}
    layout["xaxis"] |= {"type": "date"}
    return {"data": traces, "layout": layout}


def lines(rows: Sequence[Series]) -> Chart | None:
    """Return a chart of values over time, one line per series, with a legend."""
    if not any(row.points for row in rows):
        return None
    traces = [
        {
            "type": "scatter",
            "mode": "lines" if len(row.points) > 1 else "markers",
            "name": _text(_shorten(row.name)),
            "x": [_time(at) for at, _ in sorted(row.points)],
            "y": [value for _, value in sorted(row.points)],
            "line": {"color": _colour(_TONES[number % len(_TONES)]), "width": 2},
            "marker": {"color": _colour(_TONES[number % len(_TONES)]), "size": 8},
        }
        for number, row in enumerate(rows)
    ]
    layout = _layout(_LINES_HEIGHT)
    layout["xaxis"] |= {"type": "date"}
    layout["yaxis"] |= {"rangemode": "tozero"}
    layout |= {
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.15},
        "hovermode": "x unified",
    }
    return {"data": traces, "layout": layout}


def _intervals(tone: str, spans: Sequence[tuple[int, Span]]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "y": [number for number, _ in spans],
        "base": [_time(span.start_s) for _, span in spans],
        "x": [
            (span.end_s - span.start_s) * 1e3 for _, span in spans
        ],  # milliseconds, on a date axis
        "width": 0.5,
        **_marks(tone, [span for _, span in spans]),
    }


def _points(tone: str, spans: Sequence[tuple[int, Span]]) -> dict[str, Any]:
    marks = _marks(tone, [span for _, span in spans])
    marks["marker"] |= {"size": 10}
    return {
        "type": "scatter",
        "mode": "markers",
        "y": [number for number, _ in spans],
        "x": [_time(span.start_s) for _, span in spans],
        **marks,
    }


def _marks(tone: str, spans: Iterable[Span]) -> dict[str, Any]:
    return {
        "marker": {"color": _colour(tone)},
        "hovertext": [_text(span.title) for span in spans],
        "hovertemplate": _HOVER,
    }


def _rows_layout(labels: Sequence[str]) -> dict[str, Any]:
    """Return a layout with one labelled row per item, the first at the top."""
    layout = _layout(len(labels) * _ROW_HEIGHT + _AXIS_HEIGHT)
    layout["yaxis"] |= {
        "tickvals": list(range(len(labels))),
        "ticktext": [_text(_shorten(label)) for label in labels],
        "range": [len(labels) - 0.5, -0.5],
        "showgrid": False,
    }
    return layout


def _layout(height: int) -> dict[str, Any]:
    axis = {
        "gridcolor": "var(--rule)",
        "linecolor": "var(--rule)",
        "zerolinecolor": "var(--rule)",
        "automargin": True,
    }
    return {
        "height": height,
        "margin": {"l": 10, "r": 90, "t": 10, "b": 30},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--ink)", "size": 12},
        "hoverlabel": {"bgcolor": "var(--card)", "font": {"color": "var(--ink)"}, "align": "left"},
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": "var(--soft)",
            "activecolor": "var(--ink)",
        },
        "showlegend": False,
        # Dragging selects a time range; the other axis cannot be zoomed.
        "dragmode": "zoom",
        "xaxis": {**axis},
        "yaxis": {**axis, "fixedrange": True},
    }


def _colour(tone: str) -> str:
    return f"var(--{tone})"


def _time(seconds: float) -> str:
    """Return a time in UTC as Plotly reads it: its axes have no time zones."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S.%f}"


def _text(text: str) -> str:
    """Escape a text: Plotly interprets a subset of HTML in labels."""
    return html.escape(escape_unprintable(text), quote=False)


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_LABEL_LENGTH else f"…{text[1 - _MAX_LABEL_LENGTH :]}"
