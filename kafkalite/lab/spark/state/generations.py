"""Generations of classic groups: for each one, the interval in which its commits were accepted.

A generation begins when all members have joined: after the last JoinGroup request that it answers,
and before the first response to one of these requests. Any other response at a generation precedes
the start of the next one. Responses to SyncGroup show when partitions were assigned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.liveness import CLASSIC, JOIN_GROUP, LEAVE, SYNC_GROUP
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import ordered_rows, rows_before_current
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GENERATIONS = table(
    "generations",
    "A generation of a classic group, from its start to the next one",
    ("group_id", "string", "the group"),
    ("restart_count", "int", "how many times generation numbers restarted before"),
    ("generation", "int", "the generation"),
    ("earliest_us", "bigint", "earliest possible start"),
    ("latest_us", "bigint", "latest possible start"),
    ("assigned_earliest_us", "bigint", "earliest possible time of its assignment; null if unseen"),
    ("assigned_latest_us", "bigint", "latest possible time of its assignment; null if unseen"),
    ("next_earliest_us", "bigint", "earliest possible start of the next one; null for the last"),
    ("next_latest_us", "bigint", "latest possible start of the next one"),
    (
        "reused_us",
        "bigint",
        "time at which a restarted group uses this generation number again; null for never",
    ),
)

_SINCE_RESTART: Final = ("group_id", "restart_count")
_GENERATION: Final = (*_SINCE_RESTART, "generation")


def generations(membership_requests: DataFrame) -> DataFrame:
    """Return the generations that membership requests show, as `GENERATIONS`."""
    # REBALANCE_IN_PROGRESS means that the group was still at the generation of the request.
    answered = membership_requests.where(
        (f.col("protocol") == CLASSIC)
        & (f.col("action") != LEAVE)
        & (f.col("generation") >= 0)
        & f.col("end_us").isNotNull()
        & f.col("error").isin(int(ErrorCode.NONE), int(ErrorCode.REBALANCE_IN_PROGRESS))
    ).select(
        "group_id",
        "api",
        "generation",
        "start_us",
        "last_start_us",
        "end_us",
        "error",
        "has_assignments",
    )
    restart_times = _find_restarts(answered)
    answered = (
        answered.join(restart_times, "group_id", "left")
        .withColumn(
            "restart_count", f.expr("coalesce(size(filter(restarts, t -> t <= end_us)), 0)")
        )
        .drop("restarts")
    )
    return GENERATIONS.shape(_with_start_times(_by_generation(answered)))


def _find_restarts(answered: DataFrame) -> DataFrame:
    """Find the groups whose generation numbers restarted, and when; there are few."""
    joins = answered.where((f.col("api") == JOIN_GROUP) & (f.col("error") == ErrorCode.NONE))
    before = f.lag(f.struct("generation", "end_us")).over(
        ordered_rows(("group_id",), ("end_us", "generation"))
    )
    restarts = joins.withColumn("before", before).where(
        "generation < before.generation and start_us > before.end_us"
    )
    return restarts.groupBy("group_id").agg(f.collect_list("end_us").alias("restarts"))


def _by_generation(answered: DataFrame) -> DataFrame:
    """Aggregate the requests of each generation."""
    is_join, is_sync = f.col("api") == JOIN_GROUP, f.col("api") == SYNC_GROUP
    is_done = is_sync & (f.col("error") == ErrorCode.NONE)
    first_join = (
        answered.where(is_join)
        .groupBy(*_GENERATION)
        .agg(
            f.min("end_us").alias("first_us"),
            f.collect_set("start_us").alias("joins"),
        )
        .select(*_GENERATION, f.expr("array_max(filter(joins, t -> t <= first_us))").alias("join"))
    )
    aggregated = answered.groupBy(*_GENERATION).agg(
        f.min("end_us").alias("latest_us"),
        f.max("last_start_us").alias("last_us"),
        f.min(f.when(is_done & f.col("has_assignments"), f.col("start_us"))).alias("handed_us"),
        f.min(f.when(is_done, f.col("start_us"))).alias("asked_us"),
        f.min(f.when(is_done, f.col("end_us"))).alias("synced_us"),
    )
    return aggregated.join(first_join, [*_GENERATION], "left")


def _with_start_times(by_generation: DataFrame) -> DataFrame:
    """Add the start and assignment times of each generation, and the start of the next one."""
    ordered = ordered_rows(("group_id",), ("restart_count", "generation"))
    earlier = f.max("last_us").over(
        rows_before_current(("group_id",), ("restart_count", "generation"))
    )
    with_begin = by_generation.withColumn(
        "earliest_us", f.least("latest_us", f.coalesce(f.greatest("join", earlier), f.lit(0)))
    )
    # A group first seen in the middle of a generation: its start is not in the capture.
    is_start_unseen = f.col("join").isNull() & f.col("synced_us").isNull()
    return with_begin.withColumns(
        {
            "assigned_earliest_us": f.when(is_start_unseen, f.col("earliest_us")).otherwise(
                f.coalesce("handed_us", "asked_us")
            ),
            "assigned_latest_us": f.when(is_start_unseen, f.col("latest_us")).otherwise(
                f.col("synced_us")
            ),
            "next_earliest_us": f.lead("earliest_us").over(ordered),
            "next_latest_us": f.lead("latest_us").over(ordered),
            "reused_us": f.lead("earliest_us").over(
                ordered_rows(("group_id", "generation"), ("restart_count",))
            ),
        }
    )
