"""Spells: how long members certainly were at an epoch; who commits at it meanwhile is at its own.

Nearly every commit lies within its member's spell, and needs no look at anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from kafkalite.spark.stages.narrowing import codes
from kafkalite.spark.state.epochs import KNOWN
from kafkalite.spark.state.order import in_order
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from pyspark.sql import DataFrame

    Bools = npt.NDArray[np.bool_]

SPELLS = table(
    "spells",
    "A time for which a member certainly was at one epoch",
    ("in_group", "string", "the group"),
    ("of_member", "string", "the member"),
    ("at_epoch", "int", "the epoch"),
    ("from_us", "bigint", "when it certainly was at it: microseconds since the Unix epoch"),
    ("until_us", "bigint", "the earliest moment at which that may have ended"),
)

_MEMBER: Final = ("group_id", "member_id")
FOREVER: Final = 2**62


def spells(epochs: DataFrame) -> DataFrame:
    """Return the spells of all members with epochs, as `SPELLS`."""
    ordered = in_order(_MEMBER, ("step",))
    firsts = epochs.withColumns(
        {"was": f.lag("standing").over(ordered), "was_epoch": f.lag("epoch").over(ordered)}
    ).where("not (standing <=> was and epoch <=> was_epoch)")
    until = f.coalesce(f.lead("begin_us").over(ordered), f.lit(FOREVER))
    return SPELLS.shape(
        firsts.withColumn("until_us", until)
        .where(f.col("standing") == KNOWN)
        .select(
            f.col("group_id").alias("in_group"),
            f.col("member_id").alias("of_member"),
            f.col("epoch").alias("at_epoch"),
            f.col("done_us").alias("from_us"),
            "until_us",
        )
    )


def within(commits: DataFrame, spells_: DataFrame) -> DataFrame:
    """Return commits with `is_within`: whether it was made within its member's spell at its epoch.

    A commit without an answer may come at any time; it is within none.
    """
    is_its = (
        "group_id = in_group and member_id = of_member and commit_epoch = at_epoch"
        " and start_us >= from_us and end_us < until_us"
    )
    return (
        commits.join(spells_, f.expr(is_its), "left")
        .withColumn("is_within", f.col("in_group").isNotNull())
        .drop(*SPELLS.schema.names)
    )


def covered(rows: pa.Table, spells_: pa.Table, by: Sequence[str]) -> Bools:
    """Return which rows lie within a spell of the same `by`: what `within` joins, in a task.

    Spells alike in `by` do not overlap. Times are the columns of `SPAN`, and of `SPELLS`.
    """
    size = spells_.num_rows
    if not size:
        return np.zeros(rows.num_rows, np.bool_)
    both = {name: pa.chunked_array([*spells_[name].chunks, *rows[name].chunks]) for name in by}
    who = codes(pa.table(both), by)
    from_us, start_us = np.asarray(spells_["from_us"]), np.asarray(rows["start_us"])
    end_us = np.asarray(pc.fill_null(rows["end_us"], FOREVER))
    # The last spell that had begun: a number that grows with who, and with time for each.
    moments = np.unique(from_us)
    whose, when = who[:size] * (len(moments) + 1), np.searchsorted(moments, from_us, "right")
    turn = np.argsort(whose + when)
    asked = who[size:] * (len(moments) + 1) + np.searchsorted(moments, start_us, "right")
    last = turn[np.searchsorted((whose + when)[turn], asked, "right") - 1]
    is_its = (who[last] == who[size:]) & (from_us[last] <= start_us)
    is_within: Bools = is_its & (end_us < np.asarray(spells_["until_us"])[last])
    return is_within
