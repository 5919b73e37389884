"""Accepted offset commits, reduced to the last one of each partition in a bucket of time.

Audits of expiry and lag need only the last commit of a bucket and the time of the first one, if the
retention is at least as long as the bucket.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.spark.dataframes import Window
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.requests import api_key
from kafkalite.lab.spark.stages.projection import Projection, is_valid, row_codes
from kafkalite.lab.spark.state.commits import (
    by_partition,
    outcomes,
    project_commits,
    with_outcomes,
)
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.topics import with_topic_names
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

ACCEPTED_OFFSETS = table(
    "accepted_offsets",
    "The last offset of a partition that a group committed in a bucket of time",
    ("group_id", "string", "the group"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("first_us", "bigint", "time of the first commit in the bucket"),
    ("at_us", "bigint", "time of this commit in microseconds since the Unix epoch"),
    ("retention_ms", "bigint", "retention time in the request of an old client, else -1"),
    ("is_simple", "boolean", "whether the commit came from a client that is not a member"),
)

_PARTITION: Final = ("group_id", "topic", "topic_id", "partition")
_BITS: Final = 62


def accepted_offsets(requests: Requests, topics: DataFrame, bucket_us: int) -> DataFrame:
    """Return the accepted offsets, as `ACCEPTED_OFFSETS`.

    A commit in a transaction counts from the time when the transaction is committed. It does not
    count if the transaction is aborted. A commit whose retention time is shorter than a bucket has
    a separate bucket.
    """
    fully_accepted = requests.project(_projection(bucket_us)).withColumn(
        "topic_id", f.hex("topic_id")
    )
    other_requests = with_outcomes(
        project_commits(requests, transactional_or_not_accepted, pa.schema([]))
    )
    effective = by_partition(
        _with_effective_time(other_requests, _transaction_ends(requests)), topics
    )
    is_short = f"retention_ms >= 0 and retention_ms * 1000 < {bucket_us}"
    bucket = f.expr(f"case when {is_short} then at_us else at_us - at_us % {bucket_us} end")
    others = (
        effective.where(f.col("error") == ErrorCode.NONE)
        .withColumn("bucket_us", bucket)
        .withColumns(
            {
                "topic_id": f.lit(None).cast("string"),
                "first_us": f.col("at_us"),
                "sequence": f.expr(_sequence(bucket_us)),
                "is_simple": f.expr("member_id = ''"),
            }
        )
    )
    by_bucket = (
        fully_accepted.unionByName(others.select(*fully_accepted.columns))
        .groupBy(*_PARTITION, "bucket_us")
        .agg(
            f.min("first_us").alias("first_us"),
            f.max("at_us").alias("at_us"),
            *(
                f.max_by(name, "sequence").alias(name)
                for name in ("committed_offset", "retention_ms", "is_simple")
            ),
        )
    )
    # Joining with names after the aggregation handles one row per bucket, not one per commit.
    return ACCEPTED_OFFSETS.shape(with_topic_names(by_bucket, topics))


def _sequence(bucket_us: int) -> str:
    """Return SQL for a number that orders the commits of a bucket without sorting them."""
    position_range = 1 << (_BITS - bucket_us.bit_length())
    return f"(at_us - bucket_us) * {position_range} + position % {position_range}"


_FIELDS: Final = {
    "group_id": "request.group_id",
    "member_id": "request.member_id",
    "retention_ms": "request.retention_time_ms",
    "request_topics": "request.topics",
    "response_topics": "response.topics",
}


def _projection(bucket_us: int) -> Projection:
    columns = {
        **dict.fromkeys(("group_id", "topic"), pa.string()),
        "topic_id": pa.binary(),
        "partition": pa.int32(),
        **dict.fromkeys(
            ("bucket_us", "first_us", "at_us", "sequence", "committed_offset", "retention_ms"),
            pa.int64(),
        ),
        "is_simple": pa.bool_(),
    }
    return Projection(
        api_key=api_key("OffsetCommit"),
        fields=_FIELDS,
        reduce_rows=partial(last_per_bucket, bucket_us=bucket_us),
        schema=pa.schema(list(columns.items())),
    )


def transactional_or_not_accepted(rows: pa.Table) -> pa.Table:
    """Select answered commits that are transactional, or of which a partition was not accepted."""
    is_accepted, _, _ = outcomes(rows["response_topics"])
    if "transactional_id" in rows.column_names:
        is_accepted[:] = False
    return rows.filter(pa.array(~is_accepted & is_valid(rows["end_us"])))


def last_per_bucket(rows: pa.Table, bucket_us: int) -> pa.Table:
    """Return each partition's last commit in each bucket, among entirely accepted commits."""
    is_accepted, _, _ = outcomes(rows["response_topics"])
    accepted = rows.filter(pa.array(is_accepted & is_valid(rows["end_us"])))
    at_us = np.asarray(accepted["end_us"])
    retention_ms = np.asarray(pc.fill_null(accepted["retention_ms"], -1))
    is_short = (retention_ms >= 0) & (retention_ms * 1000 < bucket_us)
    bucket = np.where(is_short, at_us, at_us - at_us % bucket_us)
    position_range = 1 << (_BITS - bucket_us.bit_length())
    sequence = (at_us - bucket) * position_range + np.asarray(accepted["position"]) % position_range
    topic_lists = accepted["request_topics"].combine_chunks()
    topics = pc.list_flatten(topic_lists)
    partitions = pc.struct_field(topics, "partitions")
    of_partition = pc.list_parent_indices(partitions)
    of_topic = pc.list_parent_indices(topic_lists).take(of_partition)
    partition = pc.list_flatten(partitions)
    by_request = pa.table(
        {
            "group_id": accepted["group_id"],
            "bucket_us": bucket,
            "at_us": at_us,
            "sequence": sequence,
            "retention_ms": retention_ms,
            "is_simple": pc.equal(pc.fill_null(accepted["member_id"], ""), ""),
        }
    )
    by_partition_ = by_request.take(of_topic)
    for name, column in (
        ("topic", pc.struct_field(topics, "name").take(of_partition)),
        ("topic_id", pc.struct_field(topics, "topic_id").take(of_partition)),
        ("partition", pc.struct_field(partition, "partition_index")),
        ("committed_offset", pc.struct_field(partition, "committed_offset")),
    ):
        by_partition_ = by_partition_.append_column(name, column)
    bucket_codes = row_codes(by_partition_, (*_PARTITION, "bucket_us"))
    order = np.lexsort((np.asarray(by_partition_["sequence"]), bucket_codes))
    ends = np.flatnonzero(np.diff(bucket_codes[order], append=-1))
    begins = np.append(0, ends + 1)[:-1]
    return by_partition_.take(pa.array(order[ends])).append_column(
        "first_us", by_partition_["at_us"].take(pa.array(order[begins]))
    )


def _with_effective_time(requests: DataFrame, ends: DataFrame) -> DataFrame:
    """Add `at_us`, the time from which a commit counts; drop those of aborted transactions."""
    non_transactional = requests.where("not is_transactional").withColumn("at_us", f.col("end_us"))
    transactional = requests.where("is_transactional").unionByName(ends, allowMissingColumns=True)
    # Descending order, so that `last` finds the next end; at equal times the commit comes first.
    descending = Window.partitionBy("transactional_id").orderBy(
        f.coalesce("ended_us", "end_us").desc(), f.col("ended_us").isNotNull()
    )
    end = f.struct("ended_us", "is_committed")
    following = f.last(f.when(f.col("ended_us").isNotNull(), end), ignorenulls=True).over(
        descending.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    committed = (
        transactional.withColumn("end", following)
        .where("ended_us is null and end.is_committed")
        .withColumn("at_us", f.col("end.ended_us"))
    )
    return non_transactional.unionByName(committed.select(*non_transactional.columns))


def _transaction_ends(requests: Requests) -> DataFrame:
    return (
        requests.of("EndTxn")
        .where(f.col("response.error_code") == ErrorCode.NONE)
        .select(
            "request.transactional_id",
            f.unix_micros("response_ts").alias("ended_us"),
            f.col("request.committed").alias("is_committed"),
        )
    )
