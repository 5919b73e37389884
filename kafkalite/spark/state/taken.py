"""Offsets that brokers took, reduced to what expiry and lag ask: a partition's last in a while.

That of one commit after another is the last, and when the first came, is all that matters where
nothing is kept for less than the while.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.commits import by_partition, commits, in_full
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.topics import named

if TYPE_CHECKING:
    from kafkalite.spark.requests import Requests

TAKEN = table(
    "taken_offsets",
    "The last offset of a partition that a group committed in a bucket of time",
    ("group_id", "string", "the group"),
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("first_us", "bigint", "when the first of the bucket was committed"),
    ("at_us", "bigint", "when this one was: microseconds since the Unix epoch"),
    ("retention_ms", "bigint", "how long to keep it, where an old client says so; else -1"),
    ("is_simple", "boolean", "whether it was committed by nobody who is a member"),
)

_PARTITION: Final = ("group_id", "topic", "topic_id", "partition")
_KEPT: Final = ("group_id", "at_us", "position", "retention_ms", "is_simple")
_BITS: Final = 62


def taken(requests: Requests, topics: DataFrame, bucket_us: int) -> DataFrame:
    """Return the offsets that brokers took, as `TAKEN`.

    A commit in a transaction counts from when its transaction was committed, if it was. One that
    says itself that it is to be kept for less than a bucket is told by itself.
    """
    ends = _ends(requests)

    def partly(bare: DataFrame) -> DataFrame:
        return _timed(bare.where("is_refused"), ends)

    some = by_partition(commits(requests, partly), topics).where(f.col("error") == ErrorCode.NONE)
    columns = (*_KEPT, "topic", "topic_id", "partition", "committed_offset")
    no_id = f.lit(None).cast("string")
    rest = some.withColumns({"topic_id": no_id, "is_simple": f.expr(_IS_SIMPLE)}).select(*columns)
    whole = (_spread(_timed(each.where("is_taken"), ends), id_) for each, id_ in in_full(requests))
    every = reduce(DataFrame.unionByName, whole, rest)
    is_short = f"retention_ms >= 0 and retention_ms * 1000 < {bucket_us}"
    bucket = f.expr(f"case when {is_short} then at_us else at_us - at_us % {bucket_us} end")
    # One number to order by, and plain ones to keep, are what Spark adds up without sorting.
    room = 1 << (_BITS - bucket_us.bit_length())
    turn = f.expr(f"(at_us - bucket_us) * {room} + position % {room}")
    by_bucket = (
        every.withColumn("bucket_us", bucket)
        .withColumn("turn", turn)
        .groupBy(*_PARTITION, "bucket_us")
        .agg(
            f.min("at_us").alias("first_us"),
            f.max("at_us").alias("at_us"),
            *(
                f.max_by(name, "turn").alias(name)
                for name in ("committed_offset", "retention_ms", "is_simple")
            ),
        )
    )
    # Names are looked up once a bucket, not once a commit.
    return TAKEN.shape(named(by_bucket, topics))


_IS_SIMPLE: Final = "member_id = ''"


def _spread(requests: DataFrame, topic_id: str) -> DataFrame:
    """Return a row a partition of requests that were taken as a whole."""
    marked = requests.withColumn("is_simple", f.expr(_IS_SIMPLE))
    return (
        marked.select(*_KEPT, f.explode("asked").alias("t"))
        .select(
            *_KEPT,
            f.col("t.name").alias("topic"),
            f.hex(f.expr(topic_id)).alias("topic_id"),
            f.explode("t.partitions").alias("p"),
        )
        .select(
            *_KEPT,
            "topic",
            "topic_id",
            f.col("p.partition_index").alias("partition"),
            f.col("p.committed_offset").alias("committed_offset"),
        )
    )


def _timed(requests: DataFrame, ends: DataFrame) -> DataFrame:
    """Add `at_us`: when a commit counts from; leave out those of transactions that were aborted."""
    plain = requests.where("not is_transactional").withColumn("at_us", f.col("end_us"))
    held = requests.where("is_transactional").unionByName(ends, allowMissingColumns=True)
    # Backwards, so that what comes next is what was last; of one moment the commit was before.
    backwards = Window.partitionBy("transactional_id").orderBy(
        f.coalesce("ended_us", "end_us").desc(), f.col("ended_us").isNotNull()
    )
    told = f.struct("ended_us", "is_committed")
    following = f.last(f.when(f.col("ended_us").isNotNull(), told), ignorenulls=True).over(
        backwards.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    ended = (
        held.withColumn("end", following)
        .where("ended_us is null and end.is_committed")
        .withColumn("at_us", f.col("end.ended_us"))
    )
    return plain.unionByName(ended.select(*plain.columns))


def _ends(requests: Requests) -> DataFrame:
    return (
        requests.of("EndTxn")
        .where(f.col("response.error_code") == ErrorCode.NONE)
        .select(
            "request.transactional_id",
            f.unix_micros("answered").alias("ended_us"),
            f.col("request.committed").alias("is_committed"),
        )
    )
