"""Offsets that brokers took, reduced to what expiry and lag ask: a partition's last in a while.

That of one commit after another is the last, and when the first came, is all that matters where
nothing is kept for less than the while.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.requests import api_key
from kafkalite.spark.stages.narrowing import Narrowing, codes, is_there
from kafkalite.spark.state.commits import by_partition, narrowed, outcomes, with_outcomes
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.topics import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
_BITS: Final = 62


def taken(requests: Requests, topics: DataFrame, bucket_us: int) -> DataFrame:
    """Return the offsets that brokers took, as `TAKEN`.

    A commit in a transaction counts from when its transaction was committed, if it was. One that
    says itself that it is to be kept for less than a bucket is told by itself.
    """
    whole = requests.narrowed(_narrowing(bucket_us)).withColumn("topic_id", f.hex("topic_id"))
    rest = with_outcomes(narrowed(requests, without_plain, pa.schema([])))
    timed = by_partition(_timed(rest, _ends(requests)), topics)
    is_short = f"retention_ms >= 0 and retention_ms * 1000 < {bucket_us}"
    bucket = f.expr(f"case when {is_short} then at_us else at_us - at_us % {bucket_us} end")
    others = (
        timed.where(f.col("error") == ErrorCode.NONE)
        .withColumn("bucket_us", bucket)
        .withColumns(
            {
                "topic_id": f.lit(None).cast("string"),
                "first_us": f.col("at_us"),
                "turn": f.expr(_turn(bucket_us)),
                "is_simple": f.expr("member_id = ''"),
            }
        )
    )
    by_bucket = (
        whole.unionByName(others.select(*whole.columns))
        .groupBy(*_PARTITION, "bucket_us")
        .agg(
            f.min("first_us").alias("first_us"),
            f.max("at_us").alias("at_us"),
            *(
                f.max_by(name, "turn").alias(name)
                for name in ("committed_offset", "retention_ms", "is_simple")
            ),
        )
    )
    # Names are looked up once a bucket, not once a commit.
    return TAKEN.shape(named(by_bucket, topics))


def _turn(bucket_us: int) -> str:
    """Return SQL for a number to order the commits of a bucket by: what adds up without sorting."""
    room = 1 << (_BITS - bucket_us.bit_length())
    return f"(at_us - bucket_us) * {room} + position % {room}"


_FIELDS: Final = {
    "group_id": "request.group_id",
    "member_id": "request.member_id",
    "retention_ms": "request.retention_time_ms",
    "asked": "request.topics",
    "answered": "response.topics",
}


def _narrowing(bucket_us: int) -> Narrowing:
    columns = {
        **dict.fromkeys(("group_id", "topic"), pa.string()),
        "topic_id": pa.binary(),
        "partition": pa.int32(),
        **dict.fromkeys(
            ("bucket_us", "first_us", "at_us", "turn", "committed_offset", "retention_ms"),
            pa.int64(),
        ),
        "is_simple": pa.bool_(),
    }
    return Narrowing(
        api_key=api_key("OffsetCommit"),
        fields=_FIELDS,
        narrow=partial(lasts, bucket_us=bucket_us),
        schema=pa.schema(list(columns.items())),
    )


def without_plain(rows: pa.Table) -> pa.Table:
    """Leave the commits that `lasts` leaves out: in transactions, or not taken as a whole."""
    is_plain, _, _ = outcomes(rows["answered"])
    if "transactional_id" in rows.column_names:
        is_plain[:] = False
    return rows.filter(pa.array(~is_plain & is_there(rows["end_us"])))


def lasts(rows: pa.Table, bucket_us: int) -> pa.Table:
    """Return, of commits that were taken as a whole, each partition's last in a bucket of time."""
    is_plain, _, _ = outcomes(rows["answered"])
    plain = rows.filter(pa.array(is_plain & is_there(rows["end_us"])))
    at_us = np.asarray(plain["end_us"])
    retention_ms = np.asarray(pc.fill_null(plain["retention_ms"], -1))
    is_short = (retention_ms >= 0) & (retention_ms * 1000 < bucket_us)
    bucket = np.where(is_short, at_us, at_us - at_us % bucket_us)
    room = 1 << (_BITS - bucket_us.bit_length())
    turn = (at_us - bucket) * room + np.asarray(plain["position"]) % room
    asked = plain["asked"].combine_chunks()
    topics = pc.list_flatten(asked)
    partitions = pc.struct_field(topics, "partitions")
    of_partition = pc.list_parent_indices(partitions)
    of_topic = pc.list_parent_indices(asked).take(of_partition)
    partition = pc.list_flatten(partitions)
    by_request = pa.table(
        {
            "group_id": plain["group_id"],
            "bucket_us": bucket,
            "at_us": at_us,
            "turn": turn,
            "retention_ms": retention_ms,
            "is_simple": pc.equal(pc.fill_null(plain["member_id"], ""), ""),
        }
    )
    every = by_request.take(of_topic)
    for name, column in (
        ("topic", pc.struct_field(topics, "name").take(of_partition)),
        ("topic_id", pc.struct_field(topics, "topic_id").take(of_partition)),
        ("partition", pc.struct_field(partition, "partition_index")),
        ("committed_offset", pc.struct_field(partition, "committed_offset")),
    ):
        every = every.append_column(name, column)
    whose = codes(every, (*_PARTITION, "bucket_us"))
    order = np.lexsort((np.asarray(every["turn"]), whose))
    ends = np.flatnonzero(np.diff(whose[order], append=-1))
    begins = np.append(0, ends + 1)[:-1]
    return every.take(pa.array(order[ends])).append_column(
        "first_us", every["at_us"].take(pa.array(order[begins]))
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
