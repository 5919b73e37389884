"""The report's section with the time lines of groups: who was a member when, and why it changed."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.report import charts
from kafkalite.lab.spark.report.charts import Span, Timeline
from kafkalite.lab.spark.report.formatting import MAX_EVENTS, name
from kafkalite.lab.spark.report.model import BAD, GOOD, WARN, Event, GroupTimeline, Section
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.lab.spark.report.formatting import Row, Rows

_MAX_MEMBERS: Final = 20
"""Members in the chart of a group."""
_JOINED: Final = "joined"
_ENDS: Final = frozenset(("left", "expired"))
_CHANGES: Final = frozenset(("rebalance", "generation"))
_TONES: Final = {
    _JOINED: GOOD, "rebalance": WARN, "expired": BAD, "fenced": BAD, "refused": BAD,
}  # fmt: skip
_PLAIN: Final = "plain"


def groups(rows_by_query: Mapping[str, Rows]) -> Section:
    """Return the section with the time lines of groups."""
    rows = rows_by_query["group_timelines"]
    by_group = {group: [*own] for group, own in groupby(rows, key=lambda each: each["group_id"])}
    rebalances = {
        group: sum(row["kind"] == "rebalance" for row in own) for group, own in by_group.items()
    }
    order = sorted(by_group, key=lambda group: (-rebalances[group], group))
    shown = count_text(len(order), "group")
    most = f" {name(order[0])} has most rebalances: {rebalances[order[0]]:,}." if order else ""
    return Section(
        name="groups",
        title="Time lines of groups",
        source="as kafkalite explain words them",
        tone=GOOD,
        headline=f"Members, generations and rebalances of {shown}, with reasons.{most}",
        legend=((GOOD, "member"), (WARN, "rebalance"), (BAD, "refused, fenced or expired")),
        timelines=tuple(_timeline(group, by_group[group], rebalances[group]) for group in order),
    )


def _timeline(group: str, rows: Rows, rebalances: int) -> GroupTimeline:
    cut = f" (first {MAX_EVENTS} events)" if len(rows) >= MAX_EVENTS else ""
    title = f"{name(group)}: {count_text(rebalances, 'rebalance')}{cut}"
    return GroupTimeline(title, charts.timelines(_lanes(rows)), tuple(map(_event, rows)))


def _event(row: Row) -> Event:
    at = f"{row['at']:%H:%M:%S}.{row['at'].microsecond // 1000:03d}"
    return Event(
        _TONES.get(row["kind"], _PLAIN), at, row["kind"], row["text"], row["clients"] or ""
    )


def _lanes(rows: Rows) -> list[Timeline]:
    """Return a lane for the group's rebalances, and one for each member's time in it."""
    end_s = rows[-1]["at"].timestamp()
    changes = tuple(_point(row) for row in rows if row["kind"] in _CHANGES)
    joined: dict[str, Row] = {}
    spans: dict[str, list[Span]] = {}
    for row in rows:
        for member in row["member_ids"] or ():
            if row["kind"] == _JOINED:
                joined.setdefault(member, row)
                spans.setdefault(member, [])
            elif row["kind"] in _ENDS and member in joined:
                spans[member].append(_span(joined.pop(member), row["at"].timestamp(), row["text"]))
            elif row["kind"] in _TONES and row["kind"] not in _CHANGES:
                spans.setdefault(member, []).append(_point(row))
    for member, row in joined.items():
        spans[member].append(_span(row, end_s, row["text"]))
    lanes = [Timeline(member, tuple(own)) for member, own in spans.items()]
    return [Timeline("rebalances", changes), *lanes[:_MAX_MEMBERS]]


def _span(begun: Row, end_s: float, text: str) -> Span:
    return Span(begun["at"].timestamp(), end_s, GOOD, text)


def _point(row: Row) -> Span:
    at_s = row["at"].timestamp()
    return Span(at_s, at_s, _TONES.get(row["kind"], _PLAIN), row["text"])
