"""Queries of the audits' tables for the report: totals, and the most important rows.

Each query returns few rows, however large the tables are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from kafkalite.traffic.spark.audits import TABLES
from kafkalite.traffic.spark.audits.departures import LEFT, LEFT_TEMPORARILY
from kafkalite.traffic.spark.audits.partition_epochs import ACCEPTED
from kafkalite.traffic.spark.report.formatting import MAX_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.traffic.spark.locations import Location

_MAX_POINTS: Final = 4_000


def tables(spark: SparkSession, out: Location) -> dict[str, DataFrame]:
    """Return the audits' tables that exist in `out`, by name."""
    return {
        name: spark.read.schema(table.schema).parquet((out / "audits" / name).url)
        for name, table in TABLES.items()
        if any((out / "audits" / name).walk())
    }


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
        return frame.orderBy(*by).limit(MAX_ROWS)

    return query


def _longest_blocking(ghosts: DataFrame) -> DataFrame:
    cost = f.col("partition_seconds_owned") + f.col("partition_seconds_unassigned")
    return ghosts.orderBy(cost.desc(), "last_seen").limit(MAX_ROWS)


def _by_cause(departures: DataFrame) -> DataFrame:
    return departures.groupBy("cause").agg(f.count(f.lit(1)).alias("departures")).orderBy("cause")


def _unplanned(departures: DataFrame) -> DataFrame:
    return (
        departures.where(~f.col("cause").isin(LEFT, LEFT_TEMPORARILY))
        .orderBy("ended_at")
        .limit(MAX_ROWS)
    )


def _zombies_first(cases: DataFrame) -> DataFrame:
    rank = (
        f.when(f.col("classification") == "zombie", 0)
        .when(f.col("classification") == "still owned", 1)
        .otherwise(2)
    )
    return cases.orderBy(rank, f.col("at").desc()).limit(MAX_ROWS)


def _accepted_first(outdated: DataFrame) -> DataFrame:
    is_accepted = f.coalesce(f.col("error") == ACCEPTED, f.lit(False))
    return outdated.orderBy(is_accepted.desc(), "at").limit(MAX_ROWS)


def _by_outcome(expiry: DataFrame) -> DataFrame:
    return expiry.groupBy("outcome").agg(
        f.count(f.lit(1)).alias("offsets"), f.count_distinct("group_id").alias("groups")
    )


def _retained(retained: DataFrame) -> DataFrame:
    return retained.agg(
        f.count(f.lit(1)).alias("offsets"),
        f.count_distinct("group_id").alias("groups"),
        f.count("fetched_at").alias("rewound"),
    )


def _by_group(lag: DataFrame) -> DataFrame:
    """Sum each group's lag by bucket; return the largest sums."""
    sums = lag.groupBy("group_id", "at").agg(f.sum("lag").alias("lag"))
    return sums.orderBy(f.col("lag").desc()).limit(_MAX_POINTS)


def _by_broker(stale: DataFrame) -> DataFrame:
    return (
        stale.groupBy("broker")
        .agg(
            f.count(f.lit(1)).alias("answers"),
            f.count_if(f.col("evidence") == "connection").alias("certain"),
            f.coalesce(f.sum("resets_after"), f.lit(0)).alias("resets"),
        )
        .orderBy(f.col("answers").desc())
    )


def _resets_by_cause(resets: DataFrame) -> DataFrame:
    return resets.groupBy("cause").agg(
        f.count(f.lit(1)).alias("resets"),
        f.coalesce(f.sum("records_reread"), f.lit(0)).alias("again"),
        f.coalesce(f.sum("records_skipped"), f.lit(0)).alias("skipped"),
    )


def _count_by(column: str, name: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.groupBy(column).agg(f.count(f.lit(1)).alias(name))


def _takeovers(fences: DataFrame) -> DataFrame:
    return fences.agg(f.count_if(f.col("kind") == "takeover").alias("takeovers"))


def _most_taken_over(fences: DataFrame) -> DataFrame:
    """Return the fences of the transactional ids with the most takeovers."""
    busiest = (
        fences.where(f.col("kind") == "takeover")
        .groupBy("transactional_id")
        .agg(f.count(f.lit(1)).alias("n"))
        .orderBy(f.col("n").desc())
        .limit(MAX_ROWS // 10)
    )
    return fences.join(f.broadcast(busiest), "transactional_id").orderBy("at").limit(MAX_ROWS)


def _open_transactions(transactions: DataFrame) -> DataFrame:
    open_ = transactions.where(f.col("outcome").isin("open", "overdue"))
    return open_.orderBy(f.col("seconds").desc()).limit(MAX_ROWS)


_QUERIES: Final[Mapping[str, tuple[str, Callable[[DataFrame], DataFrame]]]] = {
    "fencing_totals": ("fencing_totals", lambda frame: frame),
    "fencing_cases": ("fencing_cases", _zombies_first),
    "ghost_totals": ("ghost_totals", lambda frame: frame),
    "ghosts": ("ghosts", _longest_blocking),
    "departures_by_cause": ("departures", _by_cause),
    "departures": ("departures", _unplanned),
    "rebalance_waits": ("rebalance_waits", _first_rows("-seconds")),
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


def time_range(load: DataFrame) -> tuple[Any, Any]:
    """Return the times of the first and last bucket of requests; None if there are none."""
    row = load.agg(f.min("at").alias("first"), f.max("at").alias("last")).collect()[0]
    return row["first"], row["last"]


def problems(spark: SparkSession, out: Location) -> list[dict[str, Any]]:
    """Return problems of the captures, summed by kind and file, most frequent first."""
    if not any((out / "problems").walk()):
        return []
    rows = spark.read.parquet((out / "problems").url)
    summed = rows.groupBy("kind", "file").agg(
        f.sum("count").alias("count"), f.first("detail").alias("detail")
    )
    return [row.asDict() for row in summed.orderBy(f.col("count").desc()).limit(MAX_ROWS).collect()]
