"""What the report says of commits that rules of fencing refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.spark.report import charts
from kafkalite.spark.report.charts import Bar, Part
from kafkalite.spark.report.model import BAD, GOOD, WARN, Section
from kafkalite.spark.report.words import count, listing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.spark.report.words import Row, Rows


def fencing(found: Mapping[str, Rows]) -> Section:
    """Say what each rule refuses, and what the broker did."""
    by_kind: dict[str, dict[str, Row]] = {}
    for row in found["fencing_totals"]:
        by_kind.setdefault(row["fenced_by"], {})[row["rule"]] = row
    totals = by_kind["epoch"]
    strict, shipped = totals["strict"], totals["assignment-epoch"]
    zombies = strict["zombies_refused"] + strict["zombies_accepted"]
    headline = (
        f"Of {count(strict['commits'], 'commit')} by members with epochs the strict rule fails "
        f"{strict['commits_failed']:,}, the assignment-epoch rule {shipped['commits_failed']:,}; "
        f"{count(zombies, 'partition')} came from true zombies."
    )
    aborts = _aborts(totals)
    undecidable = shipped["commits_undecidable"]
    detail = (
        _likest(totals)
        + (f" Transactions that refusals abort: {aborts}." if aborts else "")
        + (f" The capture does not decide {count(undecidable, 'commit')}." if undecidable else "")
        + _not_by_epoch(by_kind)
    )
    through = totals["broker"]["zombies_accepted"]
    refused = any(row["partitions_failed"] for row in totals.values())
    return Section(
        name="fencing",
        title="Commits that fencing refuses",
        source="KAFKA-19779, KIP-1251",
        tone=BAD if through else WARN if totals["broker"]["innocents_refused"] else GOOD,
        headline=headline,
        detail=detail,
        plot=charts.bars([_rule_bar(rule, row) for rule, row in totals.items()]) if refused else "",
        legend=(
            (BAD, "zombies refused"),
            (WARN, "innocents refused"),
            ("plain", "others refused: of partitions nobody holds yet, or of who had left"),
        ),
        listings=(
            listing(
                "Zombies and innocents, latest first",
                found.get("fencing_cases", ()),
                ("at", "group_id", "member_id", "topic", "partition", "commit_epoch",
                 "member_epoch", "truth", "strict", "revocation", "assignment", "broker"),
            ),
        ),
    )  # fmt: skip


def _likest(totals: Mapping[str, Row]) -> str:
    """Say which rules come nearest to what the broker did; nobody is named where all do."""
    otherwise = {
        rule: row["otherwise_than_broker"] for rule, row in totals.items() if rule != "broker"
    }
    least = min(otherwise.values())
    nearest = [rule for rule, commits in otherwise.items() if commits == least]
    if len(nearest) < len(otherwise):
        does = "does" if len(nearest) == 1 else "do"
        but = f", but for {count(least, 'commit')}" if least else ""
        return f"This broker answered as {' and '.join(nearest)} {does}{but}."
    if least:
        return f"Each rule decides {count(least, 'commit')} otherwise than this broker did."
    return "No commit here tells the rules apart: this broker answered as all of them do."


def _aborts(totals: Mapping[str, Row]) -> str:
    """Say how many transactions each rule fails; nothing where none does."""
    if not any(row["transactions_aborted"] for row in totals.values()):
        return ""
    return ", ".join(f"{row['transactions_aborted']:,} by {rule}" for rule, row in totals.items())


def _not_by_epoch(by_kind: Mapping[str, Mapping[str, Row]]) -> str:
    """Say what became of commits that no rule by epochs applies to."""
    parts = []
    if "generation" in by_kind and (strict := by_kind["generation"]["strict"])["commits"]:
        broker = by_kind["generation"]["broker"]
        parts.append(
            f" Of {count(strict['commits'], 'commit')} in classic groups the broker refused "
            f"{broker['commits_failed']:,}; {count(strict['zombies_refused'], 'partition')} of "
            f"these {'was' if strict['zombies_refused'] == 1 else 'were'} of zombies, and "
            f"{broker['zombies_accepted']:,} of zombies it took."
        )
    for kind, says in _OF_NOBODY.items():
        if kind in by_kind:
            parts.append(f" {count(by_kind[kind]['broker']['commits'], 'commit')} {says}.")
    return "".join(parts)


_OF_NOBODY: Final = {
    "simple": "came from nobody who is a member",
    "unknown": "came from members of groups of which the capture tells nothing else",
}
"""Kinds of commits that nothing is judged of."""


def _rule_bar(rule: str, row: Row) -> Bar:
    zombies, innocents = row["zombies_refused"], row["innocents_refused"]
    rest = max(row["partitions_failed"] - zombies - innocents, 0)
    return Bar(
        "what the broker did" if rule == "broker" else rule,
        (
            Part(zombies, BAD, f"{zombies} partitions of zombies refused"),
            Part(innocents, WARN, f"{innocents} partitions of innocents refused"),
            Part(rest, "plain", f"{rest} other partitions refused"),
        ),
        f"{row['commits_failed']:,} commits",
    )
