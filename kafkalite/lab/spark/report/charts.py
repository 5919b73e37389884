"""Charts of the report as HTML that fits any width, without scripts.

A bar or a span is an element whose width is a percentage, and a line is part of an SVG that the
browser stretches. Colours are classes of the page, so that charts follow its light and dark themes.
Details are in tooltips.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor, log10
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from kafkalite.lab.spark.report.formatting import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TONES: Final = ("a", "b", "c", "d", "e", "f")
_MIN_SPAN_PERCENT: Final = 0.4
_PLOT_WIDTH, _PLOT_HEIGHT = 1000, 240
_DAY_S: Final = 86_400


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


def bars(rows: Sequence[Bar], *, is_log: bool = False) -> Markup | None:
    """Return a chart of horizontal stacked bars; `is_log` makes the scale logarithmic.

    A logarithmic scale begins at a power of ten below the smallest bar.
    """
    if not rows:
        return None
    totals = [sum(part.value for part in row.parts) for row in rows]
    lengths = _log_lengths(totals) if is_log else _lengths(totals)
    lines_ = Markup("").join(
        _row(
            row.label,
            Markup("").join(
                _box(part.tone, part.title, width=length * part.value / total)
                for part in row.parts
                if part.value > 0
            ),
            row.text,
        )
        for row, total, length in zip(rows, totals, lengths, strict=True)
    )
    return Markup('<div class="chart bars">{}</div>').format(lines_)


def _lengths(totals: Sequence[float]) -> list[float]:
    """Return the lengths of bars in percent."""
    longest = max(totals) or 1
    return [100 * total / longest for total in totals]


def _log_lengths(totals: Sequence[float]) -> list[float]:
    positive = [total for total in totals if total > 0]
    if not positive:
        return [0.0 for _ in totals]
    low = floor(log10(min(positive)) - 0.01)
    high = log10(max(positive))
    return [100 * (log10(total) - low) / (high - low) if total > 0 else 0.0 for total in totals]


def timelines(rows: Sequence[Timeline]) -> Markup | None:
    """Return a chart of timelines below each other, with a common time axis."""
    spans = [span for row in rows for span in row.spans]
    if not spans:
        return None
    start = min(span.start_s for span in spans)
    duration = max(span.end_s for span in spans) - start
    lines_ = Markup("").join(
        _row(row.label, Markup("").join(_placed(span, start, duration) for span in _ordered(row)))
        for row in rows
    )
    return Markup('<div class="chart times">{}{}</div>').format(lines_, _axis(start, duration))


def _ordered(row: Timeline) -> list[Span]:
    """Return the spans with points after intervals, so that no interval hides them."""
    return sorted(row.spans, key=lambda span: (span.end_s <= span.start_s, span.start_s))


def _placed(span: Span, start: float, duration: float) -> Markup:
    left = 100 * (span.start_s - start) / duration if duration else 0.0
    title = f"{_time(span.start_s, 0)} {span.title}"
    if span.end_s <= span.start_s:
        return _box(f"point {span.tone}", title, left=left)
    width = max(_MIN_SPAN_PERCENT, 100 * (span.end_s - span.start_s) / duration)
    return _box(span.tone, title, left=left, width=width)


def lines(rows: Sequence[Series]) -> Markup | None:
    """Return a chart of values over time, one line per series, with a legend."""
    points = [point for row in rows for point in row.points]
    if not points:
        return None
    start = min(at for at, _ in points)
    duration = max(at for at, _ in points) - start
    highest = max(0.0, *(value for _, value in points)) or 1.0
    drawn = Markup("").join(
        _line(_TONES[number % len(_TONES)], row, start, duration, highest)
        for number, row in enumerate(rows)
        if row.points
    )
    keys = Markup("").join(
        Markup('<span><i class="box {}"></i>{}</span>').format(
            _TONES[number % len(_TONES)], escape_unprintable(row.name)
        )
        for number, row in enumerate(rows)
    )
    return Markup(
        '<div class="chart lines"><div class="high">{}</div>'
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img">{}</svg>{}'
        '<div class="key">{}</div></div>'
    ).format(
        f"{highest:,.0f}", _PLOT_WIDTH, _PLOT_HEIGHT, drawn, _axis(start, duration), keys
    )  # fmt: skip


def _line(tone: str, row: Series, start: float, duration: float, highest: float) -> Markup:
    points = [
        (
            _PLOT_WIDTH * (at - start) / duration if duration else 0.0,
            _PLOT_HEIGHT * (1 - value / highest),
        )
        for at, value in sorted(row.points)
    ]
    if len(points) == 1:  # a line needs two
        points.append((points[0][0] + 1, points[0][1]))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup('<polyline class="line {}" points="{}"><title>{}</title></polyline>').format(
        tone, path, escape_unprintable(row.name)
    )


def _row(label: str, track: Markup, text: str = "") -> Markup:
    shown = escape_unprintable(label)
    return Markup(
        '<div class="row"><span class="label" title="{}">{}</span>'
        '<span class="track">{}</span><span class="value">{}</span></div>'
    ).format(shown, shown, track, escape_unprintable(text))


def _box(tone: str, title: str, **percents: float) -> Markup:
    style = ";".join(f"{name}:{percent:.2f}%" for name, percent in percents.items())
    return Markup('<i class="box {}" style="{}" title="{}"></i>').format(
        tone, style, escape_unprintable(title)
    )


def _axis(start: float, duration: float) -> Markup:
    """Return the times at the beginning, in the middle and at the end."""
    times: Iterable[float] = (start, start + duration / 2, start + duration)
    marks = Markup("").join(Markup("<span>{}</span>").format(_time(at, duration)) for at in times)
    return Markup('<div class="axis">{}</div>').format(marks)


def _time(seconds: float, duration: float) -> str:
    """Return a time in UTC; with the date in a chart of more than a day."""
    pattern = "%Y-%m-%d %H:%M" if duration > _DAY_S else "%H:%M:%S"
    return f"{datetime.fromtimestamp(seconds, UTC):{pattern}}"
