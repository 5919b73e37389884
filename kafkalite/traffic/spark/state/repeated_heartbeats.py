"""Merges signs of life that repeat the previous one into one row.

Most heartbeats change nothing. The audits of members and epochs read the merged rows.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.traffic.spark.state.windows import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

RUN_END: Final = (
    ("last_start_us", "bigint", "time of the last identical request that followed, or its own"),
    ("lasts_us", "bigint", "time of its response; time of that request if it has no response"),
)
"""The columns with the end of a run of identical signs."""

MEMBER: Final = ("group_id", "member_id")
TIME_ORDER: Final = ("at_us", "start_us", "position")


def as_single_runs(signs: DataFrame) -> DataFrame:
    """Return every sign as a separate run."""
    return signs.withColumns(
        {"last_start_us": f.col("start_us"), "lasts_us": f.coalesce("end_us", "start_us")}
    )


def collapse_repeats(
    signs: DataFrame, is_plain: Column, equal: Sequence[str], timeout_us: Column
) -> DataFrame:
    """Return the first sign of each run, with the end of the run in the columns `RUN_END`.

    A plain sign repeats the previous plain one of the same member if both are equal in the columns
    `equal` and at most `timeout_us` apart. The result of merging is the same if parts of the input
    were merged before.
    """
    ordered = in_order(MEMBER, TIME_ORDER)
    seen = signs.withColumns(
        {"at_us": f.coalesce("end_us", "start_us"), "is_plain": f.coalesce(is_plain, f.lit(False))}
    ).withColumns(
        {
            **{
                f"was_{name}": f.lag(name).over(ordered) for name in ("is_plain", *_RUN_END, *equal)
            },
            "then_us": f.lead("at_us").over(ordered),
            "timeout_us": timeout_us,
        }
    )
    goes_on = reduce(
        and_,
        (f.col(name).eqNullSafe(f.col(f"was_{name}")) for name in equal),
        f.expr("is_plain and was_is_plain and at_us - was_lasts_us <= timeout_us"),
    )
    # A member's very last sign is needed too: no later row has its times.
    ends = seen.withColumn("is_first", ~f.coalesce(goes_on, f.lit(False))).where(
        "is_first or then_us is null"
    )
    following = ("is_first", *_RUN_END, *(f"was_{name}" for name in _RUN_END))
    return (
        ends.withColumns({f"next_{name}": f.lead(name).over(ordered) for name in following})
        .withColumns({name: f.expr(_last(name)) for name in _RUN_END})
        .where("is_first")
        .select(*signs.columns)
    )


def interleaved_members(signs: DataFrame) -> DataFrame:
    """Return members with signs between a sign and the end of its run."""
    following = f.lead(f.coalesce("end_us", "start_us")).over(in_order(MEMBER, TIME_ORDER))
    return (
        signs.withColumn("at_us", f.coalesce("end_us", "start_us"))
        .withColumn("then_us", following)
        .where("then_us <= lasts_us and last_start_us > start_us")
        .select(*MEMBER)
        .distinct()
    )


_RUN_END: Final = tuple(name for name, _, _ in RUN_END)


def _last(name: str) -> str:
    return f"case when next_is_first then next_was_{name} else coalesce(next_{name}, {name}) end"
