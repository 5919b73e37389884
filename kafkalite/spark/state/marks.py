"""High watermarks: how far each partition's log reached, as any answer tells it."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.topics import named

if TYPE_CHECKING:
    from kafkalite.spark.requests import Requests

MARKS = table(
    "high_watermarks",
    "How far a partition's log reached by the end of a bucket of time",
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    ("bucket_us", "bigint", "when the bucket begins: microseconds since the Unix epoch"),
    ("high_watermark", "bigint", "the highest that an answer told"),
)

LATEST: Final = -1
_COUNT_AT: Final = 58
"""Where a record batch says how many records it has, counted from 1."""


def marks(requests: Requests, topics: DataFrame, bucket_us: int) -> DataFrame:
    """Return the watermarks that answers tell, as `MARKS`."""
    told = _told(requests)
    bucket = (f.col("at_us") - f.col("at_us") % bucket_us).alias("bucket_us")
    # Names are looked up once a bucket, not once an answer.
    by_bucket = told.groupBy("topic", "topic_id", "partition", bucket).agg(
        f.max("high_watermark").alias("high_watermark")
    )
    return MARKS.shape(named(by_bucket, topics))


def every_mark(requests: Requests, topics: DataFrame) -> DataFrame:
    """Return each watermark when it was told: (topic, partition, at_us, high_watermark)."""
    return named(_told(requests), topics).drop("topic_id")


def _told(requests: Requests) -> DataFrame:
    return reduce(DataFrame.unionByName, (_fetched(requests), _listed(requests), _made(requests)))


def _fetched(requests: Requests) -> DataFrame:
    return (
        requests.of("Fetch")
        .where("answered is not null")
        .select(
            f.unix_micros("answered").alias("at_us"), f.explode("response.responses").alias("t")
        )
        .select(
            "at_us",
            "t.topic",
            f.hex("t.topic_id").alias("topic_id"),
            f.explode("t.partitions").alias("p"),
        )
        .where((f.col("p.error_code") == ErrorCode.NONE) & (f.col("p.high_watermark") >= 0))
        .select(
            "at_us",
            "topic",
            "topic_id",
            f.col("p.partition_index").alias("partition"),
            f.col("p.high_watermark").alias("high_watermark"),
        )
    )


def _listed(requests: Requests) -> DataFrame:
    asked = (
        "flatten(transform(request.topics, a -> transform(filter(a.partitions,"
        f" q -> q.timestamp = {LATEST}),"
        " q -> struct(a.name as topic, q.partition_index as partition))))"
    )
    return (
        requests.of("ListOffsets")
        .where("answered is not null")
        .select(
            f.unix_micros("answered").alias("at_us"),
            f.expr(asked).alias("latest"),
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


def _made(requests: Requests) -> DataFrame:
    """Tell from what was written where a log ends: its base offset, and how many records."""
    count = f"cast(conv(hex(substring(q.records, {_COUNT_AT}, 4)), 16, 10) as bigint)"
    return (
        requests.of("Produce")
        .where("answered is not null")
        .select(
            f.unix_micros("answered").alias("at_us"),
            f.posexplode("request.topic_data").alias("i", "t"),
            f.col("response.responses").alias("answers"),
        )
        .select(
            "at_us",
            f.col("t.name").alias("topic"),
            f.hex("t.topic_id").alias("topic_id"),
            f.posexplode("t.partition_data").alias("j", "q"),
            f.expr("get(answers, i).partition_responses").alias("answers"),
        )
        .withColumn("p", f.expr("get(filter(answers, a -> a.index = q.index), 0)"))
        .where((f.col("p.error_code") == ErrorCode.NONE) & (f.col("p.base_offset") >= 0))
        .select(
            "at_us",
            "topic",
            "topic_id",
            f.col("q.index").alias("partition"),
            (f.col("p.base_offset") + f.expr(count)).alias("high_watermark"),
        )
    )
