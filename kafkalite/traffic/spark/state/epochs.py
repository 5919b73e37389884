"""Members over time: each step at which a coordinator's state of a member may have changed.

Between two steps nothing about a member changes, so its last step has its state at the time of a
commit. After a heartbeat without a response, a member is `UNKNOWN` until the next heartbeat with a
response. The step of that next heartbeat is blurred: the state before it is unknown. The first step
of a member whose join is not in the capture is blurred too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.traffic.spark.state.heartbeats import JOIN_EPOCH, LEAVE_EPOCH
from kafkalite.traffic.spark.state.tables import table
from kafkalite.traffic.spark.state.windows import (
    ordered_rows,
    rows_before_current,
    rows_up_to_current,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


KNOWN: Final = "known"
UNKNOWN: Final = "unknown"
"""A heartbeat had no response, so it may or may not have changed the member."""
GONE: Final = "gone"
"""The member left, or the coordinator returned UNKNOWN_MEMBER_ID."""

RELEASE_TYPE: Final = "step: int, begin_us: bigint, done_us: bigint"

EPOCHS = table(
    "epochs",
    "A step of a member: a time at which its epoch or partitions may have changed",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member"),
    ("protocol", "string", "consumer, streams, or classic: see classic_turns"),
    ("step", "int", "number of the member's step, from 1"),
    ("life", "int", "how many times the member had left or was removed before"),
    ("standing", "string", "known; unknown: a response was lost; gone: it left or was removed"),
    ("begin_us", "bigint", "earliest possible time of the step"),
    ("done_us", "bigint", "latest possible time of the step"),
    (
        "since_us",
        "bigint",
        "earliest possible time of its change: a heartbeat without a response may have caused it",
    ),
    ("connection", "bigint", "the connection of its heartbeat"),
    ("epoch", "int", "the member's epoch from this step on; null unless known"),
    ("left_epoch", "int", "the previous epoch; null at first"),
    ("revocation_epoch", "int", "the latest epoch at which it released partitions; null for none"),
    ("is_blurred", "boolean", "whether the state before this step is unknown"),
    ("certain_epoch", "int", "the epoch from which on its state is known; null for every epoch"),
    ("assigned", "array<string>", "its partitions from this step on; null while unknown"),
    ("gained", "array<string>", "newly assigned partitions"),
    ("lost", "array<string>", "partitions that are no longer assigned to it"),
    ("owned", "array<string>", "the partitions it reports as owned; null if it reports none"),
    ("released", f"struct<{RELEASE_TYPE}>", "the step from which the lost partitions are free"),
)

_MEMBER: Final = ("group_id", "member_id")
_ORDER: Final = ("done_us", "begin_us", "position")
_EMPTY_ARRAY: Final = "cast(array() as array<string>)"


def steps(heartbeats: DataFrame) -> DataFrame:
    """Return the steps that these heartbeats cause, as `EPOCHS`."""
    return EPOCHS.shape(
        _with_releases(_with_changes(_with_step_numbers(state_changes(heartbeats))))
    )


def state_changes(heartbeats: DataFrame) -> DataFrame:
    """Select the heartbeats that change a member's state; most heartbeats do not."""
    is_leave = (f.col("error") == ErrorCode.NONE) & (f.col("asked_epoch") == LEAVE_EPOCH)
    standing = (
        f.when(f.col("end_us").isNull(), UNKNOWN)
        .when(is_leave | (f.col("error") == ErrorCode.UNKNOWN_MEMBER_ID), GONE)
        .when(f.col("error") == ErrorCode.NONE, KNOWN)
    )
    rows = (
        heartbeats.where(f.col("member_id") != "")
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
    before = f.lag(f.struct("epoch", "standing")).over(ordered_rows(_MEMBER, _ORDER))
    return rows.withColumn("before", before).where(
        f.col("assigned").isNotNull()
        | f.col("owned").isNotNull()
        | f.col("before").isNull()
        | (f.col("standing") != f.col("before.standing"))
        | ~f.col("epoch").eqNullSafe(f.col("before.epoch"))
    )


def _with_step_numbers(changes: DataFrame) -> DataFrame:
    """Add `step` and `life`, and the assignment after each step.

    `life` increases when a member returns after it was gone.
    """
    was_gone = f.sum((f.col("standing") == GONE).cast("int")).over(
        rows_before_current(_MEMBER, _ORDER)
    )
    counted = changes.withColumns(
        {
            "step": f.row_number().over(ordered_rows(_MEMBER, _ORDER)),
            "life": f.coalesce(was_gone, f.lit(0)).cast("int"),
        }
    )
    of_life = rows_up_to_current((*_MEMBER, "life"), _ORDER)
    return counted.withColumns(
        {
            "assigned": f.when(f.col("standing") == GONE, f.expr(_EMPTY_ARRAY)).otherwise(
                f.last("assigned", ignorenulls=True).over(of_life)
            ),
        }
    )


def _with_changes(numbered_steps: DataFrame) -> DataFrame:
    """Add the changes since the previous step: gained and lost partitions."""
    by = (*_MEMBER, "life")
    of_life, earlier = ordered_rows(by, _ORDER), rows_before_current(by, _ORDER)
    return numbered_steps.withColumns(
        {
            "left_epoch": f.last("epoch", ignorenulls=True).over(earlier),
            "previous_assigned": f.lag("assigned").over(of_life),
            "previous_standing": f.lag("standing").over(of_life),
            "known_steps": f.count_if(f.col("standing") != UNKNOWN).over(earlier),
        }
    ).withColumns(
        {
            "is_blurred": f.when(
                f.col("previous_standing").isNull(), f.col("asked_epoch") != JOIN_EPOCH
            ).otherwise(f.col("previous_standing") == UNKNOWN),
            "since_us": f.min("begin_us").over(Window.partitionBy(*by, "known_steps")),
            "gained": f.expr(
                f"array_except(assigned, coalesce(previous_assigned, {_EMPTY_ARRAY}))"
            ),
            "lost": f.expr(f"coalesce(array_except(previous_assigned, assigned), {_EMPTY_ARRAY})"),
        }
    )


def _with_releases(changes: DataFrame) -> DataFrame:
    """Find the step at which the coordinator releases the lost partitions.

    Until then they are pending revocation, and the member still owns them. They are released when
    the member reports that it owns none of them, possibly in the heartbeat whose response revokes
    them. From then on, its revocation epoch is the epoch at which it lost them. A commit at that
    epoch is refused if the member has a later epoch by then; otherwise it is at the current epoch.
    """
    by = (*_MEMBER, "life")
    earlier, up_to_current = rows_before_current(by, _ORDER), rows_up_to_current(by, _ORDER)
    # Descending: Spark takes quadratic time for frames of following rows, not for preceding ones.
    later = Window.partitionBy(*by).orderBy(f.desc("step")).rowsBetween(_UNBOUNDED, -1)
    has_losses = f.size("lost") > 0
    losing = changes.withColumns(
        {
            "pending": f.last(f.when(has_losses, f.col("lost")), ignorenulls=True).over(earlier),
            "lost_at": f.last(f.when(has_losses, f.col("left_epoch")), ignorenulls=True).over(
                earlier
            ),
        }
    )
    step = f.struct("step", "begin_us", "done_us")
    is_released_at_once = has_losses & _are_released("lost", "left_epoch")
    is_released_later = _are_released("pending", "lost_at")
    next_release = f.last(f.when(is_released_later, step), ignorenulls=True).over(later)
    released_epoch = f.greatest(
        f.when(is_released_at_once, f.col("left_epoch")),
        f.when(is_released_later, f.col("lost_at")),
    )
    return losing.withColumns(
        {
            "released": f.when(is_released_at_once, step).when(has_losses, next_release),
            "revocation_epoch": f.max(released_epoch).over(up_to_current),
            "certain_epoch": f.max(f.when(f.col("is_blurred"), f.col("epoch"))).over(up_to_current),
        }
    )


def _are_released(pending: str, epoch: str) -> Column:
    """Whether the member owns none of the partitions that it lost at an epoch."""
    return (
        (f.col("standing") == GONE)
        | (f.col("epoch") > f.col(epoch))
        | ~f.arrays_overlap("owned", pending)
    )


_UNBOUNDED: Final = Window.unboundedPreceding
