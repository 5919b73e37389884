"""What the report needs of the audits' tables: sums over all of each, and its worst rows.

However big the tables are, what is fetched of them is small: a report is read by a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from kafkalite.spark.audits import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.spark.places import Place

_ROWS: Final = 200
_POINTS: Final = 4_000


def tables(spark: SparkSession, out: Place) -> dict[str, DataFrame]:
    """Return the audits' tables that a run has written."""
    return {
        name: spark.read.schema(table.schema).parquet((out / "audits" / name).url)
        for name, table in TABLES.items()
        if any((out / "audits" / name).walk())
    }


def found(written: Mapping[str, DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that sections are made of, by what they are called there."""
    return {
        name: [row.asDict() for row in ask(written[table]).collect()]
        for name, (table, ask) in _ASKED.items()
        if table in written
    }


def _worst(*order: str) -> Callable[[DataFrame], DataFrame]:
    """Ask for the first rows by some columns, "-" before one that counts downwards."""

    def ask(frame: DataFrame) -> DataFrame:
        by = [
            f.col(each.removeprefix("-")).desc_nulls_last() if each.startswith("-") else f.col(each)
            for each in order
        ]
        return frame.orderBy(*by).limit(_ROWS)

    return ask


def _costliest(ghosts: DataFrame) -> DataFrame:
    cost = f.col("partition_seconds_held") + f.col("partition_seconds_kept_free")
    return ghosts.orderBy(cost.desc(), "last_sign").limit(_ROWS)


def _suspects(cases: DataFrame) -> DataFrame:
    rank = f.when(f.col("truth") == "zombie", 0).when(f.col("truth") == "innocent", 1).otherwise(2)
    return cases.orderBy(rank, f.col("at").desc()).limit(_ROWS)


def _by_fate(expiry: DataFrame) -> DataFrame:
    return expiry.groupBy("fate").agg(
        f.count(f.lit(1)).alias("offsets"), f.count_distinct("group_id").alias("groups")
    )


def _spared(spared: DataFrame) -> DataFrame:
    return spared.agg(
        f.count(f.lit(1)).alias("offsets"),
        f.count_distinct("group_id").alias("groups"),
        f.count("asked_at").alias("rewound"),
    )


def _by_group(lag: DataFrame) -> DataFrame:
    """Add up each group's lag by bucket; the groups that were furthest behind."""
    sums = lag.groupBy("group_id", "at").agg(f.sum("lag").alias("lag"))
    return sums.orderBy(f.col("lag").desc()).limit(_POINTS)


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
        f.coalesce(f.sum("records_again"), f.lit(0)).alias("again"),
        f.coalesce(f.sum("records_skipped"), f.lit(0)).alias("skipped"),
    )


def _counted(column: str, name: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.groupBy(column).agg(f.count(f.lit(1)).alias(name))


def _takeovers(fences: DataFrame) -> DataFrame:
    return fences.agg(f.count_if(f.col("kind") == "takeover").alias("takeovers"))


def _contested(fences: DataFrame) -> DataFrame:
    """Return the history of the ids that were taken over most often."""
    busiest = (
        fences.where(f.col("kind") == "takeover")
        .groupBy("transactional_id")
        .agg(f.count(f.lit(1)).alias("n"))
        .orderBy(f.col("n").desc())
        .limit(_ROWS // 10)
    )
    return fences.join(f.broadcast(busiest), "transactional_id").orderBy("at").limit(_ROWS)


def _left_open(transactions: DataFrame) -> DataFrame:
    open_ = transactions.where(f.col("end").isin("open", "overdue"))
    return open_.orderBy(f.col("seconds").desc()).limit(_ROWS)


_ASKED: Final[Mapping[str, tuple[str, Callable[[DataFrame], DataFrame]]]] = {
    "fencing_totals": ("fencing_totals", lambda frame: frame),
    "fencing_cases": ("fencing_cases", _suspects),
    "ghost_totals": ("ghost_totals", lambda frame: frame),
    "ghosts": ("ghosts", _costliest),
    "expiry_by_fate": ("offset_expiry", _by_fate),
    "offset_expiry": ("offset_expiry", _worst("-returned_at", "expires_at")),
    "spared": ("offsets_spared", _spared),
    "lag_by_group": ("consumer_lag", _by_group),
    "stale_by_broker": ("stale_metadata", _by_broker),
    "stale_metadata": ("stale_metadata", _worst("-resets_after", "-errors_after", "at")),
    "resets_by_cause": ("offset_resets", _resets_by_cause),
    "offset_resets": ("offset_resets", _worst("cause", "-records_again", "-records_skipped", "at")),
    "leader_epoch_errors": ("leader_epoch_errors", _worst("-times")),
    "takeovers": ("producer_fences", _takeovers),
    "producer_fences": ("producer_fences", _contested),
    "zombie_outcomes": ("zombie_writes", _counted("outcome", "writes")),
    "zombie_writes": ("zombie_writes", _worst("outcome", "at")),
    "transaction_ends": ("transactions", _counted("end", "transactions")),
    "open_transactions": ("transactions", _left_open),
    "connect_tasks": ("connect_tasks", _worst("connect_group", "connector", "task", "generation")),
    "connect_generations": (
        "connect_generations",
        _worst("-tasks_unfenced", "-tasks_early", "connect_group", "connector", "generation"),
    ),
    "latency": ("latency", _worst("-requests")),
    "load": ("load", _worst("at")),
    "error_counts": ("error_counts", _worst("-times")),
    "rebalances": ("rebalances", _worst("-rebalances", "at")),
    "partition_traffic": ("partition_traffic", _worst("-bytes_in", "-bytes_out")),
    "clients": ("clients", _worst("-p99_ms")),
}
"""name → (the table, what to ask of it)."""


def extent(load: DataFrame) -> tuple[Any, Any]:
    """Return the first and last moment that were audited; None where there was nothing."""
    row = load.agg(f.min("at").alias("first"), f.max("at").alias("last")).collect()[0]
    return row["first"], row["last"]


def problems(spark: SparkSession, out: Place) -> list[dict[str, Any]]:
    """Return what is wrong with the capture, summed up by kind and file."""
    if not any((out / "problems").walk()):
        return []
    told = spark.read.parquet((out / "problems").url)
    summed = told.groupBy("kind", "file").agg(
        f.sum("count").alias("times"), f.first("detail").alias("detail")
    )
    return [row.asDict() for row in summed.orderBy(f.col("times").desc()).limit(_ROWS).collect()]
