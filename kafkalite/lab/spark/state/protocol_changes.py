"""Members that use the classic protocol in consumer groups, during a migration (KIP-848).

When a coordinator migrates a group from one protocol to the other, the members stay. Members that
still use the classic protocol receive their epochs as generations, and JoinGroup responses without
a leader. Such an interval lasts until the member joins a group with a leader again, or until its
group has no members with epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import Window, union
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.heartbeats import HEARTBEATS, JOIN_EPOCH, LEAVE_EPOCH
from kafkalite.lab.spark.state.liveness import (
    CLASSIC,
    JOIN,
    JOIN_GROUP,
    LEAVE,
    SYNC_GROUP,
    ends_membership,
)
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import ordered_rows, rows_up_to_current
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

CLASSIC_INTERVALS = table(
    "classic_intervals",
    "An interval in which a member of the classic protocol was in a consumer group",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member"),
    ("from_us", "bigint", "time of its JoinGroup in microseconds since the Unix epoch"),
    ("until_us", "bigint", "time of its next JoinGroup, or of the group's migration; null: never"),
    ("is_continued", "boolean", "whether another such interval follows immediately"),
    (
        "classic_generation",
        "int",
        "its generation when the group was classic; null if not a member",
    ),
    ("is_new_member", "boolean", "whether it was not a member before"),
)

_MEMBER: Final = ("group_id", "member_id")
_TIME_ORDER: Final = ("seen_us", "start_us", "position")
_IS_WITHIN: Final = (
    "group_id = interval_group_id and member_id = interval_member_id and start_us >= from_us"
    " and (until_us is null or start_us < until_us)"
)


def with_interval_member(intervals: DataFrame) -> DataFrame:
    """Rename group and member of `CLASSIC_INTERVALS`, so that a join has each name once."""
    return intervals.withColumnsRenamed(
        {"group_id": "interval_group_id", "member_id": "interval_member_id"}
    )


def may_migrate(requests: Requests) -> bool:
    """Whether a group may have used both protocols."""
    return "JoinGroup" in requests and "ConsumerGroupHeartbeat" in requests


def classic_intervals(membership_requests: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return the intervals, as `CLASSIC_INTERVALS`; most captures have none."""
    classic = membership_requests.where((f.col("protocol") == CLASSIC) & (f.col("member_id") != ""))
    joins = classic.where(f.col("api") == JOIN_GROUP).withColumn(
        "seen_us", f.coalesce("end_us", "start_us")
    )
    was_new = f.first("request_member_id").over(rows_up_to_current(_MEMBER, _TIME_ORDER)) == ""
    joined = joins.withColumn("was_new", was_new).where(f.col("error") == ErrorCode.NONE)
    join = f.struct("joined_consumer_group", "generation", "start_us")
    ordered = ordered_rows(_MEMBER, _TIME_ORDER)
    starts = joined.withColumns(
        {"before": f.lag(join).over(ordered), "after": f.lead(join).over(ordered)}
    ).where("joined_consumer_group")
    ends = _times_without_epochs(
        membership_requests.join(
            f.broadcast(starts.select("group_id").distinct()), "group_id", "semi"
        ),
        session_timeout_ms,
    )
    first_end = (
        starts.select(*_MEMBER, "start_us", "end_us")
        .join(ends, "group_id")
        .where("ended_us > end_us")
        .groupBy(*_MEMBER, "start_us")
        .agg(f.min("ended_us").alias("ended_us"))
    )
    intervals = starts.join(first_end, [*_MEMBER, "start_us"], "left").withColumns(
        {
            "from_us": f.col("start_us"),
            "until_us": f.least("after.start_us", "ended_us"),
            "is_continued": f.expr(
                "coalesce(after.joined_consumer_group and (ended_us is null"
                " or after.start_us <= ended_us), false)"
            ),
            "classic_generation": f.expr(
                "case when not before.joined_consumer_group then before.generation end"
            ),
            "is_new_member": f.col("was_new") & f.col("before").isNull(),
        }
    )
    return CLASSIC_INTERVALS.shape(intervals)


def _times_without_epochs(membership_requests: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return when groups lost their last member with an epoch: (group_id, ended_us)."""
    accepted = (
        membership_requests.where((f.col("protocol") != CLASSIC) & (f.col("member_id") != ""))
        .where((f.col("error") == ErrorCode.NONE) | ends_membership())
        .withColumn("seen_us", f.coalesce("end_us", "start_us"))
    )
    by_member = Window.partitionBy(*_MEMBER).orderBy(*_TIME_ORDER)
    from_current_on = by_member.rowsBetween(0, Window.unboundedFollowing)
    ended_us = f.min(f.when(ends_membership(), f.col("seen_us"))).over(from_current_on)
    present = accepted.withColumn(
        "until_us", f.least(ended_us, f.col("last_end_us") + session_timeout_ms * 1000)
    )
    order = ("start_us", "until_us")
    return (
        present.withColumns(
            {
                "ended_us": f.max("until_us").over(rows_up_to_current(("group_id",), order)),
                "next_us": f.lead("start_us").over(ordered_rows(("group_id",), order)),
            }
        )
        .where("next_us is null or next_us > ended_us")
        .select("group_id", "ended_us")
    )


def select_within_intervals(
    frame: DataFrame, intervals: DataFrame, *, negated: bool = False
) -> DataFrame:
    """Select the rows of members within their intervals, or all other rows if negated."""
    how = "left_anti" if negated else "left_semi"
    return frame.join(with_interval_member(intervals), f.expr(_IS_WITHIN), how)


def select_with_epochs(
    commits: DataFrame, epochs: DataFrame, intervals: DataFrame | None, *, negated: bool = False
) -> DataFrame:
    """Select the commits of members that had epochs, or all other commits if negated."""
    members = epochs.where(f.col("protocol") != CLASSIC).select(*_MEMBER).distinct()
    if intervals is None:
        is_same_member = f.expr("group_id = interval_group_id and member_id = interval_member_id")
        how = "left_anti" if negated else "left_semi"
        return commits.join(with_interval_member(members), is_same_member, how)
    unlimited = members.withColumns({"from_us": f.lit(0), "until_us": f.lit(None)})
    spans = intervals.select(*unlimited.columns).unionByName(unlimited)
    return select_within_intervals(commits, spans, negated=negated)


def classic_heartbeats(
    membership_requests: DataFrame, intervals: DataFrame, assignments: DataFrame, topics: DataFrame
) -> DataFrame:
    """Return the members' requests within their intervals as heartbeats, as `HEARTBEATS`.

    Two heartbeats are added for each interval: one with the member's partitions at its start, and
    one that leaves at its end, because later requests do not concern its epochs.
    """
    inside = membership_requests.where(f.col("protocol") == CLASSIC).join(
        f.broadcast(with_interval_member(intervals)), f.expr(_IS_WITHIN)
    )
    assigned = _by_assignment(assignments, topics)
    request_epoch = (
        f.when(f.col("action") == LEAVE, LEAVE_EPOCH)
        .when((f.col("action") == JOIN) & f.col("is_new_member"), JOIN_EPOCH)
        .otherwise(f.coalesce("generation", f.lit(JOIN_EPOCH + 1)))
    )
    within = inside.withColumns(
        {"request_epoch": request_epoch, "epoch": f.col("generation")}
    ).join(assigned.withColumnRenamed("given_us", "answered_us"), f.expr(_IS_ANSWERED), "left")
    first_joins = inside.where("joined_consumer_group and start_us = from_us")
    latest = assigned.groupBy("given_in", "given_to", "given_at").agg(
        f.max_by("assigned", "given_us").alias("assigned")
    )
    arrivals = _boundary_heartbeats(
        first_joins.where("classic_generation is not null"),
        "from_us",
        JOIN_EPOCH,
        "classic_generation",
    ).join(latest, f.expr(_IS_GIVEN), "left")
    ended = first_joins.where("until_us is not null and not is_continued")
    departures = _boundary_heartbeats(ended, "until_us", LEAVE_EPOCH, "generation").withColumn(
        "assigned", f.lit(None)
    )
    return union(
        (
            HEARTBEATS.shape(rows.withColumn("owned", f.lit(None)))
            for rows in (within, arrivals, departures)
        ),
    )


_IS_GIVEN: Final = "group_id = given_in and member_id = given_to and epoch = given_at"
_IS_ANSWERED: Final = (
    f"api = '{SYNC_GROUP}' and error = 0 and start_us = answered_us and {_IS_GIVEN}"
)


def _boundary_heartbeats(
    joins: DataFrame, time_column: str, request_epoch: int, epoch: str
) -> DataFrame:
    """Return heartbeats at the start or end of an interval."""
    times = ("start_us", "end_us", "last_start_us", "last_end_us")
    return joins.withColumns(
        {
            **dict.fromkeys(times, f.col(time_column)),
            "request_epoch": f.lit(request_epoch),
            "epoch": f.col(epoch),
        }
    )


def _by_assignment(assignments: DataFrame, topics: DataFrame) -> DataFrame:
    """Return each assignment as one row, with partitions named as in heartbeats."""
    topic_ids = topics.groupBy("topic").agg(f.max("topic_id").alias("topic_id"))
    with_topic_ids = assignments.join(f.broadcast(topic_ids), "topic", "left")
    name = f.concat(f.coalesce("topic_id", "topic"), f.lit("/"), f.col("partition").cast("string"))
    partition_names = f.collect_list(f.when(f.col("topic").isNotNull(), name))
    return with_topic_ids.groupBy(
        f.col("group_id").alias("given_in"),
        f.col("member_id").alias("given_to"),
        f.col("generation").alias("given_at"),
        f.col("earliest_us").alias("given_us"),
    ).agg(f.when(f.bool_and("is_decoded"), partition_names).alias("assigned"))
