"""Merges signs of life without a silence between them into one sign.

A live member sends a heartbeat every few seconds. Audits need the start of a membership, its last
sign, and the silences longer than the session timeout. Merging keeps a stream's state small however
long the capture is, and the same silences remain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.traffic.spark.state.liveness import JOIN, LEAVE, SIGNS, STAY, is_over
from kafkalite.traffic.spark.state.windows import in_order, until_now

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MEMBER: Final = ("group_id", "member_id")
_ORDER: Final = ("seen_us", "start_us", "position")


def runs(signs_of_life: DataFrame, session_timeout_ms: int, since_us: int) -> DataFrame:
    """Return the signs as `SIGNS`: one for each interval in which no session timed out.

    Silences before `since_us` are ignored, and members not seen since then are dropped.
    """
    # A request refused for another reason comes from a client that is not a member.
    is_member = (f.col("error") == ErrorCode.NONE) | f.col("end_us").isNull() | is_over()
    nameless = signs_of_life.where((f.col("member_id") == "") & (f.col("start_us") >= since_us))
    named = signs_of_life.where((f.col("member_id") != "") & is_member).withColumn(
        "seen_us", f.coalesce("end_us", "start_us")
    )
    numbered = _number_silences(named, session_timeout_ms, since_us).where(
        f.col("last_seen_us") >= since_us
    )
    return SIGNS.shape(_merge(numbered)).unionByName(SIGNS.shape(nameless))


def _number_silences(named: DataFrame, session_timeout_ms: int, since_us: int) -> DataFrame:
    """Add the number of silences before each sign."""
    so_far, ordered = until_now(_MEMBER, _ORDER), in_order(_MEMBER, _ORDER)
    timeout = f.coalesce(
        f.last("session_timeout_ms", ignorenulls=True).over(so_far), f.lit(session_timeout_ms)
    )
    before = f.struct("seen_us", "timeout_us", is_over().alias("is_over"))
    is_silence = (
        (f.col("start_us") - f.col("before.seen_us") > f.col("before.timeout_us"))
        & ~f.col("before.is_over")
        & (f.col("before.seen_us") >= since_us)
    )
    return (
        named.withColumn("timeout_us", timeout * 1000)
        .withColumn("before", f.lag(before).over(ordered))
        .withColumn("silences", f.count_if(is_silence).over(so_far))
        .withColumn("last_seen_us", f.max("seen_us").over(so_far.rowsBetween(*_ALL)))
    )


_ALL: Final = (-(2**63), 2**63 - 1)


def _merge(numbered: DataFrame) -> DataFrame:
    """Merge the signs between two silences; the merged sign ends with the last of them."""
    order = f.struct(*_ORDER)
    merged_columns = (
        "start_us",
        "end_us",
        "sign",
        "asked_member_id",
        "session_timeout_ms",
        "error",
    )
    other_columns = [
        column.name for column in SIGNS.columns if column.name not in {*merged_columns, *_MEMBER}
    ]

    def at_last(name: str) -> Column:
        return f.max_by(name, order).alias(name)

    has_stayed = f.bool_or(f.col("sign") != JOIN)
    sign = f.when(f.max_by("sign", order) == LEAVE, LEAVE).when(has_stayed, STAY).otherwise(JOIN)
    has_timeout = f.when(f.col("session_timeout_ms").isNotNull(), order)
    return numbered.groupBy(*_MEMBER, "silences").agg(
        f.min_by("start_us", order).alias("start_us"),
        f.max("seen_us").alias("end_us"),
        sign.alias("sign"),
        f.min_by("asked_member_id", order).alias("asked_member_id"),
        f.max_by("session_timeout_ms", has_timeout).alias("session_timeout_ms"),
        f.coalesce(f.max_by("error", order), f.lit(int(ErrorCode.NONE))).alias("error"),
        *(at_last(name) for name in other_columns),
    )
