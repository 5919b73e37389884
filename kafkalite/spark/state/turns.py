"""Members of the classic protocol in groups of members with epochs, while these change over.

A coordinator that moves a group from one protocol to the other (KIP-848) keeps its members. To
those that still speak the classic one it gives their epochs as generations, and answers their
JoinGroup without a leader: that is how a turn of theirs is known. It lasts until they join a
group that has one again, or nobody with an epoch is left in theirs.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.heartbeats import HEARTBEATS, JOINS, LEAVES
from kafkalite.spark.state.order import in_order, until_now
from kafkalite.spark.state.signs import CLASSIC, JOIN, JOIN_GROUP, LEAVE, SYNC_GROUP, is_over
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from kafkalite.spark.requests import Requests

TURNS = table(
    "classic_turns",
    "A time for which a member of the classic protocol had an epoch: its group was of such",
    ("in_group", "string", "the group"),
    ("of_member", "string", "the member"),
    ("from_us", "bigint", "when it asked to join: microseconds since the Unix epoch"),
    ("until_us", "bigint", "when it asked to join again, or had an epoch no more; null for never"),
    ("goes_on", "boolean", "whether it had an epoch then, too"),
    ("came_with", "int", "the generation of the classic group it was in before, if it was in one"),
    ("is_new", "boolean", "whether it was no member before"),
)

_MEMBER: Final = ("group_id", "member_id")
_IN_TURN: Final = ("heard_us", "start_us", "position")
_IS_WITHIN: Final = (
    "group_id = in_group and member_id = of_member and start_us >= from_us"
    " and (until_us is null or start_us < until_us)"
)


def may_change_over(requests: Requests) -> bool:
    """Whether a group may have spoken both protocols."""
    return "JoinGroup" in requests and "ConsumerGroupHeartbeat" in requests


def turns(signs: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return the turns that signs of life tell of, as `TURNS`: few, if any."""
    classic = signs.where((f.col("protocol") == CLASSIC) & (f.col("member_id") != ""))
    joins = classic.where(f.col("api") == JOIN_GROUP).withColumn(
        "heard_us", f.coalesce("end_us", "start_us")
    )
    was_new = f.first("asked_member_id").over(until_now(_MEMBER, _IN_TURN)) == ""
    joined = joins.withColumn("was_new", was_new).where(f.col("error") == ErrorCode.NONE)
    beside = f.struct("is_leaderless", "generation", "start_us")
    ordered = in_order(_MEMBER, _IN_TURN)
    begun = joined.withColumns(
        {"before": f.lag(beside).over(ordered), "after": f.lead(beside).over(ordered)}
    ).where("is_leaderless")
    ends = _ends(
        signs.join(f.broadcast(begun.select("group_id").distinct()), "group_id", "semi"),
        session_timeout_ms,
    )
    first_end = (
        begun.select(*_MEMBER, "start_us", "end_us")
        .join(ends, "group_id")
        .where("ended_us > end_us")
        .groupBy(*_MEMBER, "start_us")
        .agg(f.min("ended_us").alias("ended_us"))
    )
    found = begun.join(first_end, [*_MEMBER, "start_us"], "left").withColumns(
        {
            "in_group": f.col("group_id"),
            "of_member": f.col("member_id"),
            "from_us": f.col("start_us"),
            "until_us": f.least("after.start_us", "ended_us"),
            "goes_on": f.expr(
                "coalesce(after.is_leaderless and (ended_us is null"
                " or after.start_us <= ended_us), false)"
            ),
            "came_with": f.expr("case when not before.is_leaderless then before.generation end"),
            "is_new": f.col("was_new") & f.col("before").isNull(),
        }
    )
    return TURNS.shape(found)


def _ends(signs: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return when no member with an epoch was left in a group: (group, when)."""
    heard = (
        signs.where((f.col("protocol") != CLASSIC) & (f.col("member_id") != ""))
        .where((f.col("error") == ErrorCode.NONE) | is_over())
        .withColumn("heard_us", f.coalesce("end_us", "start_us"))
    )
    to_come = Window.partitionBy(*_MEMBER).orderBy(*_IN_TURN).rowsBetween(0, _UNBOUNDED)
    over = f.min(f.when(is_over(), f.col("heard_us"))).over(to_come)
    present = heard.withColumn(
        "until_us", f.least(over, f.col("lasts_us") + session_timeout_ms * 1000)
    )
    order = ("start_us", "until_us")
    return (
        present.withColumns(
            {
                "ended_us": f.max("until_us").over(until_now(("group_id",), order)),
                "next_us": f.lead("start_us").over(in_order(("group_id",), order)),
            }
        )
        .where("next_us is null or next_us > ended_us")
        .select("group_id", "ended_us")
    )


_UNBOUNDED: Final = Window.unboundedFollowing


def within_turns(frame: DataFrame, turns_: DataFrame, *, negated: bool = False) -> DataFrame:
    """Return what members did within their turns; or, negated, all else."""
    how = "left_anti" if negated else "left_semi"
    return frame.join(turns_, f.expr(_IS_WITHIN), how)


def with_epochs(
    commits: DataFrame, epochs: DataFrame, turns_: DataFrame | None, *, negated: bool = False
) -> DataFrame:
    """Return the commits of members that had epochs then; or, negated, all others."""
    members = (
        epochs.where(f.col("protocol") != CLASSIC)
        .select(f.col("group_id").alias("in_group"), f.col("member_id").alias("of_member"))
        .distinct()
    )
    if turns_ is None:
        is_its = f.expr("group_id = in_group and member_id = of_member")
        return commits.join(members, is_its, "left_anti" if negated else "left_semi")
    always = members.withColumns({"from_us": f.lit(0), "until_us": f.lit(None)})
    spans = turns_.select(*always.columns).unionByName(always)
    return within_turns(commits, spans, negated=negated)


def classic_beats(
    signs: DataFrame, turns_: DataFrame, assignments: DataFrame, topics: DataFrame
) -> DataFrame:
    """Return what members did within their turns, as if by heartbeats: `HEARTBEATS`.

    Two are made up for each turn: one that tells what a member had when it began, and one that
    leaves when it is over, for what comes then is no matter of its epochs.
    """
    inside = signs.where(f.col("protocol") == CLASSIC).join(f.broadcast(turns_), f.expr(_IS_WITHIN))
    given = _given(assignments, topics)
    asked = (
        f.when(f.col("sign") == LEAVE, LEAVES)
        .when((f.col("sign") == JOIN) & f.col("is_new"), JOINS)
        .otherwise(f.coalesce("generation", f.lit(JOINS + 1)))
    )
    told = inside.withColumns({"asked_epoch": asked, "epoch": f.col("generation")}).join(
        given.withColumnRenamed("given_us", "answered_us"), f.expr(_IS_ANSWERED), "left"
    )
    edges = inside.where("is_leaderless and start_us = from_us")
    latest = given.groupBy("given_in", "given_to", "given_at").agg(
        f.max_by("assigned", "given_us").alias("assigned")
    )
    came = _at_edge(edges.where("came_with is not null"), "from_us", JOINS, "came_with").join(
        latest, f.expr(_IS_GIVEN), "left"
    )
    over = edges.where("until_us is not null and not goes_on")
    went = _at_edge(over, "until_us", LEAVES, "generation").withColumn("assigned", f.lit(None))
    return reduce(
        DataFrame.unionByName,
        (HEARTBEATS.shape(each.withColumn("owned", f.lit(None))) for each in (told, came, went)),
    )


_IS_GIVEN: Final = "group_id = given_in and member_id = given_to and epoch = given_at"
_IS_ANSWERED: Final = (
    f"api = '{SYNC_GROUP}' and error = 0 and start_us = answered_us and {_IS_GIVEN}"
)


def _at_edge(joins: DataFrame, moment: str, asked_epoch: int, epoch: str) -> DataFrame:
    """Return heartbeats at one moment of a turn, all of it at that moment."""
    times = ("start_us", "end_us", "last_start_us", "lasts_us")
    return joins.withColumns(
        {
            **dict.fromkeys(times, f.col(moment)),
            "asked_epoch": f.lit(asked_epoch),
            "epoch": f.col(epoch),
        }
    )


def _given(assignments: DataFrame, topics: DataFrame) -> DataFrame:
    """Return what members were given at once, each partition named as heartbeats name it."""
    ids = topics.groupBy("topic").agg(f.max("topic_id").alias("topic_id"))
    named = assignments.join(f.broadcast(ids), "topic", "left")
    name = f.concat(f.coalesce("topic_id", "topic"), f.lit("/"), f.col("partition").cast("string"))
    parts = f.collect_list(f.when(f.col("topic").isNotNull(), name))
    return named.groupBy(
        f.col("group_id").alias("given_in"),
        f.col("member_id").alias("given_to"),
        f.col("generation").alias("given_at"),
        f.col("begin_us").alias("given_us"),
    ).agg(f.when(f.bool_and("is_read"), parts).alias("assigned"))
