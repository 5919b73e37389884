"""Intervals in which groups had members, and intervals in which they were empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.liveness import (
    IDENTITY,
    JOIN_GROUP,
    LEAVE,
    SYNC_GROUP,
    ends_membership,
    identity,
    renews_session,
    with_member_facts,
)
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import (
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
    ("protocol", "string", "consumer, streams, share or classic"),
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

    A member that stops sending requests is a member until its session times out. A request without
    a response may have renewed the session.
    """
    up_to_current = rows_up_to_current(IDENTITY, _ORDER)
    with_ends = _with_ends(membership_requests, session_timeout_ms)
    # Requests whose session intervals overlap form one membership.
    is_start = (
        f.col("since_us")
        > f.coalesce(f.max("until_us").over(rows_before_current(IDENTITY, _ORDER)), f.lit(0))
    ) & ~f.coalesce("was_member", f.lit(False))
    ends_at_leave = f.when(f.col("is_over"), f.col("at_us"))
    return (
        with_ends.withColumn(
            "is_start", is_start | f.lag("is_over").over(ordered_rows(IDENTITY, _ORDER))
        )
        .withColumn("membership", f.count_if("is_start").over(up_to_current))
        .groupBy(*IDENTITY, "membership")
        .agg(
            f.min_by("protocol", f.struct(*_ORDER)).alias("protocol"),
            f.min("since_us").alias("from_us"),
            f.coalesce(f.max(ends_at_leave), f.max("until_us")).alias("until_us"),
        )
    )


def _with_ends(membership_requests: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return the requests that may have renewed a session or that end a membership.

    Each has the interval of the session: `since_us` to `until_us`.
    """
    up_to_current = rows_up_to_current(IDENTITY, _ORDER)
    may_renew = f.coalesce(renews_session(), f.lit(False)) | (
        f.col("error").isNull() & (f.col("action") != LEAVE)
    )
    at_us = f.coalesce("end_us", "start_us")
    # A waiting request keeps its member in the group.
    since_us = f.when(f.col("api").isin(JOIN_GROUP, SYNC_GROUP), f.col("start_us")).otherwise(at_us)
    present = with_member_facts(membership_requests).where(
        (identity() != "") & (may_renew | ends_membership())
    )
    timeout = f.coalesce(
        f.last("session_timeout_ms", ignorenulls=True).over(up_to_current),
        f.lit(session_timeout_ms),
    )
    waits_ms = f.when(
        f.coalesce("is_waiting", f.lit(False)),
        f.coalesce(f.last("rebalance_timeout_ms", ignorenulls=True).over(up_to_current), f.lit(0)),
    ).otherwise(0)
    return (
        present.withColumns({"at_us": at_us, IDENTITY[1]: identity()})
        .withColumns(
            {
                "since_us": since_us,
                "is_over": ends_membership(),
                "timeout_us": (timeout + waits_ms) * 1000,
            }
        )
        .withColumn(
            "until_us",
            f.when(f.col("is_over"), f.col("at_us")).otherwise(
                f.col("last_end_us") + f.col("timeout_us")
            ),
        )
    )
