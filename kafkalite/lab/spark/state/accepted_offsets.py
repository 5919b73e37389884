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
from kafkalite.lab.spark.stages.projection import (
    Projection,
    combine_codes,
    encode,
    flatten_partitions,
    is_valid,
)
from kafkalite.lab.spark.state.buckets import bucket_us_of_part
from kafkalite.lab.spark.state.commits import (
    by_partition,
    commit_projections,
    outcomes,
    project_commits,
    with_outcomes,
)
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.topics import with_topic_names
from kafkalite.ports.units import MICROSECONDS_PER_MILLISECOND
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests
    from kafkalite.lab.spark.stages.projection import Partitions

    Ints = npt.NDArray[np.int64]

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
_OTHERS: Final = "other_commits"
"""Name of the projections of commits that are transactional or not entirely accepted."""


def accepted_offsets(requests: Requests, topics: DataFrame, bucket_us: int) -> DataFrame:
    """Return the accepted offsets, as `ACCEPTED_OFFSETS`.

    A commit in a transaction counts from the time when the transaction is committed. It does not
    count if the transaction is aborted. A commit whose retention time is shorter than a bucket has
    a separate bucket.
    """
    bucket_ms = bucket_us // MICROSECONDS_PER_MILLISECOND
    is_short = f"retention_ms >= 0 and retention_ms < {bucket_ms}"
    bucket = f.expr(f"case when {is_short} then at_us else at_us - at_us % {bucket_us} end")
    fully_accepted = requests.project(
        _projection(partial(last_per_bucket, bucket_us=bucket_us))
    ).withColumns({"topic_id": f.hex("topic_id"), "bucket_us": bucket})
    other_requests = with_outcomes(
        project_commits(requests, transactional_or_not_accepted, pa.schema([]), _OTHERS)
    )
    effective = by_partition(
        _with_effective_time(other_requests, _transaction_ends(requests)), topics
    )
    others = (
        effective.where(f.col("error") == ErrorCode.NONE)
        .withColumn("bucket_us", bucket)
        .withColumns(
            {
                "topic_id": f.lit(None).cast("string"),
                "first_us": f.col("at_us"),
                "is_simple": f.expr("member_id = ''"),
            }
        )
    )
    by_bucket = (
        fully_accepted.unionByName(others.select(*fully_accepted.columns))
        .withColumn("sequence", f.expr(_sequence(bucket_us)))
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


def accepted_offset_reductions(max_bucket_us: int) -> list[Projection]:
    """Return the projections of `accepted_offsets` before the length of a bucket is known."""
    return [
        _projection(partial(last_in_part, max_bucket_us=max_bucket_us)),
        *commit_projections(transactional_or_not_accepted, pa.schema([]), _OTHERS),
    ]


def _projection(reduce_rows: Callable[[pa.Table], pa.Table]) -> Projection:
    columns = {
        **dict.fromkeys(("group_id", "topic"), pa.string()),
        "topic_id": pa.binary(),
        "partition": pa.int32(),
        **dict.fromkeys(
            ("first_us", "at_us", "position", "committed_offset", "retention_ms"),
            pa.int64(),
        ),
        "is_simple": pa.bool_(),
    }
    return Projection(
        name=ACCEPTED_OFFSETS.name,
        api_key=api_key("OffsetCommit"),
        fields=_FIELDS,
        reduce_rows=reduce_rows,
        schema=pa.schema(list(columns.items())),
    )


def transactional_or_not_accepted(rows: pa.Table) -> pa.Table:
    """Select answered commits that are transactional, or of which a partition was not accepted."""
    is_accepted, _, _ = outcomes(rows["response_topics"])
    if "transactional_id" in rows.column_names:
        is_accepted[:] = False
    return rows.filter(pa.array(~is_accepted & is_valid(rows["end_us"])))


def last_in_part(rows: pa.Table, max_bucket_us: int) -> pa.Table:
    """Return the last accepted commits of some requests in buckets that divide the capture's."""
    return last_per_bucket(rows, bucket_us_of_part(rows, max_bucket_us), max_bucket_us)


def last_per_bucket(
    rows: pa.Table, bucket_us: int, separate_below_us: int | None = None
) -> pa.Table:
    """Return each partition's last commit in each bucket, among entirely accepted commits.

    A commit whose retention time is shorter than `separate_below_us`, by default a bucket, has a
    separate bucket.
    """
    is_accepted, _, _ = outcomes(rows["response_topics"])
    accepted = _in_order(rows.filter(pa.array(is_accepted & is_valid(rows["end_us"]))))
    at_us = np.asarray(accepted["end_us"])
    retention_ms = np.asarray(pc.fill_null(accepted["retention_ms"], -1))
    separate_below_ms = (separate_below_us or bucket_us) // MICROSECONDS_PER_MILLISECOND
    is_short = (retention_ms >= 0) & (retention_ms < separate_below_ms)
    bucket = np.where(is_short, at_us, at_us - at_us % bucket_us)
    committed = flatten_partitions(accepted["request_topics"], "partitions")
    groups = accepted["group_id"].combine_chunks()
    first, last = _ends(_partition_codes(encode(groups), encode(pa.array(bucket)), committed))
    request, topic = committed.row[last], pa.array(committed.topic[last])
    partition = committed.partition.take(pa.array(last))
    is_simple = pc.equal(pc.fill_null(accepted["member_id"], ""), "")
    return pa.table(
        {
            "group_id": groups.take(pa.array(request)),
            "topic": pc.struct_field(committed.topics, "name").take(topic),
            "topic_id": pc.struct_field(committed.topics, "topic_id").take(topic),
            "partition": pc.struct_field(partition, "partition_index"),
            "first_us": at_us[committed.row[first]],
            "at_us": at_us[request],
            "position": np.asarray(accepted["position"])[request],
            "committed_offset": pc.struct_field(partition, "committed_offset"),
            "retention_ms": retention_ms[request],
            "is_simple": is_simple.take(pa.array(request)),
        }
    )


def _partition_codes(
    groups: tuple[Ints, int], buckets: tuple[Ints, int], committed: Partitions
) -> Ints:
    """Return a number per committed partition; equal ones of a group and bucket have equal numbers.

    Numbers of values are combined per request and per topic first, of which there are fewer.
    """
    of_request = combine_codes([groups, buckets])
    of_topic = combine_codes(
        [encode(pc.struct_field(committed.topics, name)) for name in ("name", "topic_id")]
    )
    return combine_codes(
        [
            (of_request[committed.row], 1 + of_request.max(initial=0)),
            (of_topic[committed.topic], 1 + of_topic.max(initial=0)),
            encode(pc.struct_field(committed.partition, "partition_index")),
        ]
    )


def _in_order(rows: pa.Table) -> pa.Table:
    """Return requests in the order of their responses, in which files have nearly all of them."""
    at_us, position = (np.asarray(rows[name]) for name in ("end_us", "position"))
    order = np.lexsort((position, at_us))
    return rows if (np.diff(order) == 1).all() else rows.take(pa.array(order))


def _ends(codes: Ints) -> tuple[Ints, Ints]:
    """Return the indexes of the first and the last row of each code."""
    rows = np.arange(len(codes))
    first, last = (np.empty(1 + codes.max(initial=-1), np.int64) for _ in range(2))
    # The last assignment to an element counts.
    first[codes[::-1]], last[codes] = rows[::-1], rows
    return first, last


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
