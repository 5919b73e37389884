"""Fencing of commits (KAFKA-19779, KIP-1251): what each rule would have refused, and rightly so.

The totals set every rule beside what the broker did: how many commits and transactions it would
have failed, how many of these were of zombies, and how many zombies it would have let through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.groups.fencing import STRICT
from kafkalite.spark.audits.classic import BY_GENERATION, COUNTS, GENERATION
from kafkalite.spark.audits.contract import Audit, AuditOptions
from kafkalite.spark.audits.judging import (
    BY_EPOCH,
    CURRENT,
    INNOCENT,
    JUDGED,
    UNJUDGED,
    ZOMBIE,
    judge,
)
from kafkalite.spark.audits.sifting import counted, in_doubt
from kafkalite.spark.audits.verdicts import ACCEPT, REFUSE, RULE_COLUMNS, UNDECIDABLE
from kafkalite.spark.state.epochs import EPOCHS
from kafkalite.spark.state.tables import Table, table
from kafkalite.spark.state.turns import TURNS, may_change_over, with_epochs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from kafkalite.spark.requests import Requests

CASES = Table(
    "fencing_cases",
    "A partition of a commit that was not simply at its member's own epoch, or that was refused",
    JUDGED.columns,
)

TOTALS = table(
    "fencing_totals",
    "What one rule makes of all commits that are fenced alike",
    (
        "fenced_by",
        "string",
        (
            "epoch; generation: of members of classic groups, to whom relaxed rules do not apply; "
            "simple: of nobody who is a member; unknown: of members of groups of which the capture "
            "tells nothing else"
        ),
    ),
    ("rule", "string", "strict, revocation-epoch, assignment-epoch, or broker: what it did"),
    ("commits", "bigint", "the requests"),
    ("commits_failed", "bigint", "those it refuses: one refused partition fails a whole request"),
    ("commits_undecidable", "bigint", "those of which the capture does not tell"),
    ("partitions_failed", "bigint", "the partitions it refuses by themselves"),
    ("transactions_aborted", "bigint", "the transactions that its refusals end"),
    ("zombies_refused", "bigint", "partitions of zombies that it refuses"),
    ("zombies_accepted", "bigint", "partitions of zombies that it lets through"),
    ("innocents_refused", "bigint", "partitions held all along that it refuses"),
    ("otherwise_than_broker", "bigint", "requests that it decides otherwise than the broker did"),
)

PLAIN = table(
    "plain_commits",
    "How many commits of a group came within an hour of which there is nothing else to say",
    ("group_id", "string", "the group"),
    ("at", "timestamp", "when the hour begins"),
    ("commits", "bigint", "the requests: at their member's epoch, and taken"),
)

BROKER: Final = "broker"

_REQUEST = ("connection", "start_us", "position")


def judged(requests: Requests) -> DataFrame:
    """Return the commits in doubt of members with epochs, judged partition by partition."""
    epochs = requests.state(EPOCHS.name)
    turns = requests.state(TURNS.name) if may_change_over(requests) else None
    return judge(
        with_epochs(in_doubt(requests), epochs, turns),
        epochs,
        requests.state("holdings"),
        requests.state("topics"),
    ).where(f.col("truth") != UNJUDGED)


def plain(requests: Requests) -> DataFrame:
    """Return how many commits of members with epochs are plain, as `PLAIN`."""
    return PLAIN.shape(
        counted(requests)
        .where(f.col("fenced_by") == BY_EPOCH)
        .groupBy("group_id", f.timestamp_micros("start_us").alias("at"))
        .agg(f.sum("commits").alias("commits"))
    )


def fencing(requests: Requests, _: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    rows = requests.state(JUDGED.name).unionByName(requests.state(BY_GENERATION.name))
    ends = requests.of("EndTxn").select("request.transactional_id", f.unix_micros("ts").alias("at"))
    counted = with_all_counted(
        totals(rows, ends), requests.state(COUNTS.name), requests.state(PLAIN.name)
    )
    return {TOTALS.name: counted, CASES.name: cases(rows)}


def cases(judged_commits: DataFrame) -> DataFrame:
    """Return what is worth a look, as `CASES`."""
    return judged_commits.where(
        ~f.col("truth").isin(CURRENT, UNJUDGED) | (f.col("broker") == REFUSE)
    )


def totals(judged_commits: DataFrame, ends: DataFrame) -> DataFrame:
    """Return what each rule makes of it all, as `TOTALS`; `ends` has when transactions ended."""
    rows = judged_commits.where(f.col("truth") != UNJUDGED)
    by_request = rows.groupBy("fenced_by", *_REQUEST).agg(
        *(
            count.alias(f"{column}_{name}")
            for column in _COLUMNS.values()
            for name, count in _of_request(column).items()
        )
    )
    sums = by_request.groupBy("fenced_by").agg(
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
    stacked = (
        _kinds(sums.sparkSession)
        .join(sums, "fenced_by", "left")
        .selectExpr(
            "fenced_by", f"stack({len(_COLUMNS)}, {of_rules}) as (rule, {', '.join(names)})"
        )
        .where(f"fenced_by = '{BY_EPOCH}' or rule in ('{STRICT}', '{BROKER}')")
    )
    return TOTALS.shape(
        stacked.join(_aborted(rows, ends), ["fenced_by", "rule"], "left").na.fill(0)
    )


def _kinds(spark: SparkSession) -> DataFrame:
    """Return the kinds of members that rules apply to: there is a row of each, come what may."""
    kinds = f.array(f.lit(BY_EPOCH), f.lit(GENERATION))
    return spark.range(1).select(f.explode(kinds).alias("fenced_by"))


def with_all_counted(found: DataFrame, counts: DataFrame, plain_: DataFrame) -> DataFrame:
    """Count the commits that nothing is to be said of, and those of nobody who is a member."""
    told = counts.select("fenced_by", f.col("commits").alias("counted"), "refused")
    by_epoch = plain_.agg(f.coalesce(f.sum("commits"), f.lit(0)).alias("plain"))
    known = (
        found.join(told, "fenced_by", "left")
        .crossJoin(f.broadcast(by_epoch))
        .withColumn(
            "commits",
            f.when(f.col("fenced_by") == BY_EPOCH, f.col("commits") + f.col("plain")).otherwise(
                f.coalesce("counted", "commits")
            ),
        )
    )
    others = (
        told.where(f.col("fenced_by") != GENERATION)
        .join(known.select("fenced_by"), "fenced_by", "left_anti")
        .select(
            "fenced_by",
            f.lit(BROKER).alias("rule"),
            f.col("counted").alias("commits"),
            f.col("refused").alias("commits_failed"),
        )
    )
    return TOTALS.shape(known.unionByName(others, allowMissingColumns=True).na.fill(0))


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
        .groupBy(
            "fenced_by",
            "rule",
            "c.transactional_id",
            "c.producer_id",
            "c.producer_epoch",
            "c.start_us",
        )
        .agg(f.coalesce(f.min("e.at"), f.lit(0)).alias("end"))
    )
    transaction = f.struct("transactional_id", "producer_id", "producer_epoch", "end")
    return by_commit.groupBy("fenced_by", "rule").agg(
        f.count_distinct(transaction).alias("transactions_aborted")
    )


FENCING = Audit(
    "fencing",
    "which commits each rule of fencing refuses, and which of them came from zombies",
    (TOTALS, CASES),
    fencing,
)
"""The audit."""
