"""State table of the partitions that members had, with assignment epochs (KIP-1251)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.epochs import RELEASE_TYPE
from kafkalite.lab.spark.state.heartbeats import STREAMS
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import ordered_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OWNED_PARTITIONS = table(
    "owned_partitions",
    "A partition owned by a member, from its assignment to its release",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("is_named", "boolean", "whether topic is a name"),
    ("partition", "int", "the partition"),
    ("assignment_epoch", "int", "the epoch at which it was assigned"),
    ("is_assignment_epoch_known", "boolean", "false if it may have been assigned earlier"),
    ("assigned_step", "int", "the member's step that assigned it"),
    ("earliest_us", "bigint", "earliest possible time of the assignment"),
    ("latest_us", "bigint", "latest possible time of the assignment"),
    ("revoked_step", "int", "the step that revoked it; null for none"),
    ("released", f"struct<{RELEASE_TYPE}>", "the step from which it is free for other members"),
    (
        "reassigned_earliest_us",
        "bigint",
        "earliest time at which another member got it without a release",
    ),
    ("reassigned_latest_us", "bigint", "latest such time; this member was removed by then"),
)

_MEMBER = ("group_id", "member_id")


def owned_partitions(epochs: DataFrame, topics: DataFrame, tasks: DataFrame) -> DataFrame:
    """Return the partitions that members owned, and when, as `OWNED_PARTITIONS`."""
    return OWNED_PARTITIONS.shape(
        _with_names(_with_removals(_ownership_intervals(epochs)), topics, tasks)
    )


def _ownership_intervals(epochs: DataFrame) -> DataFrame:
    columns = (*_MEMBER, "protocol", "step", "earliest_change_us", "latest_us", "epoch", "released")
    is_assignment_epoch_known = ~f.col("is_previous_state_unknown")
    gains = epochs.select(
        *columns, is_assignment_epoch_known.alias("known"), f.explode("added").alias("key")
    )
    losses = epochs.select(
        *columns, f.lit(None).cast("boolean").alias("known"), f.explode("revoked").alias("key")
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
            f.col("epoch").alias("assignment_epoch"),
            f.col("known").alias("is_assignment_epoch_known"),
            f.col("step").alias("assigned_step"),
            f.col("earliest_change_us").alias("earliest_us"),
            "latest_us",
            f.col("loss.step").alias("revoked_step"),
            f.col("loss.released").alias("released"),
        )
    )


def _with_removals(intervals: DataFrame) -> DataFrame:
    """Add the time at which another member got a partition that this member had not released.

    The coordinator must have removed this member from the group by then.
    """
    gain = f.struct("member_id", "earliest_us", "latest_us")
    after = f.lead(gain).over(ordered_rows(("group_id", "key"), ("latest_us", "earliest_us")))
    is_taken = (f.col("after.member_id") != f.col("member_id")) & (
        f.col("released").isNull() | (f.col("after.latest_us") < f.col("released.earliest_us"))
    )
    return (
        intervals.withColumn("after", after)
        .withColumns(
            {
                "reassigned_earliest_us": f.when(is_taken, f.col("after.earliest_us")),
                "reassigned_latest_us": f.when(is_taken, f.col("after.latest_us")),
            }
        )
        .drop("after")
    )


def _with_names(intervals: DataFrame, topics: DataFrame, tasks: DataFrame) -> DataFrame:
    split = intervals.withColumns(
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
