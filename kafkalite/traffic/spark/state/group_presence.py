"""Intervals in which groups had members, and intervals in which they were empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.traffic.spark.state.liveness import IDENTITY, ends_membership, identity
from kafkalite.traffic.spark.state.tables import table
from kafkalite.traffic.spark.state.windows import (
    ordered_rows,
    rows_before_current,
    rows_up_to_current,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EMPTY_INTERVALS = table(
    "empty_intervals",
    "An interval in which a group had no members, after it had some",
    ("group_id", "string", "the group"),
    ("protocol", "string", "consumer, streams or classic"),
    ("from_us", "bigint", "start in microseconds since the Unix epoch"),
    ("until_us", "bigint", "end; null if it lasts beyond the capture"),
)

_ORDER: Final = ("at_us", "start_us", "connection", "position")


def empty_intervals(membership_requests: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return the intervals in which groups were empty, as `EMPTY_INTERVALS`."""
    intervals = memberships(membership_requests, session_timeout_ms)
    order = ("from_us", "until_us")
    present_until = f.max("until_us").over(rows_up_to_current(("group_id",), order))
    gaps = intervals.withColumns(
        {
            "present_until": present_until,
            "next_us": f.lead("from_us").over(ordered_rows(("group_id",), order)),
        }
    ).where(f.col("next_us").isNull() | (f.col("next_us") > f.col("present_until")))
    return EMPTY_INTERVALS.shape(
        gaps.select(
            "group_id",
            "protocol",
            f.col("present_until").alias("from_us"),
            f.col("next_us").alias("until_us"),
        )
    )


def memberships(membership_requests: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return intervals of membership: (group_id, identity, protocol, from_us, until_us).

    A member that stops sending requests is a member until its session times out.
    """
    up_to_current = rows_up_to_current(IDENTITY, _ORDER)
    accepted = membership_requests.where(
        (identity() != "") & ((f.col("error") == ErrorCode.NONE) | ends_membership())
    ).withColumns({"at_us": f.coalesce("end_us", "start_us"), IDENTITY[1]: identity()})
    timeout = f.coalesce(
        f.last("session_timeout_ms", ignorenulls=True).over(up_to_current),
        f.lit(session_timeout_ms),
    )
    with_ends = accepted.withColumns(
        {
            "is_over": ends_membership(),
            "timeout_us": timeout * 1000,
            "next_us": f.lead("at_us").over(ordered_rows(IDENTITY, _ORDER)),
        }
    ).withColumn(
        "until_us",
        f.when(f.col("is_over"), f.col("at_us")).otherwise(
            f.col("last_end_us") + f.col("timeout_us")
        ),
    )
    # Requests whose session intervals overlap form one membership.
    is_start = f.col("at_us") > f.coalesce(
        f.max("until_us").over(rows_before_current(IDENTITY, _ORDER)), f.lit(0)
    )
    ends_at_leave = f.when(f.col("is_over"), f.col("at_us"))
    return (
        with_ends.withColumn(
            "is_start", is_start | f.lag("is_over").over(ordered_rows(IDENTITY, _ORDER))
        )
        .withColumn("membership", f.count_if("is_start").over(up_to_current))
        .groupBy(*IDENTITY, "membership")
        .agg(
            f.min_by("protocol", f.struct(*_ORDER)).alias("protocol"),
            f.min("at_us").alias("from_us"),
            f.coalesce(f.max(ends_at_leave), f.max("until_us")).alias("until_us"),
        )
    )
