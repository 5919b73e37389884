"""Types of the report's sections: headline, plot, tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markupsafe import Markup

GOOD: Final = "good"
WARN: Final = "warn"
BAD: Final = "bad"


@dataclass(frozen=True, slots=True)
class Listing:
    """A table with title, column names and rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """A request that proves an answer: its place, and commands that show it."""

    place: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A finding as an answer: what happened, because of whom, and the proofs."""

    tone: str
    heading: str
    facts: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a time line."""

    tone: str
    at: str
    kind: str
    text: str
    clients: str = ""
    """The client ids and hosts of the members in the text."""


@dataclass(frozen=True, slots=True)
class GroupTimeline:
    """The time line of one group: its members as a chart, and its events."""

    title: str
    plot: Markup | None
    events: tuple[Event, ...]


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
    plot: Markup | None = None
    """A chart as HTML."""
    legend: tuple[tuple[str, str], ...] = ()
    """(tone, meaning of that colour)."""
    answers: tuple[Answer, ...] = ()
    """Findings, the severest first."""
    timelines: tuple[GroupTimeline, ...] = ()
    listings: tuple[Listing, ...] = ()
