"""Members over time: each step at which what a coordinator holds of one may have changed.

Between two steps of a member nothing about it changes, so what held when a commit came is found
by its last step. What the capture does not tell stays unknown: a heartbeat without an answer
leaves a member `UNKNOWN` until the next one that has one, which like the first of a member whose
joining was not seen is blurred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.heartbeats import JOINS, LEAVES
from kafkalite.spark.state.order import before_now, in_order, until_now
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


KNOWN: Final = "known"
UNKNOWN: Final = "unknown"
"""A heartbeat was not answered: it may have moved the member or not."""
GONE: Final = "gone"
"""The member left, or the coordinator says it has no such member."""

RELEASE: Final = "step: int, begin_us: bigint, done_us: bigint"

EPOCHS = table(
    "epochs",
    "A step of a member: from here on it may have another epoch or other partitions",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member"),
    ("protocol", "string", "consumer, streams, or classic: see classic_turns"),
    ("step", "int", "counts the member's steps, from 1"),
    ("life", "int", "counts how often it was gone before"),
    ("standing", "string", "known, unknown or gone"),
    ("begin_us", "bigint", "the earliest moment of the step"),
    ("done_us", "bigint", "the latest"),
    ("since_us", "bigint", "the earliest moment of what it tells: a lost answer may have told it"),
    ("connection", "bigint", "the connection of its heartbeat"),
    ("epoch", "int", "its epoch from here on; null unless known"),
    ("left_epoch", "int", "the epoch it had before; null at first"),
    ("revocation_epoch", "int", "the latest epoch at which it gave partitions up; null for none"),
    ("is_blurred", "boolean", "whether what was before is unknown, so that it tells of that too"),
    ("certain_epoch", "int", "the epoch from which on nothing of it is unknown; null for any"),
    ("assigned", "array<string>", "what it is assigned from here on; null while unknown"),
    ("gained", "array<string>", "what of it is new"),
    ("lost", "array<string>", "what is no longer its own"),
    ("owned", "array<string>", "what it says it owns; null when it says nothing"),
    ("released", f"struct<{RELEASE}>", "the step from which on nobody holds what was lost"),
)

_MEMBER: Final = ("group_id", "member_id")
_ORDER: Final = ("done_us", "begin_us", "position")
_NONE: Final = "cast(array() as array<string>)"


def steps(beats: DataFrame) -> DataFrame:
    """Return the steps that these heartbeats make, as `EPOCHS`."""
    return EPOCHS.shape(_with_releases(_with_changes(_with_lives(telling(beats)))))


def telling(beats: DataFrame) -> DataFrame:
    """Keep the heartbeats that tell something new: a few in a rebalance, none in between."""
    left = (f.col("error") == ErrorCode.NONE) & (f.col("asked_epoch") == LEAVES)
    standing = (
        f.when(f.col("end_us").isNull(), UNKNOWN)
        .when(left | (f.col("error") == ErrorCode.UNKNOWN_MEMBER_ID), GONE)
        .when(f.col("error") == ErrorCode.NONE, KNOWN)
    )
    told = (
        beats.where(f.col("member_id") != "")
        .withColumn("standing", standing)
        .where(f.col("standing").isNotNull())
        .withColumns(
            {
                "begin_us": f.col("start_us"),
                "done_us": f.coalesce("end_us", "start_us"),
                "epoch": f.when(f.col("standing") == KNOWN, f.col("epoch")),
            }
        )
    )
    before = f.lag(f.struct("epoch", "standing")).over(in_order(_MEMBER, _ORDER))
    return told.withColumn("before", before).where(
        f.col("assigned").isNotNull()
        | f.col("owned").isNotNull()
        | f.col("before").isNull()
        | (f.col("standing") != f.col("before.standing"))
        | ~f.col("epoch").eqNullSafe(f.col("before.epoch"))
    )


def _with_lives(told: DataFrame) -> DataFrame:
    """Count the member's steps and lives: one that was gone and comes back begins anew."""
    was_gone = f.sum((f.col("standing") == GONE).cast("int")).over(before_now(_MEMBER, _ORDER))
    counted = told.withColumns(
        {
            "step": f.row_number().over(in_order(_MEMBER, _ORDER)),
            "life": f.coalesce(was_gone, f.lit(0)).cast("int"),
        }
    )
    of_life = until_now((*_MEMBER, "life"), _ORDER)
    return counted.withColumns(
        {
            "assigned": f.when(f.col("standing") == GONE, f.expr(_NONE)).otherwise(
                f.last("assigned", ignorenulls=True).over(of_life)
            ),
        }
    )


def _with_changes(lives: DataFrame) -> DataFrame:
    """Tell each step from the one before it: what was gained, what was lost."""
    by = (*_MEMBER, "life")
    of_life, earlier = in_order(by, _ORDER), before_now(by, _ORDER)
    return lives.withColumns(
        {
            "left_epoch": f.last("epoch", ignorenulls=True).over(earlier),
            "was_assigned": f.lag("assigned").over(of_life),
            "was": f.lag("standing").over(of_life),
            "known_so_far": f.count_if(f.col("standing") != UNKNOWN).over(earlier),
        }
    ).withColumns(
        {
            "is_blurred": f.when(f.col("was").isNull(), f.col("asked_epoch") != JOINS).otherwise(
                f.col("was") == UNKNOWN
            ),
            "since_us": f.min("begin_us").over(Window.partitionBy(*by, "known_so_far")),
            "gained": f.expr(f"array_except(assigned, coalesce(was_assigned, {_NONE}))"),
            "lost": f.expr(f"coalesce(array_except(was_assigned, assigned), {_NONE})"),
        }
    )


def _with_releases(changes: DataFrame) -> DataFrame:
    """Find the step at which a coordinator lets go of what was lost.

    Until then it is pending revocation, and still the member's: it lets go when the member says
    that it owns none of it any more, which it need not do when it said so with the loss itself.
    The epoch at which it lost it is its revocation epoch from then on. A commit at that epoch is
    refused when the member has a later one, and is one at its own epoch as long as it has not.
    """
    by = (*_MEMBER, "life")
    earlier, so_far = before_now(by, _ORDER), until_now(by, _ORDER)
    # Spark goes through all that follows anew for each row, but not through all before.
    later = Window.partitionBy(*by).orderBy(f.desc("step")).rowsBetween(_UNBOUNDED, -1)
    loses = f.size("lost") > 0
    losing = changes.withColumns(
        {
            "pending": f.last(f.when(loses, f.col("lost")), ignorenulls=True).over(earlier),
            "lost_at": f.last(f.when(loses, f.col("left_epoch")), ignorenulls=True).over(earlier),
        }
    )
    step = f.struct("step", "begin_us", "done_us")
    at_once = loses & _lets_go("lost", "left_epoch")
    at_last = _lets_go("pending", "lost_at")
    next_ = f.last(f.when(at_last, step), ignorenulls=True).over(later)
    gave_up_at = f.greatest(f.when(at_once, f.col("left_epoch")), f.when(at_last, f.col("lost_at")))
    return losing.withColumns(
        {
            "released": f.when(at_once, step).when(loses, next_),
            "revocation_epoch": f.max(gave_up_at).over(so_far),
            "certain_epoch": f.max(f.when(f.col("is_blurred"), f.col("epoch"))).over(so_far),
        }
    )


def _lets_go(pending: str, epoch: str) -> Column:
    """Whether nothing of what was lost at an epoch is the member's any more."""
    return (
        (f.col("standing") == GONE)
        | (f.col("epoch") > f.col(epoch))
        | ~f.arrays_overlap("owned", pending)
    )


_UNBOUNDED: Final = Window.unboundedPreceding
