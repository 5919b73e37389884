"""Fencing of commits (KAFKA-19779, KIP-1251): the decisions of each rule and of the broker.

The totals compare every rule with the broker: the commits and transactions that the rule would have
failed, how many of these came from zombies, and how many commits of zombies it would have accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.groups.modern.offset_commit_fencing import STRICT
from kafkalite.lab.spark.audits.classic import BY_GENERATION, COMMIT_COUNTS, GENERATION
from kafkalite.lab.spark.audits.commit_checks import (
    BY_EPOCH,
    CLASSIFIED,
    CURRENT,
    STILL_OWNED,
    UNCLASSIFIED,
    ZOMBIE,
    classify,
)
from kafkalite.lab.spark.audits.commit_triage import commits_to_check, counted_commits
from kafkalite.lab.spark.audits.contract import Audit, AuditOptions
from kafkalite.lab.spark.audits.fencing_rules import ACCEPT, REFUSE, RULE_COLUMNS, UNDECIDABLE
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.epochs import EPOCHS
from kafkalite.lab.spark.state.heartbeats import RUNS
from kafkalite.lab.spark.state.protocol_changes import (
    CLASSIC_INTERVALS,
    may_migrate,
    select_with_epochs,
)
from kafkalite.lab.spark.state.tables import Table, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from kafkalite.lab.spark.requests import Requests

CASES = Table(
    "fencing_cases",
    "A partition of a commit that was refused, or that was not at its member's epoch",
    CLASSIFIED.columns,
)

TOTALS = table(
    "fencing_totals",
    "The decisions of one rule on all commits of one kind",
    (
        "commit_kind",
        "string",
        (
            "epoch: of members with epochs; generation: of members of classic groups, to which "
            "relaxed rules do not apply; simple: of clients that are not members; unknown: of "
            "members of groups whose epochs and generations the capture does not show"
        ),
    ),
    ("rule", "string", "strict, revocation-epoch, assignment-epoch, or broker: its decisions"),
    ("commits", "bigint", "number of requests"),
    ("commits_failed", "bigint", "requests with at least one refused partition"),
    (
        "commits_undecidable",
        "bigint",
        "requests for which the capture does not contain enough information",
    ),
    ("partitions_failed", "bigint", "number of refused partitions"),
    ("transactions_aborted", "bigint", "transactions that must abort because of refusals"),
    ("zombies_refused", "bigint", "refused partitions of zombies"),
    ("zombies_accepted", "bigint", "accepted partitions of zombies"),
    ("still_owned_refused", "bigint", "refused partitions that the member still owned"),
    ("differs_from_broker", "bigint", "requests that the rule and the broker decide differently"),
)

CURRENT_COMMIT_COUNTS = table(
    "current_commit_counts",
    "Number of commits of a group in one hour that were accepted at their member's epoch",
    ("group_id", "string", "the group"),
    ("at", "timestamp", "start of the hour"),
    ("commits", "bigint", "number of requests"),
)

BROKER: Final = "broker"

_REQUEST = ("connection", "start_us", "position")


def classify_commits(requests: Requests) -> DataFrame:
    """Classify the commits to check of members with epochs, partition by partition."""
    epochs = requests.state(EPOCHS.name)
    intervals = requests.state(CLASSIC_INTERVALS.name) if may_migrate(requests) else None
    return classify(
        select_with_epochs(commits_to_check(requests), epochs, intervals),
        epochs,
        requests.state("owned_partitions"),
        requests.state("topics"),
    ).where(f.col("classification") != UNCLASSIFIED)


def count_plain_commits(requests: Requests) -> DataFrame:
    """Return the number of plain commits of members with epochs, as `CURRENT_COMMIT_COUNTS`."""
    return CURRENT_COMMIT_COUNTS.shape(
        counted_commits(requests)
        .where(f.col("commit_kind") == BY_EPOCH)
        .groupBy("group_id", f.timestamp_micros("start_us").alias("at"))
        .agg(f.sum("commits").alias("commits"))
    )


def fencing(requests: Requests, _: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    rows = requests.state(CLASSIFIED.name).unionByName(requests.state(BY_GENERATION.name))
    ends = requests.of("EndTxn").select("request.transactional_id", f.unix_micros("ts").alias("at"))
    counted = add_counted_commits(
        totals(rows, ends),
        requests.state(COMMIT_COUNTS.name),
        requests.state(CURRENT_COMMIT_COUNTS.name),
    )
    return {TOTALS.name: counted, CASES.name: cases(rows)}


def cases(classified_commits: DataFrame) -> DataFrame:
    """Return the commits worth listing, as `CASES`."""
    return classified_commits.where(
        ~f.col("classification").isin(CURRENT, UNCLASSIFIED) | (f.col("broker_decision") == REFUSE)
    )


def totals(classified_commits: DataFrame, ends: DataFrame) -> DataFrame:
    """Return each rule's totals, as `TOTALS`; `ends` has the times of EndTxn requests."""
    rows = classified_commits.where(f.col("classification") != UNCLASSIFIED)
    by_request = rows.groupBy("commit_kind", *_REQUEST).agg(
        *(
            count.alias(f"{column}_{name}")
            for column in _COLUMNS.values()
            for name, count in _request_aggregates(column).items()
        )
    )
    sums = by_request.groupBy("commit_kind").agg(
        *(
            total.alias(f"{column}_{name}")
            for column in _COLUMNS.values()
            for name, total in _total_aggregates(column).items()
        )
    )
    names = list(_total_aggregates(BROKER))
    of_rules = f.array(
        *(
            f.struct(
                f.lit(rule).alias("rule"),
                *(f.col(f"{column}_{name}").alias(name) for name in names),
            )
            for rule, column in _COLUMNS.items()
        )
    )
    stacked = (
        _kinds(sums.sparkSession)
        .join(sums, "commit_kind", "left")
        .select("commit_kind", f.explode(of_rules).alias("r"))
        .select("commit_kind", "r.*")
        .where(f"commit_kind = '{BY_EPOCH}' or rule in ('{STRICT}', '{BROKER}')")
    )
    return TOTALS.shape(
        stacked.join(_aborted(rows, ends), ["commit_kind", "rule"], "left").na.fill(0)
    )


def _kinds(spark: SparkSession) -> DataFrame:
    """Return the values of `commit_kind` that always have a row in the totals."""
    kinds = f.array(f.lit(BY_EPOCH), f.lit(GENERATION))
    return spark.range(1).select(f.explode(kinds).alias("commit_kind"))


def add_counted_commits(
    checked_totals: DataFrame, counts: DataFrame, current_commit_counts: DataFrame
) -> DataFrame:
    """Add the commits that were only counted, and those of clients that are not members."""
    by_kind = counts.select("commit_kind", f.col("commits").alias("counted"), "refused")
    by_epoch = current_commit_counts.agg(f.coalesce(f.sum("commits"), f.lit(0)).alias("plain"))
    known = (
        checked_totals.join(by_kind, "commit_kind", "left")
        .crossJoin(f.broadcast(by_epoch))
        .withColumn(
            "commits",
            f.when(f.col("commit_kind") == BY_EPOCH, f.col("commits") + f.col("plain")).otherwise(
                f.coalesce("counted", "commits")
            ),
        )
    )
    others = (
        by_kind.where(f.col("commit_kind") != GENERATION)
        .join(known.select("commit_kind"), "commit_kind", "left_anti")
        .select(
            "commit_kind",
            f.lit(BROKER).alias("rule"),
            f.col("counted").alias("commits"),
            f.col("refused").alias("commits_failed"),
        )
    )
    return TOTALS.shape(known.unionByName(others, allowMissingColumns=True).na.fill(0))


_COLUMNS = {**RULE_COLUMNS, BROKER: "broker_decision"}


def _request_aggregates(column: str) -> dict[str, Column]:
    """Return a rule's decisions on one request, as aggregates over its partitions."""
    refused, accepted = f.col(column) == REFUSE, f.col(column) == ACCEPT
    zombie, still_owned = f.col("classification") == ZOMBIE, f.col("classification") == STILL_OWNED
    return {
        "partitions_failed": f.count_if(refused),
        "undecidable": f.count_if(f.col(column) == UNDECIDABLE),
        "zombies_refused": f.count_if(refused & zombie),
        "zombies_accepted": f.count_if(accepted & zombie),
        "still_owned_refused": f.count_if(refused & still_owned),
    }


_SUM_COLUMNS: Final = (
    "partitions_failed",
    "zombies_refused",
    "zombies_accepted",
    "still_owned_refused",
)


def _total_aggregates(column: str) -> dict[str, Column]:
    """Return a rule's decisions on all requests, as aggregates over requests."""
    fails = f.col(f"{column}_partitions_failed") > 0
    is_undecidable = ~fails & (f.col(f"{column}_undecidable") > 0)
    broker_fails = f.col(f"{_COLUMNS[BROKER]}_partitions_failed") > 0
    return {
        "commits": f.count(f.lit(1)),
        "commits_failed": f.count_if(fails),
        "commits_undecidable": f.count_if(is_undecidable),
        "differs_from_broker": f.count_if(~is_undecidable & (fails != broker_fails)),
        **{name: f.coalesce(f.sum(f"{column}_{name}"), f.lit(0)) for name in _SUM_COLUMNS},
    }


def _aborted(rows: DataFrame, ends: DataFrame) -> DataFrame:
    """Count the transactions that each rule's refusals force to abort.

    A producer may have many transactions at one epoch. The next EndTxn identifies the transaction.
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
            "commit_kind",
            "rule",
            "c.transactional_id",
            "c.producer_id",
            "c.producer_epoch",
            "c.start_us",
        )
        .agg(f.coalesce(f.min("e.at"), f.lit(0)).alias("end"))
    )
    transaction = f.struct("transactional_id", "producer_id", "producer_epoch", "end")
    return by_commit.groupBy("commit_kind", "rule").agg(
        f.count_distinct(transaction).alias("transactions_aborted")
    )


FENCING = Audit(
    "fencing",
    "offset commits that each fencing rule refuses, and which of them came from zombies",
    (TOTALS, CASES),
    fencing,
    (RUNS.name,),
)
"""The audit `fencing`."""
