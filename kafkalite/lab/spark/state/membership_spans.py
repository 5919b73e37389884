"""Intervals in which members certainly had an epoch.

Nearly every commit is within such an interval of its member, and needs no other check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.stages.projection import row_codes
from kafkalite.lab.spark.state.epochs import KNOWN
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import ordered_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from pyspark.sql import DataFrame

    Bools = npt.NDArray[np.bool_]

EPOCH_INTERVALS = table(
    "epoch_intervals",
    "An interval in which a member certainly had one epoch",
    ("interval_group_id", "string", "the group"),
    ("interval_member_id", "string", "the member"),
    ("interval_epoch", "int", "the epoch"),
    ("from_us", "bigint", "start in microseconds since the Unix epoch: the latest possible one"),
    ("until_us", "bigint", "the earliest possible end"),
)

_MEMBER: Final = ("group_id", "member_id")
FOREVER: Final = 2**62


def epoch_intervals(epochs: DataFrame) -> DataFrame:
    """Return the intervals of all members with epochs, as `EPOCH_INTERVALS`."""
    ordered = ordered_rows(_MEMBER, ("step",))
    firsts = epochs.withColumns(
        {
            "status_before": f.lag("status").over(ordered),
            "epoch_before": f.lag("epoch").over(ordered),
        }
    ).where("not (status <=> status_before and epoch <=> epoch_before)")
    until = f.coalesce(f.lead("earliest_us").over(ordered), f.lit(FOREVER))
    return EPOCH_INTERVALS.shape(
        firsts.withColumn("until_us", until)
        .where(f.col("status") == KNOWN)
        .select(
            f.col("group_id").alias("interval_group_id"),
            f.col("member_id").alias("interval_member_id"),
            f.col("epoch").alias("interval_epoch"),
            f.col("latest_us").alias("from_us"),
            "until_us",
        )
    )


def with_is_within(commits: DataFrame, intervals: DataFrame) -> DataFrame:
    """Add `is_within`: whether a commit is within an interval of its member and epoch.

    A commit without a response is within no interval, because its time is unknown.
    """
    is_same_member = (
        "group_id = interval_group_id and member_id = interval_member_id"
        " and commit_epoch = interval_epoch"
        " and start_us >= from_us and end_us < until_us"
    )
    return (
        commits.join(intervals, f.expr(is_same_member), "left")
        .withColumn("is_within", f.col("interval_group_id").isNotNull())
        .drop(*EPOCH_INTERVALS.schema.names)
    )


def is_covered(rows: pa.Table, intervals: pa.Table, by: Sequence[str]) -> Bools:
    """Return a mask of the rows that are within an interval with the same `by`.

    It is `with_is_within` for Arrow tables.

    Intervals with the same `by` do not overlap. Times are the columns of `TIME_COLUMNS` and of
    `EPOCH_INTERVALS`.
    """
    size = intervals.num_rows
    if not size:
        return np.zeros(rows.num_rows, np.bool_)
    keys = {name: pa.chunked_array([*intervals[name].chunks, *rows[name].chunks]) for name in by}
    key_codes = row_codes(pa.table(keys), by)
    from_us, start_us = np.asarray(intervals["from_us"]), np.asarray(rows["start_us"])
    end_us = np.asarray(pc.fill_null(rows["end_us"], FOREVER))
    # One number per row orders by key, then by time, so one search finds the last interval start.
    times = np.unique(from_us)
    key_order, time_order = (
        key_codes[:size] * (len(times) + 1),
        np.searchsorted(times, from_us, "right"),
    )
    sequence = np.argsort(key_order + time_order)
    commit_order = key_codes[size:] * (len(times) + 1) + np.searchsorted(times, start_us, "right")
    last = sequence[np.searchsorted((key_order + time_order)[sequence], commit_order, "right") - 1]
    is_same_key = (key_codes[last] == key_codes[size:]) & (from_us[last] <= start_us)
    is_within: Bools = is_same_key & (end_us < np.asarray(intervals["until_us"])[last])
    return is_within
