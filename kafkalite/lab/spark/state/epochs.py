"""Members over time: each step at which a coordinator's state of a member may have changed.

Between two steps nothing about a member changes, so its last step has its state at the time of a
commit. After a heartbeat without a response, a member is `UNKNOWN` until the next heartbeat with a
response. The state before the step of that heartbeat is unknown. The state before the first step of
a member whose join is not in the capture is unknown too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import Window
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.heartbeats import JOIN_EPOCH, LEAVE_EPOCH
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import (
    ordered_rows,
    rows_before_current,
    rows_up_to_current,
)
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


KNOWN: Final = "known"
UNKNOWN: Final = "unknown"
"""A heartbeat had no response, so it may or may not have changed the member."""
NOT_MEMBER: Final = "not a member"
"""The member left, or the coordinator returned UNKNOWN_MEMBER_ID."""

RELEASE_TYPE: Final = "step: int, earliest_us: bigint, latest_us: bigint"

EPOCHS = table(
    "epochs",
    "A step of a member: a time at which its epoch or partitions may have changed",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member"),
    ("protocol", "string", "consumer, streams, or classic: see classic_intervals"),
    ("step", "int", "number of the member's step, from 1"),
    ("incarnation", "int", "how many times the member had left or was removed before"),
    (
        "status",
        "string",
        "known; unknown: a response was lost; not a member: it left or was removed",
    ),
    ("earliest_us", "bigint", "earliest possible time of the step"),
    ("latest_us", "bigint", "latest possible time of the step"),
    (
        "earliest_change_us",
        "bigint",
        "earliest possible time of its change: a heartbeat without a response may have caused it",
    ),
    ("connection", "bigint", "the connection of its heartbeat"),
    ("epoch", "int", "the member's epoch from this step on; null unless known"),
    ("previous_epoch", "int", "the previous epoch; null at first"),
    ("revocation_epoch", "int", "the latest epoch at which it released partitions; null for none"),
    ("is_previous_state_unknown", "boolean", "whether the state before this step is unknown"),
    (
        "known_since_epoch",
        "int",
        "the epoch from which on its state is known; null for every epoch",
    ),
    ("assigned", "array<string>", "its partitions from this step on; null while unknown"),
    ("added", "array<string>", "newly assigned partitions"),
    ("revoked", "array<string>", "partitions that are no longer assigned to it"),
    ("owned", "array<string>", "the partitions it reports as owned; null if it reports none"),
    ("released", f"struct<{RELEASE_TYPE}>", "the step from which the revoked partitions are free"),
)

_MEMBER: Final = ("group_id", "member_id")
_ORDER: Final = ("latest_us", "earliest_us", "position")
_EMPTY_ARRAY: Final = "cast(array() as array<string>)"


def steps(heartbeats: DataFrame) -> DataFrame:
    """Return the steps that these heartbeats cause, as `EPOCHS`."""
    return EPOCHS.shape(
        _with_releases(_with_changes(_with_step_numbers(state_changes(heartbeats))))
    )


def state_changes(heartbeats: DataFrame) -> DataFrame:
    """Select the heartbeats that change a member's state; most heartbeats do not."""
    is_leave = (f.col("error") == ErrorCode.NONE) & (f.col("request_epoch") == LEAVE_EPOCH)
    status = (
        f.when(f.col("end_us").isNull(), UNKNOWN)
        .when(is_leave | (f.col("error") == ErrorCode.UNKNOWN_MEMBER_ID), NOT_MEMBER)
        .when(f.col("error") == ErrorCode.NONE, KNOWN)
    )
    rows = (
        heartbeats.where(f.col("member_id") != "")
        .withColumn("status", status)
        .where(f.col("status").isNotNull())
        .withColumns(
            {
                "earliest_us": f.col("start_us"),
                "latest_us": f.coalesce("end_us", "start_us"),
                "epoch": f.when(f.col("status") == KNOWN, f.col("epoch")),
            }
        )
    )
    before = f.lag(f.struct("epoch", "status")).over(ordered_rows(_MEMBER, _ORDER))
    return rows.withColumn("before", before).where(
        f.col("assigned").isNotNull()
        | f.col("owned").isNotNull()
        | f.col("before").isNull()
        | (f.col("status") != f.col("before.status"))
        | ~f.col("epoch").eqNullSafe(f.col("before.epoch"))
    )


def _with_step_numbers(changes: DataFrame) -> DataFrame:
    """Add `step` and `incarnation`, and the assignment after each step.

    `incarnation` increases when a member returns after it left or was removed.
    """
    departures = f.sum((f.col("status") == NOT_MEMBER).cast("int")).over(
        rows_before_current(_MEMBER, _ORDER)
    )
    counted = changes.withColumns(
        {
            "step": f.row_number().over(ordered_rows(_MEMBER, _ORDER)),
            "incarnation": f.coalesce(departures, f.lit(0)).cast("int"),
        }
    )
    of_incarnation = rows_up_to_current((*_MEMBER, "incarnation"), _ORDER)
    return counted.withColumns(
        {
            "assigned": f.when(f.col("status") == NOT_MEMBER, f.expr(_EMPTY_ARRAY)).otherwise(
                f.last("assigned", ignorenulls=True).over(of_incarnation)
            ),
        }
    )


def _with_changes(numbered_steps: DataFrame) -> DataFrame:
    """Add the changes since the previous step: added and revoked partitions."""
    by = (*_MEMBER, "incarnation")
    of_incarnation, earlier = ordered_rows(by, _ORDER), rows_before_current(by, _ORDER)
    return numbered_steps.withColumns(
        {
            "previous_epoch": f.last("epoch", ignorenulls=True).over(earlier),
            "previous_assigned": f.lag("assigned").over(of_incarnation),
            "previous_status": f.lag("status").over(of_incarnation),
            "known_steps": f.count_if(f.col("status") != UNKNOWN).over(earlier),
        }
    ).withColumns(
        {
            "is_previous_state_unknown": f.when(
                f.col("previous_status").isNull(), f.col("request_epoch") != JOIN_EPOCH
            ).otherwise(f.col("previous_status") == UNKNOWN),
            "earliest_change_us": f.min("earliest_us").over(Window.partitionBy(*by, "known_steps")),
            "added": f.expr(f"array_except(assigned, coalesce(previous_assigned, {_EMPTY_ARRAY}))"),
            "revoked": f.expr(
                f"coalesce(array_except(previous_assigned, assigned), {_EMPTY_ARRAY})"
            ),
        }
    )


def _with_releases(changes: DataFrame) -> DataFrame:
    """Find the step at which the coordinator releases the revoked partitions.

    Until then they are pending revocation, and the member still owns them. They are released when
    the member reports that it owns none of them, possibly in the heartbeat whose response revokes
    them. From then on, its revocation epoch is the epoch at which they were revoked. A commit at
    that epoch is refused if the member has a later epoch by then; otherwise it is at the current
    epoch.
    """
    by = (*_MEMBER, "incarnation")
    earlier, up_to_current = rows_before_current(by, _ORDER), rows_up_to_current(by, _ORDER)
    # Descending: Spark takes quadratic time for frames of following rows, not for preceding ones.
    later = (
        Window.partitionBy(*by).orderBy(f.desc("step")).rowsBetween(Window.unboundedPreceding, -1)
    )
    has_revoked = f.size("revoked") > 0
    with_pending = changes.withColumns(
        {
            "pending": f.last(f.when(has_revoked, f.col("revoked")), ignorenulls=True).over(
                earlier
            ),
            "revoked_at_epoch": f.last(
                f.when(has_revoked, f.col("previous_epoch")), ignorenulls=True
            ).over(earlier),
        }
    )
    step = f.struct("step", "earliest_us", "latest_us")
    is_released_at_once = has_revoked & _are_released("revoked", "previous_epoch")
    is_released_later = _are_released("pending", "revoked_at_epoch")
    next_release = f.last(f.when(is_released_later, step), ignorenulls=True).over(later)
    released_epoch = f.greatest(
        f.when(is_released_at_once, f.col("previous_epoch")),
        f.when(is_released_later, f.col("revoked_at_epoch")),
    )
    return with_pending.withColumns(
        {
            "released": f.when(is_released_at_once, step).when(has_revoked, next_release),
            "revocation_epoch": f.max(released_epoch).over(up_to_current),
            "known_since_epoch": f.max(
                f.when(f.col("is_previous_state_unknown"), f.col("epoch"))
            ).over(up_to_current),
        }
    )


def _are_released(pending: str, epoch: str) -> Column:
    """Whether the member owns none of the partitions that were revoked at an epoch."""
    return (
        (f.col("status") == NOT_MEMBER)
        | (f.col("epoch") > f.col(epoch))
        | ~f.arrays_overlap("owned", pending)
    )
