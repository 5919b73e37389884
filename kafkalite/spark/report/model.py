"""What a section of the report is made of: a headline, a plot, and tables for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GOOD: Final = "good"
WARN: Final = "warn"
BAD: Final = "bad"


@dataclass(frozen=True, slots=True)
class Listing:
    """A table for people."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One audit's part of the report."""

    name: str
    title: str
    source: str
    """Which proposal asked the question."""
    tone: str
    headline: str
    detail: str = ""
    plot: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    """(tone, what it stands for)."""
    listings: tuple[Listing, ...] = ()
