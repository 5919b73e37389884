"""Signs of life that repeat what the one before said: one row for all of them.

Nearly all that members send says that all is as it was. One pass over it in order, of narrow
rows, leaves what every audit of members and their epochs then reads.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.spark.state.order import in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

LASTS: Final = (
    ("last_start_us", "bigint", "when the last of the like ones that followed it came, or itself"),
    ("lasts_us", "bigint", "when that was answered; when it came where it was not"),
)
"""What is told of those that repeat a sign."""

MEMBER: Final = ("group_id", "member_id")
IN_TURN: Final = ("at_us", "start_us", "position")


def alone(signs: DataFrame) -> DataFrame:
    """Return every sign with `LASTS` of its own."""
    return signs.withColumns(
        {"last_start_us": f.col("start_us"), "lasts_us": f.coalesce("end_us", "start_us")}
    )


def once(signs: DataFrame, is_plain: Column, alike: Sequence[str], timeout_us: Column) -> DataFrame:
    """Return the signs that say what the one before has not; all have `LASTS`, which go on.

    A plain sign repeats the plain one before it of the same member, if it is `alike` in these
    columns and not later after it than `timeout_us`. Done again, also with what came after them,
    it leaves what it would have left of all.
    """
    ordered = in_order(MEMBER, IN_TURN)
    seen = signs.withColumns(
        {"at_us": f.coalesce("end_us", "start_us"), "is_plain": f.coalesce(is_plain, f.lit(False))}
    ).withColumns(
        {
            **{f"was_{name}": f.lag(name).over(ordered) for name in ("is_plain", *_LASTS, *alike)},
            "then_us": f.lead("at_us").over(ordered),
            "timeout_us": timeout_us,
        }
    )
    goes_on = reduce(
        and_,
        (f.col(name).eqNullSafe(f.col(f"was_{name}")) for name in alike),
        f.expr("is_plain and was_is_plain and at_us - was_lasts_us <= timeout_us"),
    )
    # Besides the firsts, a member's very last sign: the only one that no later row tells of.
    ends = seen.withColumn("is_first", ~f.coalesce(goes_on, f.lit(False))).where(
        "is_first or then_us is null"
    )
    following = ("is_first", *_LASTS, *(f"was_{name}" for name in _LASTS))
    return (
        ends.withColumns({f"next_{name}": f.lead(name).over(ordered) for name in following})
        .withColumns({name: f.expr(_last(name)) for name in _LASTS})
        .where("is_first")
        .select(*signs.columns)
    )


def crossed(signs: DataFrame) -> DataFrame:
    """Return the members of which a sign has others between itself and those that repeat it."""
    following = f.lead(f.coalesce("end_us", "start_us")).over(in_order(MEMBER, IN_TURN))
    return (
        signs.withColumn("at_us", f.coalesce("end_us", "start_us"))
        .withColumn("then_us", following)
        .where("then_us <= lasts_us and last_start_us > start_us")
        .select(*MEMBER)
        .distinct()
    )


_LASTS: Final = tuple(name for name, _, _ in LASTS)


def _last(name: str) -> str:
    return f"case when next_is_first then next_was_{name} else coalesce(next_{name}, {name}) end"
