"""When groups had members, and when they were empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.order import before_now, in_order, until_now
from kafkalite.spark.state.signs import SOMEBODY, is_over, somebody
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EMPTY_SPELLS = table(
    "empty_spells",
    "A time for which a group had no members, after it had some",
    ("group_id", "string", "the group"),
    ("protocol", "string", "consumer, streams or classic"),
    ("from_us", "bigint", "since when: microseconds since the Unix epoch"),
    ("until_us", "bigint", "until when; null for one that the capture does not see the end of"),
)

_ORDER: Final = ("at_us", "start_us", "connection", "position")


def empty_spells(signs: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return when each group was empty, as `EMPTY_SPELLS`."""
    spells = memberships(signs, session_timeout_ms)
    order = ("from_us", "until_us")
    present_until = f.max("until_us").over(until_now(("group_id",), order))
    gaps = spells.withColumns(
        {
            "present_until": present_until,
            "next_us": f.lead("from_us").over(in_order(("group_id",), order)),
        }
    ).where(f.col("next_us").isNull() | (f.col("next_us") > f.col("present_until")))
    return EMPTY_SPELLS.shape(
        gaps.select(
            "group_id",
            "protocol",
            f.col("present_until").alias("from_us"),
            f.col("next_us").alias("until_us"),
        )
    )


def memberships(signs: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return from when until when somebody was a member: (group, somebody, protocol, from, until).

    Each sign reaches to the next. One who falls silent is a member until its session has timed out.
    """
    so_far = until_now(SOMEBODY, _ORDER)
    told = signs.where(
        (somebody() != "") & ((f.col("error") == ErrorCode.NONE) | is_over())
    ).withColumns({"at_us": f.coalesce("end_us", "start_us"), SOMEBODY[1]: somebody()})
    timeout = f.coalesce(
        f.last("session_timeout_ms", ignorenulls=True).over(so_far), f.lit(session_timeout_ms)
    )
    reach = told.withColumns(
        {
            "is_over": is_over(),
            "timeout_us": timeout * 1000,
            "next_us": f.lead("at_us").over(in_order(SOMEBODY, _ORDER)),
        }
    ).withColumn(
        "until_us",
        f.when(f.col("is_over"), f.col("at_us")).otherwise(f.col("lasts_us") + f.col("timeout_us")),
    )
    # Signs that reach each other are one membership: a row a membership, not a run of heartbeats.
    starts = f.col("at_us") > f.coalesce(
        f.max("until_us").over(before_now(SOMEBODY, _ORDER)), f.lit(0)
    )
    ends_at_leave = f.when(f.col("is_over"), f.col("at_us"))
    return (
        reach.withColumn("starts", starts | f.lag("is_over").over(in_order(SOMEBODY, _ORDER)))
        .withColumn("spell", f.count_if("starts").over(so_far))
        .groupBy(*SOMEBODY, "spell")
        .agg(
            f.min_by("protocol", f.struct(*_ORDER)).alias("protocol"),
            f.min("at_us").alias("from_us"),
            f.coalesce(f.max(ends_at_leave), f.max("until_us")).alias("until_us"),
        )
    )
