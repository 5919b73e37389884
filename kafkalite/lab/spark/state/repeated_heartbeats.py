"""Merges membership requests that repeat the previous one into one row.

Most heartbeats change nothing. The audits of members and epochs read the merged rows.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.windows import ordered_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.stages.projection import Ints

RUN_END: Final = (
    ("last_start_us", "bigint", "time of the last identical request that followed, or its own"),
    ("last_end_us", "bigint", "time of its response; time of that request if it has no response"),
)
"""The columns with the end of a run of identical requests."""
RUN_CLIENT: Final = ("client", "client_id")
"""Columns of the last request of a run: a member may continue on another connection."""

MEMBER: Final = ("group_id", "member_id")
TIME_ORDER: Final = ("at_us", "start_us", "position")


def as_single_runs(rows: DataFrame) -> DataFrame:
    """Return every request as a separate run."""
    return rows.withColumns(
        {"last_start_us": f.col("start_us"), "last_end_us": f.coalesce("end_us", "start_us")}
    )


def collapse_repeats(
    rows: DataFrame, is_mergeable: Column, equal_columns: Sequence[str], timeout_us: Column
) -> DataFrame:
    """Return the first request of each run, with `RUN_END` and `RUN_CLIENT` of the last one.

    A mergeable request repeats the request before it of the same member if that one is mergeable
    too, both are equal in `equal_columns`, and they are at most `timeout_us` apart. The result is
    the same if parts of the input were merged before.
    """
    ordered = ordered_rows(MEMBER, TIME_ORDER)
    with_previous = rows.withColumns(
        {
            "at_us": f.coalesce("end_us", "start_us"),
            "is_mergeable": f.coalesce(is_mergeable, f.lit(False)),
        }
    ).withColumns(
        {
            **{
                f"was_{name}": f.lag(name).over(ordered)
                for name in ("is_mergeable", *_OF_LAST, *equal_columns)
            },
            "next_at_us": f.lead("at_us").over(ordered),
            "timeout_us": timeout_us,
        }
    )
    is_repeat = reduce(
        and_,
        (f.col(name).eqNullSafe(f.col(f"was_{name}")) for name in equal_columns),
        f.expr("is_mergeable and was_is_mergeable and at_us - was_last_end_us <= timeout_us"),
    )
    # A member's last request is needed too: no later row has its times.
    run_edges = with_previous.withColumn("is_first", ~f.coalesce(is_repeat, f.lit(False))).where(
        "is_first or next_at_us is null"
    )
    following = ("is_first", *_OF_LAST, *(f"was_{name}" for name in _OF_LAST))
    return (
        run_edges.withColumns({f"next_{name}": f.lead(name).over(ordered) for name in following})
        .withColumns({name: f.expr(_last(name)) for name in _OF_LAST})
        .where("is_first")
        .select(*rows.columns)
    )


def take_runs(rows: pa.Table, firsts: Ints, lasts: Ints) -> pa.Table:
    """Return the first request of each run, with the columns of its last request.

    `firsts` and `lasts` are the indexes that `find_repeats` returns.
    """
    first, last = rows.take(pa.array(firsts)), rows.take(pa.array(lasts))
    for name in RUN_CLIENT:
        first = first.set_column(first.schema.get_field_index(name), name, last[name])
    return first.append_column("last_start_us", last["start_us"]).append_column(
        "last_end_us", last["at_us"]
    )


def interleaved_members(rows: DataFrame) -> DataFrame:
    """Return members that have other requests between the start and the end of a run."""
    following = f.lead(f.coalesce("end_us", "start_us")).over(ordered_rows(MEMBER, TIME_ORDER))
    return (
        rows.withColumn("at_us", f.coalesce("end_us", "start_us"))
        .withColumn("next_at_us", following)
        .where("next_at_us <= last_end_us and last_start_us > start_us")
        .select(*MEMBER)
        .distinct()
    )


_OF_LAST: Final = (*(name for name, _, _ in RUN_END), *RUN_CLIENT)


def _last(name: str) -> str:
    return (
        f"case when next_is_first then next_was_{name}"
        f" when next_is_first is null then {name} else next_{name} end"
    )
