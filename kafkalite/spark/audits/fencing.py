"""Fencing of commits (KAFKA-19779, KIP-1251): what each rule would have refused, and rightly so.

The totals set every rule beside what the broker did: how many commits and transactions it would
have failed, how many of these were of zombies, and how many zombies it would have let through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.spark.audits.contract import Audit, AuditOptions
from kafkalite.spark.audits.judging import CURRENT, INNOCENT, JUDGED, UNJUDGED, ZOMBIE, judge
from kafkalite.spark.audits.verdicts import ACCEPT, REFUSE, RULE_COLUMNS, UNDECIDABLE
from kafkalite.spark.state.commits import commits
from kafkalite.spark.state.tables import Table, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from kafkalite.spark.requests import Requests

CASES = Table(
    "fencing_cases",
    "A partition of a commit that was not simply at its member's own epoch, or that was refused",
    JUDGED.columns,
)

TOTALS = table(
    "fencing_totals",
    "What one rule makes of all commits of members with epochs",
    ("rule", "string", "strict, revocation-epoch, assignment-epoch, or broker: what it did"),
    ("commits", "bigint", "the requests judged"),
    ("commits_failed", "bigint", "those it refuses: one refused partition fails a whole request"),
    ("commits_undecidable", "bigint", "those of which the capture does not tell"),
    ("partitions_failed", "bigint", "the partitions it refuses by themselves"),
    ("transactions_aborted", "bigint", "the transactions that its refusals end"),
    ("zombies_refused", "bigint", "partitions of zombies that it refuses"),
    ("zombies_accepted", "bigint", "partitions of zombies that it lets through"),
    ("innocents_refused", "bigint", "partitions held all along that it refuses"),
    ("otherwise_than_broker", "bigint", "requests that it decides otherwise than the broker did"),
)

BROKER: Final = "broker"

_REQUEST = ("connection", "start_us", "position")


def judged(requests: Requests) -> DataFrame:
    """Return every commit judged, partition by partition: the state that the audit counts."""
    return judge(
        commits(requests),
        requests.state("epochs"),
        requests.state("holdings"),
        requests.state("topics"),
    )


def fencing(requests: Requests, _: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    rows = requests.state(JUDGED.name)
    ends = requests.of("EndTxn").select("request.transactional_id", f.unix_micros("ts").alias("at"))
    return {TOTALS.name: totals(rows, ends), CASES.name: cases(rows)}


def cases(judged_commits: DataFrame) -> DataFrame:
    """Return what is worth a look, as `CASES`."""
    return judged_commits.where(
        ~f.col("truth").isin(CURRENT, UNJUDGED) | (f.col("broker") == REFUSE)
    )


def totals(judged_commits: DataFrame, ends: DataFrame) -> DataFrame:
    """Return what each rule makes of it all, as `TOTALS`; `ends` has when transactions ended."""
    rows = judged_commits.where(f.col("truth") != UNJUDGED)
    by_request = rows.groupBy(*_REQUEST).agg(
        *(
            count.alias(f"{column}_{name}")
            for column in _COLUMNS.values()
            for name, count in _of_request(column).items()
        )
    )
    sums = by_request.agg(
        *(
            total.alias(f"{column}_{name}")
            for column in _COLUMNS.values()
            for name, total in _of_all(column).items()
        )
    )
    names = list(_of_all(BROKER))
    of_rules = ", ".join(
        f"'{rule}', " + ", ".join(f"{column}_{name}" for name in names)
        for rule, column in _COLUMNS.items()
    )
    stacked = sums.selectExpr(f"stack({len(_COLUMNS)}, {of_rules}) as (rule, {', '.join(names)})")
    return TOTALS.shape(
        stacked.join(_aborted(rows, ends), "rule", "left").withColumn(
            "transactions_aborted", f.coalesce("transactions_aborted", f.lit(0))
        )
    )


_COLUMNS = {**RULE_COLUMNS, BROKER: BROKER}


def _of_request(column: str) -> dict[str, Column]:
    """Return what a rule makes of one request, as aggregates of its partitions."""
    refused, accepted = f.col(column) == REFUSE, f.col(column) == ACCEPT
    zombie, innocent = f.col("truth") == ZOMBIE, f.col("truth") == INNOCENT
    return {
        "partitions_failed": f.count_if(refused),
        "undecidable": f.count_if(f.col(column) == UNDECIDABLE),
        "zombies_refused": f.count_if(refused & zombie),
        "zombies_accepted": f.count_if(accepted & zombie),
        "innocents_refused": f.count_if(refused & innocent),
    }


_SUMMED: Final = ("partitions_failed", "zombies_refused", "zombies_accepted", "innocents_refused")


def _of_all(column: str) -> dict[str, Column]:
    """Return what a rule makes of all requests, as aggregates of theirs."""
    fails = f.col(f"{column}_partitions_failed") > 0
    open_ = ~fails & (f.col(f"{column}_undecidable") > 0)
    did_fail = f.col(f"{BROKER}_partitions_failed") > 0
    return {
        "commits": f.count(f.lit(1)),
        "commits_failed": f.count_if(fails),
        "commits_undecidable": f.count_if(open_),
        "otherwise_than_broker": f.count_if(~open_ & (fails != did_fail)),
        **{name: f.coalesce(f.sum(f"{column}_{name}"), f.lit(0)) for name in _SUMMED},
    }


def _aborted(rows: DataFrame, ends: DataFrame) -> DataFrame:
    """Count the transactions that each rule's refusals end: a client can only abort them.

    A producer may go through many transactions at one epoch: they are told apart by the end that
    comes next.
    """
    rules = ", ".join(
        f"case when {column} = '{REFUSE}' then '{rule}' end" for rule, column in _COLUMNS.items()
    )
    refused = (
        rows.where("is_transactional")
        .withColumn("rule", f.explode(f.expr(f"array_compact(array({rules}))")))
        .alias("c")
    )
    ended = f.expr("c.transactional_id = e.transactional_id and e.at >= c.start_us")
    by_commit = (
        refused.join(ends.alias("e"), ended, "left")
        .groupBy("rule", "c.transactional_id", "c.producer_id", "c.producer_epoch", "c.start_us")
        .agg(f.coalesce(f.min("e.at"), f.lit(0)).alias("end"))
    )
    transaction = f.struct("transactional_id", "producer_id", "producer_epoch", "end")
    return by_commit.groupBy("rule").agg(
        f.count_distinct(transaction).alias("transactions_aborted")
    )


FENCING = Audit(
    "fencing",
    "which commits each rule of fencing refuses, and which of them came from zombies",
    (TOTALS, CASES),
    fencing,
)
"""The audit."""
