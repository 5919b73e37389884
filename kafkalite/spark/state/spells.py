"""Spells: how long members certainly were at an epoch; who commits at it meanwhile is at its own.

Nearly every commit lies within its member's spell, and needs no look at anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.spark.state.epochs import KNOWN
from kafkalite.spark.state.order import in_order
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
_FOREVER: Final = 2**62


def spells(epochs: DataFrame) -> DataFrame:
    """Return the spells of all members with epochs, as `SPELLS`."""
    ordered = in_order(_MEMBER, ("step",))
    firsts = epochs.withColumns(
        {"was": f.lag("standing").over(ordered), "was_epoch": f.lag("epoch").over(ordered)}
    ).where("not (standing <=> was and epoch <=> was_epoch)")
    until = f.coalesce(f.lead("begin_us").over(ordered), f.lit(_FOREVER))
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
