"""Plots as SVG: they need no script and no network, and take their colours from the page.

Each mark has a title, which a browser shows when pointed at.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kafkalite.spark.report.words import legible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WIDTH: Final = 860
_LABELS: Final = 210
_RIGHT: Final = 110
_ROW: Final = 26
_AXIS: Final = 26
_HEIGHT: Final = 220
_TICKS: Final = 5
_LONGEST_LABEL: Final = 32
_INSTANTS: Final = (
    (43_200, "%b %d %H:%M", None),
    (1, "%H:%M:%S", None),
    (0.001, "%H:%M:%S.%f", -3),
    (0, "%H:%M:%S.%f", None),
)
"""(from how many seconds a tick on, how instants are written, and where that is cut)."""
_TONES: Final = ("a", "b", "c", "d", "e", "f")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar."""

    value: float
    tone: str
    """One of the page's tones: good, warn, bad, plain, or a to f."""
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of parts, one after the other, and what is written behind it."""

    label: str
    parts: tuple[Part, ...]
    says: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted, or happened once where it ends as it begins."""

    start: float
    end: float
    tone: str
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A line of time with what happened on it."""

    label: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """A line over time: (seconds since the Unix epoch, value)."""

    name: str
    points: tuple[tuple[float, float], ...]


def bars(rows: Sequence[Bar], *, is_log: bool = False) -> str:
    """Plot bars one below the other; by magnitude with `is_log`."""
    longest = max((sum(part.value for part in row.parts) for row in rows), default=0)
    room = _WIDTH - _LABELS - _RIGHT

    def width(value: float) -> float:
        if longest <= 0 or value <= 0:
            return 0
        if is_log:
            least = min(sum(p.value for p in r.parts) or longest for r in rows) / 2
            return room * max(0.0, math.log(value / least)) / math.log(longest / least)
        return room * value / longest

    out = []
    for number, row in enumerate(rows):
        top, done, at = number * _ROW, 0.0, float(_LABELS)
        out.append(_label(row.label, top + _ROW * 0.66))
        for part in row.parts:
            done += part.value
            end = _LABELS + width(done)
            if part.value > 0:
                shape = f'x="{at:.1f}" y="{top + 4}" width="{max(end - at, 1.5):.1f}"'
                out.append(_bar(shape, _ROW - 8, part.tone, part.title))
            at = max(at, end)
        out.append(_text("value", at + 6, top + _ROW * 0.66, row.says))
    return _svg(len(rows) * _ROW + 4, out)


def lanes(rows: Sequence[Lane]) -> str:
    """Plot what happened when, a lane a row."""
    every = [span for row in rows for span in row.spans]
    if not every:
        return ""
    first, last = min(span.start for span in every), max(span.end for span in every)
    scale = (_WIDTH - _LABELS - _RIGHT) / ((last - first) or 1)
    out = _times(first, last, len(rows) * _ROW)
    for number, row in enumerate(rows):
        top = number * _ROW
        out.append(_label(row.label, top + _ROW * 0.66))
        out.append(
            f'<line class="rule" x1="{_LABELS}" x2="{_WIDTH - _RIGHT}"'
            f' y1="{top + _ROW / 2}" y2="{top + _ROW / 2}"/>'
        )
        for span in row.spans:
            x = _LABELS + (span.start - first) * scale
            if span.end > span.start:
                width = max((span.end - span.start) * scale, 2)
                shape = f'x="{x:.1f}" y="{top + 6}" width="{width:.1f}"'
                out.append(_bar(shape, _ROW - 12, span.tone, span.title))
            else:
                shape = f'cx="{x:.1f}" cy="{top + _ROW / 2}" r="5"'
                out.append(_marked("circle", shape, span.tone, span.title))
    return _svg(len(rows) * _ROW + _AXIS, out)


def lines(rows: Sequence[Series]) -> str:
    """Plot values over time, a line a series, with a legend of them."""
    points = [point for row in rows for point in row.points]
    if not points:
        return ""
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    highest = max(value for _, value in points) or 1
    across = (_WIDTH - _LABELS - _RIGHT) / ((last - first) or 1)
    out = _times(first, last, _HEIGHT)
    for tick in range(_TICKS):
        value = highest * tick / (_TICKS - 1)
        y = _HEIGHT - 8 - (_HEIGHT - 24) * tick / (_TICKS - 1)
        out.append(
            f'<line class="rule" x1="{_LABELS}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        out.append(
            f'<text class="value" x="{_WIDTH - _RIGHT + 6}" y="{y + 4:.1f}">{short(value)}</text>'
        )
    for number, row in enumerate(rows):
        tone = _TONES[number % len(_TONES)]
        places = [
            (_LABELS + (at - first) * across, _HEIGHT - 8 - (_HEIGHT - 24) * value / highest)
            for at, value in sorted(row.points)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(_marked("polyline", f'points="{path}"', f"{tone} line", row.name))
        if len(places) == 1:
            out.append(_marked("circle", _dot(*places[0]), tone, row.name))
        top = 18 + number * 22
        out.append(f'<rect class="{tone}" x="0" y="{top - 10}" width="12" height="12" rx="3"/>')
        out.append(_text("legend", 18, top, _cut(row.name)))
    return _svg(_HEIGHT + _AXIS, out)


def short(value: float) -> str:
    """Write a number in few characters."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}".rstrip("0").rstrip(".")


def _times(first: float, last: float, bottom: float) -> list[str]:
    out = []
    step = (last - first) / (_TICKS - 1)
    form, end = next((form, end) for least, form, end in _INSTANTS if step >= least)
    for tick in range(_TICKS):
        at = first + (last - first) * tick / (_TICKS - 1)
        x = _LABELS + (_WIDTH - _LABELS - _RIGHT) * tick / (_TICKS - 1)
        said = datetime.fromtimestamp(at, UTC).strftime(form)[:end]
        out.append(f'<text class="axis" x="{x:.1f}" y="{bottom + 18}">{said}</text>')
        if last == first:
            break
    return out


def _label(text: str, y: float) -> str:
    cut = _escape(_cut(text))
    told = f"{cut}<title>{_escape(text)}</title>"
    return f'<text class="label" x="{_LABELS - 10}" y="{y:.1f}">{told}</text>'


def _text(kind: str, x: float, y: float, said: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{_escape(said)}</text>'


def _escape(text: str) -> str:
    return html.escape(legible(text))


def _dot(x: float, y: float) -> str:
    return f'cx="{x:.1f}" cy="{y:.1f}" r="4"'


def _bar(shape: str, height: int, tone: str, title: str) -> str:
    return _marked("rect", f'{shape} height="{height}" rx="3"', tone, title)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else f"…{text[1 - _LONGEST_LABEL :]}"


def _marked(kind: str, shape: str, tone: str, title: str) -> str:
    return f'<{kind} class="{tone}" {shape}><title>{_escape(title)}</title></{kind}>'


def _svg(height: float, parts: Iterable[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'
