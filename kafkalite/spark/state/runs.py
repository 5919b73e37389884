"""Signs of life that follow each other without a silence, as one long sign.

A member that lives gives one every few seconds; what matters of it is how it began, how it goes
on, and when it was silent for too long. So what is known of members stays small however long a
capture is, and audits that count silences find the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.order import in_order, until_now
from kafkalite.spark.state.signs import JOIN, LEAVE, SIGNS, STAY, is_over

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MEMBER: Final = ("group_id", "member_id")
_ORDER: Final = ("heard_us", "start_us", "position")


def runs(signs_of_life: DataFrame, session_timeout_ms: int, since_us: int) -> DataFrame:
    """Return the signs, as `SIGNS`: one for all between which no session can have ended.

    Silences before `since_us` count as none, and members that were not heard of since are left out.
    """
    # Refused otherwise, a request is still a sign of life, but not that of a member.
    told = (f.col("error") == ErrorCode.NONE) | f.col("end_us").isNull() | is_over()
    nameless = signs_of_life.where((f.col("member_id") == "") & (f.col("start_us") >= since_us))
    named = signs_of_life.where((f.col("member_id") != "") & told).withColumn(
        "heard_us", f.coalesce("end_us", "start_us")
    )
    numbered = _numbered(named, session_timeout_ms, since_us).where(
        f.col("last_heard_us") >= since_us
    )
    return SIGNS.shape(_joined(numbered)).unionByName(SIGNS.shape(nameless))


def _numbered(named: DataFrame, session_timeout_ms: int, since_us: int) -> DataFrame:
    """Count, for each sign, the silences before it."""
    so_far, ordered = until_now(_MEMBER, _ORDER), in_order(_MEMBER, _ORDER)
    timeout = f.coalesce(
        f.last("session_timeout_ms", ignorenulls=True).over(so_far), f.lit(session_timeout_ms)
    )
    before = f.struct("heard_us", "timeout_us", is_over().alias("is_over"))
    is_silence = (
        (f.col("start_us") - f.col("before.heard_us") > f.col("before.timeout_us"))
        & ~f.col("before.is_over")
        & (f.col("before.heard_us") >= since_us)
    )
    return (
        named.withColumn("timeout_us", timeout * 1000)
        .withColumn("before", f.lag(before).over(ordered))
        .withColumn("silences", f.count_if(is_silence).over(so_far))
        .withColumn("last_heard_us", f.max("heard_us").over(so_far.rowsBetween(*_ALL)))
    )


_ALL: Final = (-(2**63), 2**63 - 1)


def _joined(numbered: DataFrame) -> DataFrame:
    """Make one sign of those between two silences: its end is where the last of them was heard."""
    order = f.struct(*_ORDER)
    own = ("start_us", "end_us", "sign", "asked_member_id", "session_timeout_ms", "error")
    rest = [each.name for each in SIGNS.columns if each.name not in {*own, *_MEMBER}]

    def at_last(name: str) -> Column:
        return f.max_by(name, order).alias(name)

    has_stayed = f.bool_or(f.col("sign") != JOIN)
    sign = f.when(f.max_by("sign", order) == LEAVE, LEAVE).when(has_stayed, STAY).otherwise(JOIN)
    told = f.when(f.col("session_timeout_ms").isNotNull(), order)
    return numbered.groupBy(*_MEMBER, "silences").agg(
        f.min_by("start_us", order).alias("start_us"),
        f.max("heard_us").alias("end_us"),
        sign.alias("sign"),
        f.min_by("asked_member_id", order).alias("asked_member_id"),
        f.max_by("session_timeout_ms", told).alias("session_timeout_ms"),
        f.coalesce(f.max_by("error", order), f.lit(int(ErrorCode.NONE))).alias("error"),
        *(at_last(name) for name in rest),
    )
