"""The report's section on offset commits that fencing rules refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.report import charts
from kafkalite.lab.spark.report.charts import Bar, Part
from kafkalite.lab.spark.report.formatting import listing
from kafkalite.lab.spark.report.model import BAD, GOOD, WARN, Section
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.lab.spark.report.formatting import Row, Rows


def fencing(rows_by_query: Mapping[str, Rows]) -> Section:
    """Return the section about commits that each fencing rule and the broker refuse."""
    by_kind: dict[str, dict[str, Row]] = {}
    for row in rows_by_query["fencing_totals"]:
        by_kind.setdefault(row["commit_kind"], {})[row["rule"]] = row
    totals = by_kind["epoch"]
    strict, relaxed = totals["strict"], totals["assignment-epoch"]
    zombies = strict["zombies_refused"] + strict["zombies_accepted"]
    headline = (
        f"{count_text(strict['commits'], 'commit')} by members with epochs. The strict rule "
        f"refuses {strict['commits_failed']:,}, the assignment-epoch rule "
        f"{relaxed['commits_failed']:,}. {_partitions_were(zombies)} committed by zombies."
    )
    aborts = _aborts(totals)
    undecidable = relaxed["commits_undecidable"]
    detail = (
        _closest_rules(totals)
        + (f" Transactions aborted by refused commits: {aborts}." if aborts else "")
        + (
            f" The capture does not contain enough to decide {count_text(undecidable, 'commit')}."
            if undecidable
            else ""
        )
        + _commits_without_epochs(by_kind)
    )
    accepted_zombies = totals["broker"]["zombies_accepted"]
    has_refusals = any(row["partitions_failed"] for row in totals.values())
    return Section(
        name="fencing",
        title="Offset commits refused by fencing",
        source="KAFKA-19779, KIP-1251",
        tone=BAD if accepted_zombies else WARN if totals["broker"]["still_owned_refused"] else GOOD,
        headline=headline,
        detail=detail,
        plot=(
            charts.bars([_rule_bar(rule, row) for rule, row in totals.items()])
            if has_refusals
            else None
        ),
        legend=_LEGEND,
        listings=(
            listing(
                "Commits of zombies, then other refused or outdated commits",
                rows_by_query.get("fencing_cases", ()),
                ("at", "group_id", "member_id", "topic", "partition", "commit_epoch",
                 "member_epoch", "classification", "strict_decision", "revocation_epoch_decision",
                 "assignment_epoch_decision", "broker_decision"),
            ),
        ),
    )  # fmt: skip


_LEGEND: Final = (
    (BAD, "zombie: another member owns the partition"),
    (WARN, "still owned: the member still owns the partition"),
    ("plain", "other: the partition has no owner, or the member had left"),
)


def _closest_rules(totals: Mapping[str, Row]) -> str:
    """Return a sentence that names the rules closest to the broker, or says that all are equal."""
    differences = {
        rule: row["differs_from_broker"] for rule, row in totals.items() if rule != "broker"
    }
    least = min(differences.values())
    closest = [rule for rule, commits in differences.items() if commits == least]
    if len(closest) < len(differences):
        rules = f"rule{'s' if len(closest) > 1 else ''} {' and '.join(closest)}"
        exception = f", except for {count_text(least, 'commit')}" if least else ""
        return f"The broker decided as the {rules}{exception}."
    if least:
        return f"Each rule differs from the broker's decision for {count_text(least, 'commit')}."
    return "All rules agree with the broker's decision for every commit."


def _aborts(totals: Mapping[str, Row]) -> str:
    """Return how many transactions each rule aborts; an empty string if none does."""
    if not any(row["transactions_aborted"] for row in totals.values()):
        return ""
    return ", ".join(f"{row['transactions_aborted']:,} by {rule}" for rule, row in totals.items())


def _commits_without_epochs(by_kind: Mapping[str, Mapping[str, Row]]) -> str:
    """Return sentences about commits to which no rule by member epochs applies."""
    parts = []
    if "generation" in by_kind and (strict := by_kind["generation"]["strict"])["commits"]:
        broker = by_kind["generation"]["broker"]
        refused = strict["zombies_refused"]
        parts.append(
            f" Classic groups: the broker refused {broker['commits_failed']:,} of "
            f"{count_text(strict['commits'], 'commit')}, of which "
            f"{_partitions_were(refused)} committed by zombies. It accepted "
            f"{broker['zombies_accepted']:,} partitions committed by zombies."
        )
    for kind, text in _TEXTS_BY_KIND.items():
        if kind in by_kind:
            parts.append(f" {count_text(by_kind[kind]['broker']['commits'], 'commit')} {text}.")
    return "".join(parts)


def _partitions_were(number: int) -> str:
    return f"{count_text(number, 'partition')} {'was' if number == 1 else 'were'}"


_TEXTS_BY_KIND: Final = {
    "simple": "came from clients that are not group members",
    "unknown": "came from members of groups whose epochs and generations are not in the capture",
}
"""Kinds of commits that no rule applies to → the report's text about them."""


def _rule_bar(rule: str, row: Row) -> Bar:
    zombies, still_owned = row["zombies_refused"], row["still_owned_refused"]
    others = max(row["partitions_failed"] - zombies - still_owned, 0)
    return Bar(
        "the broker" if rule == "broker" else rule,
        (
            Part(zombies, BAD, f"{zombies} partitions of zombies refused"),
            Part(still_owned, WARN, f"{still_owned} partitions that the member still owns refused"),
            Part(others, "plain", f"{others} other partitions refused"),
        ),
        f"{row['commits_failed']:,} commits",
    )
