"""Generations of classic groups: from when until when a coordinator took commits at each.

A generation begins when all have joined: after the last request to join that it answers, and
before the first of these answers. Whatever else is answered at a generation was answered before
the next one began. Whether its partitions were handed out is told by answers to SyncGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.order import before_now, in_order
from kafkalite.spark.state.signs import CLASSIC, JOIN_GROUP, LEAVE, SYNC_GROUP
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GENERATIONS = table(
    "generations",
    "A generation of a classic group, from when it began until the next one did",
    ("group_id", "string", "the group"),
    ("life", "int", "counts how often the group began anew with an early generation"),
    ("generation", "int", "the generation"),
    ("begin_us", "bigint", "the earliest moment at which it may have begun"),
    ("done_us", "bigint", "the latest"),
    ("assigned_begin_us", "bigint", "the earliest moment of its assignment; null where unseen"),
    ("assigned_done_us", "bigint", "the latest; null where unseen"),
    ("next_begin_us", "bigint", "the earliest moment of the next one; null for the last"),
    ("next_done_us", "bigint", "the latest"),
    ("again_us", "bigint", "when a later life comes to the same number; null for never"),
)

_LIFE: Final = ("group_id", "life")
_GENERATION: Final = (*_LIFE, "generation")


def generations(signs: DataFrame) -> DataFrame:
    """Return the generations that signs of life tell of, as `GENERATIONS`."""
    # Refused for a rebalance, a request was made at the generation that the group still had.
    told = signs.where(
        (f.col("protocol") == CLASSIC)
        & (f.col("sign") != LEAVE)
        & (f.col("generation") >= 0)
        & f.col("end_us").isNotNull()
        & f.col("error").isin(int(ErrorCode.NONE), int(ErrorCode.REBALANCE_IN_PROGRESS))
    ).select(
        "group_id", "api", "generation", "start_us", "last_start_us", "end_us", "error", "hands_out"
    )
    lives = _new_lives(told)
    told = (
        told.join(lives, "group_id", "left")
        .withColumn("life", f.expr("coalesce(size(filter(anew, t -> t <= end_us)), 0)"))
        .drop("anew")
    )
    return GENERATIONS.shape(_in_turn(_seen(told)))


def _new_lives(told: DataFrame) -> DataFrame:
    """Find the groups that began anew, and when: few, if any."""
    joins = told.where((f.col("api") == JOIN_GROUP) & (f.col("error") == ErrorCode.NONE))
    before = f.lag(f.struct("generation", "end_us")).over(
        in_order(("group_id",), ("end_us", "generation"))
    )
    anew = joins.withColumn("before", before).where(
        "generation < before.generation and start_us > before.end_us"
    )
    return anew.groupBy("group_id").agg(f.collect_list("end_us").alias("anew"))


def _seen(told: DataFrame) -> DataFrame:
    """Sum up what is told of each generation."""
    is_join, is_sync = f.col("api") == JOIN_GROUP, f.col("api") == SYNC_GROUP
    is_done = is_sync & (f.col("error") == ErrorCode.NONE)
    first_join = (
        told.where(is_join)
        .groupBy(*_GENERATION)
        .agg(
            f.min("end_us").alias("first_us"),
            f.collect_set("start_us").alias("joins"),
        )
        .select(*_GENERATION, f.expr("array_max(filter(joins, t -> t <= first_us))").alias("join"))
    )
    summed = told.groupBy(*_GENERATION).agg(
        f.min("end_us").alias("done_us"),
        f.max("last_start_us").alias("last_us"),
        f.min(f.when(is_done & f.col("hands_out"), f.col("start_us"))).alias("handed_us"),
        f.min(f.when(is_done, f.col("start_us"))).alias("asked_us"),
        f.min(f.when(is_done, f.col("end_us"))).alias("synced_us"),
    )
    return summed.join(first_join, [*_GENERATION], "left")


def _in_turn(seen: DataFrame) -> DataFrame:
    """Put each generation beside the one before and the one after it."""
    turn = in_order(("group_id",), ("life", "generation"))
    earlier = f.max("last_us").over(before_now(("group_id",), ("life", "generation")))
    begun = seen.withColumn(
        "begin_us", f.least("done_us", f.coalesce(f.greatest("join", earlier), f.lit(0)))
    )
    # Who is first seen in the midst of a generation saw nothing of how it began.
    unseen = f.col("join").isNull() & f.col("synced_us").isNull()
    return begun.withColumns(
        {
            "assigned_begin_us": f.when(unseen, f.col("begin_us")).otherwise(
                f.coalesce("handed_us", "asked_us")
            ),
            "assigned_done_us": f.when(unseen, f.col("done_us")).otherwise(f.col("synced_us")),
            "next_begin_us": f.lead("begin_us").over(turn),
            "next_done_us": f.lead("done_us").over(turn),
            "again_us": f.lead("begin_us").over(in_order(("group_id", "generation"), ("life",))),
        }
    )
