"""Types of the report's sections: headline, plot, tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

GOOD: Final = "good"
WARN: Final = "warn"
BAD: Final = "bad"


Chart = dict[str, Any]
"""A figure of Plotly: `data`, a list of traces, and `layout`."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A table with title, column names and rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The section of one audit."""

    name: str
    title: str
    source: str
    """The KIPs or issues that the audit is about."""
    tone: str
    headline: str
    detail: str = ""
    plot: Chart | None = None
    legend: tuple[tuple[str, str], ...] = ()
    """(tone, meaning of that colour)."""
    listings: tuple[Listing, ...] = ()
