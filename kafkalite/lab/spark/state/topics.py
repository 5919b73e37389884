"""Names of topics by topic id, and by subtopology of streams groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import union
from kafkalite.lab.spark.requests import api_key
from kafkalite.lab.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests

TOPICS = table(
    "topics",
    "A topic id and the name of its topic",
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

_SOURCES: Final = (
    ("Metadata", "response.topics"),
    ("DescribeTopicPartitions", "response.topics"),
    ("CreateTopics", "response.topics"),
)
"""(API, path of topics in its response that have names and ids)."""
TOPIC_APIS: Final = frozenset(api_key(api) for api, _ in _SOURCES)
"""The APIs whose requests `topics` reads."""


def topics(requests: Requests) -> DataFrame:
    """Return the names of all topic ids in the capture, as `TOPICS`."""
    return union(_names_in(requests, *source) for source in _SOURCES).distinct()


def _names_in(requests: Requests, api: str, path: str) -> DataFrame:
    entry = requests.of(api).select(f.explode(path).alias("entry"))
    return TOPICS.shape(
        entry.select(f.hex("entry.topic_id").alias("topic_id"), f.col("entry.name").alias("topic"))
    ).where((f.col("topic_id") != NO_ID) & (f.col("topic") != ""))


def tasks(requests: Requests) -> DataFrame:
    """Return the topics of the subtopologies of streams groups, as `TASKS`."""
    heartbeats = requests.of("StreamsGroupHeartbeat")
    entry = heartbeats.where("request.topology is not null").select(
        "request.group_id", f.explode("request.topology.subtopologies").alias("entry")
    )
    names = f.expr(
        "concat(coalesce(entry.source_topics, array()),"
        " coalesce(transform(entry.repartition_source_topics, t -> t.name), array()))"
    )
    return TASKS.shape(
        entry.select(
            "group_id",
            f.col("entry.subtopology_id").alias("subtopology"),
            f.explode(names).alias("topic"),
        )
    ).distinct()


def with_topic_names(frame: DataFrame, names: DataFrame) -> DataFrame:
    """Replace a missing `topic` by the name of `topic_id`, or by the id if it has no known name."""
    known_topics = names.select("topic_id", f.col("topic").alias("known_topic"))
    return (
        frame.join(f.broadcast(known_topics), "topic_id", "left")
        .withColumn("topic", topic_or_id(f.col("topic"), f.col("known_topic"), f.col("topic_id")))
        .drop("known_topic")
    )


def topic_or_id(name: Column, known_name: Column, topic_id: Column) -> Column:
    """Return the name, else the known name of the id, else the id."""
    return f.coalesce(f.when(name != "", name), known_name, topic_id)
