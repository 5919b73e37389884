"""State table of the partitions that members had, with assignment epochs (KIP-1251)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from kafkalite.traffic.spark.state.epochs import RELEASE_TYPE
from kafkalite.traffic.spark.state.heartbeats import STREAMS
from kafkalite.traffic.spark.state.tables import table
from kafkalite.traffic.spark.state.windows import ordered_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOLDINGS = table(
    "holdings",
    "A partition held by a member, from its assignment to its release",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("is_named", "boolean", "whether topic is a name"),
    ("partition", "int", "the partition"),
    ("since_epoch", "int", "the epoch at which it was assigned"),
    ("is_since_known", "boolean", "false if it may have been assigned earlier"),
    ("from_step", "int", "the member's step that assigned it"),
    ("begin_us", "bigint", "earliest possible time of the assignment"),
    ("done_us", "bigint", "latest possible time of the assignment"),
    ("lost_step", "int", "the step that revoked it; null for none"),
    ("released", f"struct<{RELEASE_TYPE}>", "the step from which it is free for other members"),
    ("taken_begin_us", "bigint", "earliest time at which another member got it without a release"),
    ("taken_done_us", "bigint", "latest such time; this member was removed by then"),
)

_MEMBER = ("group_id", "member_id")


def holdings(epochs: DataFrame, topics: DataFrame, tasks: DataFrame) -> DataFrame:
    """Return the partitions that members held, and when, as `HOLDINGS`."""
    return HOLDINGS.shape(_with_names(_with_removals(_held_intervals(epochs)), topics, tasks))


def _held_intervals(epochs: DataFrame) -> DataFrame:
    columns = (*_MEMBER, "protocol", "step", "since_us", "done_us", "epoch", "released")
    is_since_known = ~f.col("is_blurred")
    gains = epochs.select(*columns, is_since_known.alias("known"), f.explode("gained").alias("key"))
    losses = epochs.select(
        *columns, f.lit(None).cast("boolean").alias("known"), f.explode("lost").alias("key")
    )
    changes = gains.withColumn("gain", f.lit(True)).unionByName(
        losses.withColumn("gain", f.lit(False))
    )
    after = f.lead(f.struct("step", "released")).over(ordered_rows((*_MEMBER, "key"), ("step",)))
    return (
        changes.withColumn("loss", after)
        .where("gain")
        .select(
            *_MEMBER,
            "protocol",
            "key",
            f.col("epoch").alias("since_epoch"),
            f.col("known").alias("is_since_known"),
            f.col("step").alias("from_step"),
            f.col("since_us").alias("begin_us"),
            "done_us",
            f.col("loss.step").alias("lost_step"),
            f.col("loss.released").alias("released"),
        )
    )


def _with_removals(held: DataFrame) -> DataFrame:
    """Add the time at which another member got a partition that this member had not released.

    The coordinator must have removed this member from the group by then.
    """
    gain = f.struct("member_id", "begin_us", "done_us")
    after = f.lead(gain).over(ordered_rows(("group_id", "key"), ("done_us", "begin_us")))
    is_taken = (f.col("after.member_id") != f.col("member_id")) & (
        f.col("released").isNull() | (f.col("after.done_us") < f.col("released.begin_us"))
    )
    return (
        held.withColumn("after", after)
        .withColumns(
            {
                "taken_begin_us": f.when(is_taken, f.col("after.begin_us")),
                "taken_done_us": f.when(is_taken, f.col("after.done_us")),
            }
        )
        .drop("after")
    )


def _with_names(held: DataFrame, topics: DataFrame, tasks: DataFrame) -> DataFrame:
    split = held.withColumns(
        {
            "partition": f.substring_index("key", "/", -1).cast("int"),
            "prefix": f.regexp_extract("key", "^(.*)/[0-9]+$", 1),
        }
    )
    topic_names = topics.select(f.col("topic_id").alias("prefix"), f.col("topic").alias("by_id"))
    task_topics = tasks.select(
        "group_id", f.col("subtopology").alias("prefix"), f.col("topic").alias("by_task")
    )
    name = f.when(f.col("protocol") == STREAMS, f.col("by_task")).otherwise(f.col("by_id"))
    return (
        split.join(f.broadcast(topic_names), "prefix", "left")
        .join(f.broadcast(task_topics), ["group_id", "prefix"], "left")
        .withColumns({"topic": f.coalesce(name, "prefix"), "is_named": name.isNotNull()})
    )
