"""Who held which partition, and since which epoch: the assignment epochs of KIP-1251."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from kafkalite.spark.state.epochs import RELEASE
from kafkalite.spark.state.heartbeats import STREAMS
from kafkalite.spark.state.order import in_order
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOLDINGS = table(
    "holdings",
    "A partition in a member's hands, from when it was assigned until it was let go",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member"),
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("is_named", "boolean", "whether that is a name"),
    ("partition", "int", "the partition"),
    ("since_epoch", "int", "the epoch at which it was assigned"),
    ("is_since_known", "boolean", "false: it may have been assigned before, at an earlier one"),
    ("from_step", "int", "the member's step that brought it"),
    ("begin_us", "bigint", "the earliest moment at which it may have come"),
    ("done_us", "bigint", "the latest"),
    ("lost_step", "int", "the step that took it; null as long as none has"),
    ("released", f"struct<{RELEASE}>", "the step from which on it is free for others"),
    ("taken_begin_us", "bigint", "when another was given it though this one had not let go"),
    ("taken_done_us", "bigint", "the latest moment of that: by then this member was put out"),
)

_MEMBER = ("group_id", "member_id")


def holdings(epochs: DataFrame, topics: DataFrame, tasks: DataFrame) -> DataFrame:
    """Return what every member held and when, as `HOLDINGS`."""
    return HOLDINGS.shape(_with_names(_with_thefts(_from_gain_to_loss(epochs)), topics, tasks))


def _from_gain_to_loss(epochs: DataFrame) -> DataFrame:
    kept = (*_MEMBER, "protocol", "step", "since_us", "done_us", "epoch", "released")
    known = ~f.col("is_blurred")
    gains = epochs.select(*kept, known.alias("known"), f.explode("gained").alias("key"))
    losses = epochs.select(
        *kept, f.lit(None).cast("boolean").alias("known"), f.explode("lost").alias("key")
    )
    edges = gains.withColumn("gain", f.lit(True)).unionByName(
        losses.withColumn("gain", f.lit(False))
    )
    after = f.lead(f.struct("step", "released")).over(in_order((*_MEMBER, "key"), ("step",)))
    return (
        edges.withColumn("loss", after)
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


def _with_thefts(held: DataFrame) -> DataFrame:
    """See who lost a partition without a word: the coordinator had put that member out."""
    gain = f.struct("member_id", "begin_us", "done_us")
    after = f.lead(gain).over(in_order(("group_id", "key"), ("done_us", "begin_us")))
    taken = (f.col("after.member_id") != f.col("member_id")) & (
        f.col("released").isNull() | (f.col("after.done_us") < f.col("released.begin_us"))
    )
    return (
        held.withColumn("after", after)
        .withColumns(
            {
                "taken_begin_us": f.when(taken, f.col("after.begin_us")),
                "taken_done_us": f.when(taken, f.col("after.done_us")),
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
    ids = topics.select(f.col("topic_id").alias("prefix"), f.col("topic").alias("by_id"))
    works = tasks.select(
        "group_id", f.col("subtopology").alias("prefix"), f.col("topic").alias("by_task")
    )
    told = f.when(f.col("protocol") == STREAMS, f.col("by_task")).otherwise(f.col("by_id"))
    return (
        split.join(f.broadcast(ids), "prefix", "left")
        .join(f.broadcast(works), ["group_id", "prefix"], "left")
        .withColumns({"topic": f.coalesce(told, "prefix"), "is_named": told.isNotNull()})
    )
