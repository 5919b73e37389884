"""The report's section on producer fencing, transactions and Kafka Connect's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.report import charts
from kafkalite.lab.spark.report.charts import Span, Timeline
from kafkalite.lab.spark.report.formatting import MAX_CHART_ROWS, listing, name
from kafkalite.lab.spark.report.model import BAD, GOOD, WARN, Section
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.lab.spark.report.formatting import Rows


def producers(rows_by_query: Mapping[str, Rows]) -> Section:
    """Return the section about takeovers of transactional ids and writes by fenced producers."""
    fences, zombies = rows_by_query["producer_fences"], rows_by_query.get("zombie_writes", ())
    ends = {row["outcome"]: row["transactions"] for row in rows_by_query["transaction_ends"]}
    takeovers = rows_by_query["takeovers"][0]["takeovers"]
    outcomes = {row["outcome"]: row["writes"] for row in rows_by_query["zombie_outcomes"]}
    accepted = outcomes.get("accepted", 0)
    headline = (
        f"{count_text(takeovers, 'takeover')} of transactional ids. "
        f"{count_text(sum(outcomes.values()), 'write')} by fenced producers, of which the broker "
        f"accepted {accepted}. "
        f"{count_text(ends.get('overdue', 0), 'transaction')} left open longer than the timeout."
    )
    by_end = ", ".join(f"{number:,} {end}" for end, number in sorted(ends.items()))
    return Section(
        name="producers",
        title="Fenced producers and their late writes",
        source="KIP-618",
        tone=BAD if accepted else WARN if outcomes or "overdue" in ends else GOOD,
        headline=headline,
        detail=(f"Transactions: {by_end}." if by_end else "") + _connect_summary(rows_by_query),
        plot=charts.timelines(_id_timelines(fences, zombies)),
        legend=_LEGEND,
        listings=(
            listing(
                "Writes by fenced producers, accepted ones first",
                zombies,
                ("at", "transactional_id", "api", "client", "producer_epoch", "fencing_epoch",
                 "fenced_by", "outcome", "error"),
            ),
            listing(
                "Open transactions, longest first",
                rows_by_query.get("open_transactions", ()),
                ("transactional_id", "producer_id", "producer_epoch", "client", "began_at",
                 "outcome", "seconds"),
            ),
            listing(
                "Producers of Connect tasks, by generation",
                rows_by_query.get("connect_tasks", ()),
                ("connect_group", "connector", "task", "generation", "began_at", "client",
                 "has_writes", "ended_at", "end_reason", "writes_after_end"),
            ),
            listing(
                "Connect: fencing between generations, failures first",
                rows_by_query.get("connect_generations", ()),
                _GENERATION_COLUMNS,
            ),
        ),
    )  # fmt: skip


_GENERATION_COLUMNS: Final = (
    "connect_group", "connector", "generation", "configured_at", "task_count_at", "tasks",
    "previous_tasks", "tasks_fenced", "tasks_unfenced", "tasks_started_early",
)  # fmt: skip
_LEGEND: Final = (
    ("a", "new epoch"),
    (WARN, "takeover by another producer"),
    (BAD, "write by a fenced producer"),
)


def _connect_summary(rows_by_query: Mapping[str, Rows]) -> str:
    """Return a sentence: whether leaders fenced the previous tasks before new tasks started."""
    generations = rows_by_query.get("connect_generations", ())
    if not generations:
        return ""
    unfenced = sum(row["tasks_unfenced"] for row in generations)
    early = sum(row["tasks_started_early"] for row in generations)
    return (
        f" Connect: {count_text(len(generations), 'task configuration')}; "
        f"{count_text(unfenced, 'previous task')} not fenced; "
        f"{count_text(early, 'task')} started before the leader allowed it."
    )


def _id_timelines(fences: Rows, zombies: Rows) -> list[Timeline]:
    """Return timelines of the transactional ids with the most events; the busiest come first."""
    spans: dict[str | None, list[Span]] = {}
    for row in fences:
        tone = WARN if row["kind"] == "takeover" else "a"
        title = f"{row['kind']}: epoch {row['producer_epoch']} to {name(row['client'])}"
        at = row["at"].timestamp()
        spans.setdefault(row["transactional_id"], []).append(Span(at, at, tone, title))
    for row in zombies:
        at = row["at"].timestamp()
        title = f"{row['api']} at epoch {row['producer_epoch']}, {row['outcome']}"
        spans.setdefault(row["transactional_id"], []).append(Span(at, at, BAD, title))
    busiest = sorted(spans.items(), key=lambda item: -len(item[1]))[:MAX_CHART_ROWS]
    return [Timeline(name(key), tuple(id_spans)) for key, id_spans in busiest]
