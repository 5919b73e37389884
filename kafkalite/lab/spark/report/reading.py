"""Queries of the audits' tables for the report: totals, and the most important rows.

Each query returns few rows, however large the tables are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.columnar.tables import PROBLEMS
from kafkalite.lab.spark.audits import TABLES
from kafkalite.lab.spark.audits.departures import LEFT, LEFT_TEMPORARILY
from kafkalite.lab.spark.audits.partition_epochs import ACCEPTED
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import to_schema
from kafkalite.lab.spark.report.formatting import MAX_EVENTS, MAX_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from kafkalite.lab.spark.locations import Location

_MAX_POINTS: Final = 4_000


def tables(spark: SparkSession, out: Location, files: Collection[str]) -> dict[str, DataFrame]:
    """Return the audits' tables that have files in `out`, by name."""
    return {
        name: spark.read.schema(table.schema).parquet(*urls)
        for name, table in TABLES.items()
        if (urls := _urls(out, f"audits/{name}", files))
    }


def _urls(out: Location, table: str, files: Collection[str]) -> list[str]:
    """Return the files of a table; nothing is listed, which takes long in an object store."""
    return [(out / name).url for name in sorted(files) if name.startswith(f"{table}/")]


def query_tables(written: Mapping[str, DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """Run the report's queries on the tables that exist; returns rows by the query's name."""
    return {
        name: [row.asDict() for row in query(written[table]).collect()]
        for name, (table, query) in _QUERIES.items()
        if table in written
    }


def _first_rows(*order: str) -> Callable[[DataFrame], DataFrame]:
    """Return a query for the first rows in an order; "-" before a column sorts it descending."""

    def query(frame: DataFrame) -> DataFrame:
        by = [
            f.col(column.removeprefix("-")).desc_nulls_last()
            if column.startswith("-")
            else f.col(column)
            for column in order
        ]
        return _first(frame, *by)

    return query


def _first(frame: DataFrame, *order: Column | str, rows: int = MAX_ROWS) -> DataFrame:
    """Return the first rows in an order; rows that are equal in it are ordered by all columns."""
    return frame.orderBy(*order, *frame.columns).limit(rows)


def _first_events(timelines: DataFrame) -> DataFrame:
    """Return the first events of each group."""
    return timelines.where(f.col("number") <= MAX_EVENTS).orderBy("group_id", "number")


def _longest_blocking(ghosts: DataFrame) -> DataFrame:
    cost = f.col("partition_seconds_owned") + f.col("partition_seconds_unassigned")
    return _first(ghosts, cost.desc(), "last_seen")


def _by_cause(departures: DataFrame) -> DataFrame:
    return departures.groupBy("cause").agg(f.count(f.lit(1)).alias("departures")).orderBy("cause")


def _unplanned(departures: DataFrame) -> DataFrame:
    return _first(departures.where(~f.col("cause").isin(LEFT, LEFT_TEMPORARILY)), "ended_at")


def _zombies_first(cases: DataFrame) -> DataFrame:
    rank = (
        f.when(f.col("classification") == "zombie", 0)
        .when(f.col("classification") == "still owned", 1)
        .otherwise(2)
    )
    return _first(cases, rank, f.col("at").desc())


def _accepted_first(outdated: DataFrame) -> DataFrame:
    is_accepted = f.coalesce(f.col("error") == ACCEPTED, f.lit(False))
    return _first(outdated, is_accepted.desc(), "at")


def _by_outcome(expiry: DataFrame) -> DataFrame:
    by_outcome = expiry.groupBy("outcome").agg(
        f.count(f.lit(1)).alias("offsets"), f.count_distinct("group_id").alias("groups")
    )
    return by_outcome.orderBy("outcome")


def _retained(retained: DataFrame) -> DataFrame:
    return retained.agg(
        f.count(f.lit(1)).alias("offsets"),
        f.count_distinct("group_id").alias("groups"),
        f.count("fetched_at").alias("rewound"),
    )


def _by_group(lag: DataFrame) -> DataFrame:
    """Sum each group's lag by bucket; return the largest sums."""
    sums = lag.groupBy("group_id", "at").agg(f.sum("lag").alias("lag"))
    return _first(sums, f.col("lag").desc(), rows=_MAX_POINTS)


def _by_broker(stale: DataFrame) -> DataFrame:
    return (
        stale.groupBy("broker")
        .agg(
            f.count(f.lit(1)).alias("answers"),
            f.count_if(f.col("evidence") == "connection").alias("certain"),
            f.coalesce(f.sum("resets_after"), f.lit(0)).alias("resets"),
        )
        .orderBy(f.col("answers").desc(), "broker")
    )


def _resets_by_cause(resets: DataFrame) -> DataFrame:
    by_cause = resets.groupBy("cause").agg(
        f.count(f.lit(1)).alias("resets"),
        f.coalesce(f.sum("records_reread"), f.lit(0)).alias("again"),
        f.coalesce(f.sum("records_skipped"), f.lit(0)).alias("skipped"),
    )
    return by_cause.orderBy("cause")


def _count_by(column: str, name: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.groupBy(column).agg(f.count(f.lit(1)).alias(name)).orderBy(column)


def _takeovers(fences: DataFrame) -> DataFrame:
    return fences.agg(f.count_if(f.col("kind") == "takeover").alias("takeovers"))


def _most_taken_over(fences: DataFrame) -> DataFrame:
    """Return the fences of the transactional ids with the most takeovers."""
    busiest = (
        fences.where(f.col("kind") == "takeover")
        .groupBy("transactional_id")
        .agg(f.count(f.lit(1)).alias("n"))
    )
    most = f.broadcast(_first(busiest, f.col("n").desc(), rows=MAX_ROWS // 10))
    return _first(fences.join(most, "transactional_id"), "at")


def _open_transactions(transactions: DataFrame) -> DataFrame:
    open_ = transactions.where(f.col("outcome").isin("open", "overdue"))
    return _first(open_, f.col("seconds").desc())


def _severest(findings: DataFrame) -> DataFrame:
    rank = f.when(f.col("severity") == "violation", 0).when(f.col("severity") == "warning", 1)
    return _first(findings, rank.otherwise(2), f.col("records").desc(), "text")


def _largest_causes(causes: DataFrame) -> DataFrame:
    rank = f.when(f.col("severity") == "violation", 0).when(f.col("severity") == "warning", 1)
    return _first(causes, rank.otherwise(2), f.col("records").desc())


_QUERIES: Final[Mapping[str, tuple[str, Callable[[DataFrame], DataFrame]]]] = {
    "findings_by_severity": ("record_findings", _count_by("severity", "findings")),
    "record_findings": ("record_findings", _severest),
    "record_causes": ("record_causes", _largest_causes),
    "undecidable": ("undecidable", _first_rows("-count")),
    "fencing_totals": ("fencing_totals", _first_rows("commit_kind", "rule")),
    "fencing_cases": ("fencing_cases", _zombies_first),
    "ghost_totals": ("ghost_totals", _first_rows("kind")),
    "ghosts": ("ghosts", _longest_blocking),
    "departures_by_cause": ("departures", _by_cause),
    "departures": ("departures", _unplanned),
    "rebalance_waits": ("rebalance_waits", _first_rows("-seconds")),
    "group_timelines": ("group_timelines", _first_events),
    "expiry_by_outcome": ("offset_expiry", _by_outcome),
    "offset_expiry": ("offset_expiry", _first_rows("-returned_at", "expires_at")),
    "retained": ("retained_offsets", _retained),
    "lag_by_group": ("consumer_lag", _by_group),
    "stale_by_broker": ("stale_metadata", _by_broker),
    "stale_metadata": ("stale_metadata", _first_rows("-resets_after", "-errors_after", "at")),
    "resets_by_cause": ("offset_resets", _resets_by_cause),
    "offset_resets": (
        "offset_resets",
        _first_rows("cause", "-records_reread", "-records_skipped", "at"),
    ),
    "recreated_topics": ("recreated_topics", _first_rows("-first_seen_at", "topic")),
    "outdated_by_error": ("outdated_partition_epochs", _count_by("error", "requests")),
    "outdated_partition_epochs": ("outdated_partition_epochs", _accepted_first),
    "leader_epoch_errors": ("leader_epoch_errors", _first_rows("-occurrences")),
    "takeovers": ("producer_fences", _takeovers),
    "producer_fences": ("producer_fences", _most_taken_over),
    "zombie_outcomes": ("zombie_writes", _count_by("outcome", "writes")),
    "zombie_writes": ("zombie_writes", _first_rows("outcome", "at")),
    "transaction_ends": ("transactions", _count_by("outcome", "transactions")),
    "open_transactions": ("transactions", _open_transactions),
    "connect_tasks": (
        "connect_tasks",
        _first_rows("connect_group", "connector", "task", "generation"),
    ),
    "connect_generations": (
        "connect_generations",
        _first_rows(
            "-tasks_unfenced", "-tasks_started_early", "connect_group", "connector", "generation"
        ),
    ),
    "latency": ("latency", _first_rows("-requests")),
    "load": ("load", _first_rows("at")),
    "error_counts": ("error_counts", _first_rows("-occurrences")),
    "rebalances": ("rebalances", _first_rows("-rebalances", "at")),
    "partition_traffic": ("partition_traffic", _first_rows("-bytes_in", "-bytes_out")),
    "clients": ("clients", _first_rows("-p99_ms")),
}
"""The query's name → (table, query)."""


def totals(latency: DataFrame) -> Row:
    """Return the number of requests `n`, of bytes `b`, and of APIs `apis`."""
    size = f.col("bytes_in") + f.col("bytes_out")
    return latency.agg(
        f.coalesce(f.sum("requests"), f.lit(0)).alias("n"),
        f.coalesce(f.sum(size), f.lit(0)).alias("b"),
        f.count(f.lit(1)).alias("apis"),
    ).collect()[0]


def time_range(load: DataFrame) -> tuple[Any, Any]:
    """Return the times of the first and last bucket of requests; None if there are none."""
    row = load.agg(f.min("at").alias("first"), f.max("at").alias("last")).collect()[0]
    return row["first"], row["last"]


def problems(spark: SparkSession, out: Location, files: Collection[str]) -> list[dict[str, Any]]:
    """Return problems of the captures, summed by kind and file, most frequent first."""
    urls = _urls(out, "problems", files)
    if not urls:
        return []
    rows = spark.read.schema(to_schema(PROBLEMS)).parquet(*urls)
    summed = rows.groupBy("kind", "file").agg(
        f.sum("count").alias("count"), f.min("detail").alias("detail")
    )
    return [row.asDict() for row in _first(summed, f.col("count").desc()).collect()]
