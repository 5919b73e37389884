"""What the report says of producers and their transactions, and of Connect's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.spark.report import charts
from kafkalite.spark.report.charts import Lane, Span
from kafkalite.spark.report.model import BAD, GOOD, WARN, Section
from kafkalite.spark.report.words import FEW, count, listing, name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.spark.report.words import Rows


def producers(found: Mapping[str, Rows]) -> Section:
    """Say who took over which transactional id, and who wrote on."""
    fences, zombies = found["producer_fences"], found.get("zombie_writes", ())
    ends = {row["end"]: row["transactions"] for row in found["transaction_ends"]}
    takeovers = found["takeovers"][0]["takeovers"]
    outcomes = {row["outcome"]: row["writes"] for row in found["zombie_outcomes"]}
    accepted = outcomes.get("accepted", 0)
    headline = (
        f"{count(takeovers, 'takeover')} of transactional ids; "
        f"{count(sum(outcomes.values()), 'write')} of zombies came after one, {accepted} of which "
        "the broker took; "
        f"{count(ends.get('overdue', 0), 'transaction was', 'transactions were')} left open."
    )
    told = ", ".join(f"{number:,} {end}" for end, number in sorted(ends.items()))
    return Section(
        name="producers",
        title="Producers fenced, and zombies that wrote on",
        source="KIP-618",
        tone=BAD if accepted else WARN if outcomes or "overdue" in ends else GOOD,
        headline=headline,
        detail=(f"Transactions: {told}." if told else "") + _of_connect(found),
        plot=charts.lanes(_id_lanes(fences, zombies)),
        legend=(("a", "new epoch"), (WARN, "takeover"), (BAD, "a zombie's write")),
        listings=(
            listing(
                "Writes of zombies, accepted ones first",
                zombies,
                ("at", "transactional_id", "api", "client", "producer_epoch", "fence_epoch",
                 "fenced_by", "outcome", "error"),
            ),
            listing(
                "Transactions left open, oldest first",
                found.get("open_transactions", ()),
                ("transactional_id", "producer_id", "producer_epoch", "client", "began_at", "end",
                 "seconds"),
            ),
            listing(
                "Generations of Connect's tasks",
                found.get("connect_tasks", ()),
                ("connect_group", "connector", "task", "generation", "began_at", "client",
                 "is_used", "ended_at", "end", "writes_after"),
            ),
            listing(
                "What leaders of Connect did between generations, failings first",
                found.get("connect_generations", ()),
                ("connect_group", "connector", "generation", "configured_at", "counted_at",
                 "tasks", "tasks_before", "tasks_fenced", "tasks_unfenced", "tasks_early"),
            ),
        ),
    )  # fmt: skip


def _of_connect(found: Mapping[str, Rows]) -> str:
    """Say whether leaders of Connect's workers fenced whom they had to."""
    rounds = found.get("connect_generations", ())
    if not rounds:
        return ""
    unfenced = sum(row["tasks_unfenced"] for row in rounds)
    early = sum(row["tasks_early"] for row in rounds)
    return (
        f" Connect: {count(len(rounds), 'set')} of configurations; {count(unfenced, 'task')} of "
        f"the set before went unfenced, {count(early, 'task')} began before it was to."
    )


def _id_lanes(fences: Rows, zombies: Rows) -> list[Lane]:
    """Return the history of the ids that were taken over, most often first."""
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
    busiest = sorted(spans.items(), key=lambda each: -len(each[1]))[:FEW]
    return [Lane(name(key), tuple(each)) for key, each in busiest]
