"""What topics are called: requests name them by id or by name, streams groups by subtopology."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kafkalite.spark.requests import Requests

TOPICS = table(
    "topics",
    "A topic id, and what its topic is called",
    ("topic_id", "string", "sixteen bytes in hex"),
    ("topic", "string", "the name"),
)

TASKS = table(
    "tasks",
    "A topic that a task of a streams group reads",
    ("group_id", "string", "the group"),
    ("subtopology", "string", "the subtopology of the task"),
    ("topic", "string", "the name of the topic"),
)

NO_ID: Final = "00000000000000000000000000000000"

_SAYING: Final = (
    ("Metadata", "response.topics"),
    ("DescribeTopicPartitions", "response.topics"),
    ("CreateTopics", "response.topics"),
)
"""(API, where its answers tell names and ids of topics)."""


def topics(requests: Requests) -> DataFrame:
    """Return the names of all topic ids that the capture tells, as `TOPICS`."""
    return reduce(DataFrame.unionByName, (_told(requests, *each) for each in _SAYING)).distinct()


def _told(requests: Requests, api: str, where: str) -> DataFrame:
    told = requests.of(api).select(f.explode(where).alias("told"))
    return TOPICS.shape(
        told.select(f.hex("told.topic_id").alias("topic_id"), f.col("told.name").alias("topic"))
    ).where((f.col("topic_id") != NO_ID) & (f.col("topic") != ""))


def tasks(requests: Requests) -> DataFrame:
    """Return the topics behind the subtopologies of streams groups, as `TASKS`."""
    heartbeats = requests.of("StreamsGroupHeartbeat")
    told = heartbeats.where("request.topology is not null").select(
        "request.group_id", f.explode("request.topology.subtopologies").alias("told")
    )
    names = f.expr(
        "concat(coalesce(told.source_topics, array()),"
        " coalesce(transform(told.repartition_source_topics, t -> t.name), array()))"
    )
    return TASKS.shape(
        told.select(
            "group_id",
            f.col("told.subtopology_id").alias("subtopology"),
            f.explode(names).alias("topic"),
        )
    ).distinct()


def named(frame: DataFrame, names: DataFrame) -> DataFrame:
    """Fill in `topic` by `topic_id` where only that was said; the id itself where none knows."""
    told = names.select("topic_id", f.col("topic").alias("told_topic"))
    return (
        frame.join(f.broadcast(told), "topic_id", "left")
        .withColumn("topic", topic_or_id(f.col("topic"), f.col("told_topic"), f.col("topic_id")))
        .drop("told_topic")
    )


def topic_or_id(name: Column, told: Column, topic_id: Column) -> Column:
    """Return the name a request says, else the one its id has, else the id."""
    return f.coalesce(f.when(name != "", name), told, topic_id)
