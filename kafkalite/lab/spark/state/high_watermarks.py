"""High watermarks of partitions, from responses to Fetch, ListOffsets and Produce."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.partition_sums import PARTITION_SUMS, partition_sums_by_time
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.topics import with_topic_names
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

HIGH_WATERMARKS = table(
    "high_watermarks",
    "The high watermark of a partition by the end of a bucket of time",
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("bucket_us", "bigint", "start of the bucket in microseconds since the Unix epoch"),
    ("high_watermark", "bigint", "the highest high watermark in a response"),
)

LATEST: Final = -1
NO_HIGH_WATERMARKS: Final = table(
    "all_high_watermarks",
    "The high watermark in one response",
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("at_us", "bigint", "time of the response in microseconds since the Unix epoch"),
    ("high_watermark", "bigint", "the high watermark"),
)


def high_watermarks(requests: Requests, topics: DataFrame, bucket_us: int) -> DataFrame:
    """Return the high watermarks by bucket, as `HIGH_WATERMARKS`."""
    bucket = f.col("at_us") - f.col("at_us") % bucket_us
    columns = ("topic", "topic_id", "partition", "bucket_us", "high_watermark")
    observed = (
        requests.state(PARTITION_SUMS.name)
        .where("high_watermark is not null")
        .select(*columns)
        .unionByName(_from_list_offsets(requests).withColumn("bucket_us", bucket).select(*columns))
    )
    return highest_by_bucket(observed, topics)


def highest_by_bucket(observed: DataFrame, topics: DataFrame) -> DataFrame:
    """Return the highest of observed watermarks by bucket, as `HIGH_WATERMARKS`.

    A response has the name of a topic or its id, so `observed` has rows of both for one topic.
    """
    highest = f.max("high_watermark").alias("high_watermark")
    # Joining with names after the aggregation handles one row per bucket, not one per response.
    by_bucket = observed.groupBy("topic", "topic_id", "partition", "bucket_us").agg(highest)
    named = with_topic_names(by_bucket, topics)
    return HIGH_WATERMARKS.shape(named.groupBy("topic", "partition", "bucket_us").agg(highest))


def all_high_watermarks(requests: Requests, topics: DataFrame) -> DataFrame:
    """Return every high watermark: (topic, partition, at_us, high_watermark)."""
    written_and_read = (
        partition_sums_by_time(requests)
        .where("high_watermark is not null")
        .withColumnRenamed("bucket_us", "at_us")
        .select("at_us", "topic", "topic_id", "partition", "high_watermark")
    )
    observed = written_and_read.unionByName(_from_list_offsets(requests))
    return with_topic_names(observed, topics).drop("topic_id")


def _from_list_offsets(requests: Requests) -> DataFrame:
    requested = (
        "flatten(transform(request.topics, a -> transform(filter(a.partitions,"
        f" q -> q.timestamp = {LATEST}),"
        " q -> struct(a.name as topic, q.partition_index as partition))))"
    )
    return (
        requests.of("ListOffsets")
        .where("response_ts is not null")
        .select(
            f.unix_micros("response_ts").alias("at_us"),
            f.expr(requested).alias("latest"),
            f.explode("response.topics").alias("t"),
        )
        .select(
            "at_us", "latest", f.col("t.name").alias("topic"), f.explode("t.partitions").alias("p")
        )
        .where((f.col("p.error_code") == ErrorCode.NONE) & (f.col("p.offset") >= 0))
        .where(
            "array_contains(latest, named_struct('topic', topic, 'partition', p.partition_index))"
        )
        .select(
            "at_us",
            "topic",
            f.lit(None).cast("string").alias("topic_id"),
            f.col("p.partition_index").alias("partition"),
            f.col("p.offset").alias("high_watermark"),
        )
    )
