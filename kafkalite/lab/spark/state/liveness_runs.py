"""Merges the membership requests of a member between two silences into one row.

A silence is a time without requests that is longer than the session timeout. A live member sends a
heartbeat every few seconds. Audits need the start of a membership, its last request, and its
silences. Merging limits the size of a stream's state, and does not change the silences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.liveness import (
    JOIN,
    LEAVE,
    MEMBERSHIP_REQUESTS,
    STAY,
    ends_membership,
    shows_member,
)
from kafkalite.lab.spark.state.windows import ordered_rows, rows_up_to_current
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MEMBER: Final = ("group_id", "member_id")
_ORDER: Final = ("seen_us", "start_us", "position")


def merge_into_runs(
    membership_requests: DataFrame, session_timeout_ms: int, since_us: int
) -> DataFrame:
    """Return one row per interval without a silence, as `MEMBERSHIP_REQUESTS`.

    Silences before `since_us` are ignored, and members not seen since then are dropped.
    """
    of_unknown_members = membership_requests.where(
        (f.col("member_id") == "") & (f.col("start_us") >= since_us)
    )
    of_known_members = membership_requests.where(
        (f.col("member_id") != "") & shows_member()
    ).withColumn("seen_us", f.coalesce("end_us", "start_us"))
    numbered = _number_silences(of_known_members, session_timeout_ms, since_us).where(
        f.col("last_seen_us") >= since_us
    )
    return MEMBERSHIP_REQUESTS.shape(_merge(numbered)).unionByName(
        MEMBERSHIP_REQUESTS.shape(of_unknown_members)
    )


def _number_silences(
    of_known_members: DataFrame, session_timeout_ms: int, since_us: int
) -> DataFrame:
    """Add the number of silences before each request."""
    up_to_current, ordered = rows_up_to_current(_MEMBER, _ORDER), ordered_rows(_MEMBER, _ORDER)
    timeout = f.coalesce(
        f.last("session_timeout_ms", ignorenulls=True).over(up_to_current),
        f.lit(session_timeout_ms),
    )
    before = f.struct("seen_us", "timeout_us", ends_membership().alias("is_over"))
    is_silence = (
        (f.col("start_us") - f.col("before.seen_us") > f.col("before.timeout_us"))
        & ~f.col("before.is_over")
        & ~f.coalesce("was_member", f.lit(False))
        & (f.col("before.seen_us") >= since_us)
    )
    return (
        of_known_members.withColumn("timeout_us", timeout * 1000)
        .withColumn("before", f.lag(before).over(ordered))
        .withColumn("silences", f.count_if(is_silence).over(up_to_current))
        .withColumn("last_seen_us", f.max("seen_us").over(up_to_current.rowsBetween(*_ALL_ROWS)))
    )


_ALL_ROWS: Final = (-(2**63), 2**63 - 1)


def _merge(numbered: DataFrame) -> DataFrame:
    """Merge the requests between two silences; the row ends with the last of them."""
    order = f.struct(*_ORDER)
    merged_columns = (
        "start_us",
        "end_us",
        "action",
        "request_member_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "instance_id",
        "protocol",
        "was_member",
        "error",
    )
    other_columns = [
        column.name
        for column in MEMBERSHIP_REQUESTS.columns
        if column.name not in {*merged_columns, *_MEMBER}
    ]

    def at_last(name: str) -> Column:
        return f.max_by(name, order).alias(name)

    has_stayed = f.bool_or(f.col("action") != JOIN)
    action = (
        f.when(f.max_by("action", order) == LEAVE, LEAVE).when(has_stayed, STAY).otherwise(JOIN)
    )

    def last_known(name: str) -> Column:
        return f.max_by(name, f.when(f.col(name).isNotNull(), order)).alias(name)

    return numbered.groupBy(*_MEMBER, "silences").agg(
        f.min_by("start_us", order).alias("start_us"),
        f.max("seen_us").alias("end_us"),
        action.alias("action"),
        f.min_by("request_member_id", order).alias("request_member_id"),
        f.min_by("was_member", order).alias("was_member"),
        last_known("instance_id"),
        last_known("protocol"),
        last_known("session_timeout_ms"),
        last_known("rebalance_timeout_ms"),
        f.coalesce(f.max_by("error", order), f.lit(int(ErrorCode.NONE))).alias("error"),
        *(at_last(name) for name in other_columns),
    )
