"""Commits of classic groups, judged by generation: what their coordinator knew when they came.

A coordinator of a classic group compares generations, and takes no commits while the partitions
of a new one are not handed out. Rules by member epochs do not apply. A commit that is behind is a
zombie's when another member was given its partition since: the assignments tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.audits.judging import (
    CURRENT,
    DEPARTED,
    GIVEN_UP,
    INNOCENT,
    JUDGED,
    NEVER_OWNED,
    ZOMBIE,
)
from kafkalite.spark.audits.verdicts import ACCEPT, NOT_APPLICABLE, REFUSE, UNDECIDABLE
from kafkalite.spark.state.commits import by_partition
from kafkalite.spark.state.spans import UNANSWERED_US
from kafkalite.spark.state.tables import Table, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

GENERATION: Final = "generation"

AT_ITS_OWN: Final = "at its own"
BEHIND: Final = "behind"
UNCERTAIN: Final = "uncertain"
SIMPLE: Final = "simple"
UNKNOWN: Final = "unknown"

BY_GENERATION = Table(
    "judged_by_generation",
    "A partition of a commit in a classic group, unless simply taken at the group's generation",
    JUDGED.columns,
)

COUNTS = table(
    "commit_counts",
    "How many commits there are of one kind, but for those of members with epochs",
    ("fenced_by", "string", "generation, simple or unknown, as in fencing_totals"),
    ("commits", "bigint", "the requests"),
    ("refused", "bigint", "those of which the broker refused a partition"),
)

_REFUSALS: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
)
_OUT: Final = f"error in ({int(ErrorCode.UNKNOWN_MEMBER_ID)}, {int(ErrorCode.FENCED_INSTANCE_ID)})"
_KEY: Final = ("connection", "start_us", "position", "topic", "partition")
_END: Final = f"coalesce(end_us, start_us + {UNANSWERED_US})"


def standing(commits: DataFrame, generations: DataFrame) -> DataFrame:
    """Return commits beside their group's generation: `standing`, and what its phase rules.

    `standing` is at its own, behind, uncertain; simple without a member, unknown for a group that
    nothing is known of. `handing` is accept unless partitions were, or may have been, about to be
    handed out.
    """
    own = generations.select(
        f.col("group_id").alias("in_group"),
        "generation",
        *(f.col(name).alias(f"g_{name}") for name in generations.columns if name.endswith("_us")),
    )
    first = f.min_by(f.struct("generation", "done_us"), f.struct("life", "generation"))
    groups = generations.groupBy("group_id").agg(
        first.alias("first"), (f.max("life") == 0).alias("is_one_life")
    )
    is_own = f.expr(
        "group_id = in_group and commit_epoch = generation and start_us >= g_begin_us"
        " and (g_again_us is null or start_us < g_again_us)"
    )
    is_behind = (
        "g_next_done_us <= start_us or (generation is null and is_one_life"
        " and commit_epoch < first.generation and first.done_us <= start_us)"
    )
    is_here = f"g_done_us <= start_us and (g_next_begin_us is null or {_END} <= g_next_begin_us)"
    where = (
        f"case when member_id = '' and commit_epoch < 0 then '{SIMPLE}'"
        f" when first is null then '{UNKNOWN}' when {is_behind} then '{BEHIND}'"
        f" when {is_here} then '{AT_ITS_OWN}' else '{UNCERTAIN}' end"
    )
    # Offsets of a transaction are taken even while partitions are being handed out.
    handing = (
        f"case when is_transactional or g_assigned_done_us <= start_us then '{ACCEPT}'"
        f" when {_END} <= g_assigned_begin_us then '{REFUSE}' else '{UNDECIDABLE}' end"
    )
    return (
        commits.join(own, is_own, "left")
        .join(groups, "group_id", "left")
        .withColumns({"standing": f.expr(where), "handing": f.expr(handing)})
        .drop("in_group", "generation", "first", "is_one_life")
    )


def counts(standing_: DataFrame) -> DataFrame:
    """Return how many commits there are of each kind, as `COUNTS`."""
    kind = f.when(f.col("standing").isin(SIMPLE, UNKNOWN), f.col("standing")).otherwise(GENERATION)
    return COUNTS.shape(
        standing_.groupBy(kind.alias("fenced_by")).agg(
            f.count(f.lit(1)).alias("commits"), f.count_if("is_refused").alias("refused")
        )
    )


def is_plain() -> Column:
    """Whether there is nothing to say of a commit: it was taken, at its own generation."""
    return f.coalesce(
        f.expr(f"standing = '{AT_ITS_OWN}' and handing = '{ACCEPT}' and is_taken"),
        f.lit(False),
    )


def judge_by_generation(
    standing_: DataFrame, generations: DataFrame, assignments: DataFrame, topics: DataFrame
) -> DataFrame:
    """Return the partitions of members' commits, as `BY_GENERATION`; leave out the plain ones."""
    rest = standing_.where(~f.col("standing").isin(SIMPLE, UNKNOWN))
    here = by_partition(rest.where(f.col("standing") != BEHIND), topics)
    behind = by_partition(rest.where(f.col("standing") == BEHIND), topics)
    since = _beside_assignments(_beside_later(behind, generations, assignments), assignments)
    return _shaped(_judged_here(here)).unionByName(_shaped(_judged_behind(since)))


def _beside_later(behind: DataFrame, generations: DataFrame, assignments: DataFrame) -> DataFrame:
    """Put beside each partition what came after its generation, and whether all of it is known."""
    whole = (
        assignments.where("is_leaders")
        .groupBy("group_id", "generation", "begin_us")
        .agg(f.bool_and("is_read").alias("is_whole"))
        .withColumnRenamed("begin_us", "assigned_begin_us")
    )
    known = generations.join(whole, ["group_id", "generation", "assigned_begin_us"], "left")
    later = known.select(f.col("group_id").alias("in_group"), f.struct("*").alias("g"))
    is_later = f.expr(
        f"group_id = in_group and g.begin_us < {_END} and if(g_done_us is null,"
        " g.generation > commit_epoch, g.done_us >= g_done_us)"
    )
    handed, own = "g.assigned_done_us <= start_us", "g.done_us = g_done_us"
    return _summed(
        behind.join(later, is_later, "left"),
        behind,
        {
            "now": "max_by(g.generation, g.done_us) filter (where g.done_us <= start_us)",
            "is_known": f"bool_or({own} and g.is_whole)",
            "times": f"count_if({handed} and not {own})",
            "times_known": f"count_if({handed} and not {own} and g.is_whole)",
            "is_open": f"bool_or(g.assigned_done_us > start_us and g.assigned_begin_us < {_END})",
        },
    )


def _beside_assignments(behind: DataFrame, assignments: DataFrame) -> DataFrame:
    """Put beside each partition who was given it, at its commit's generation and since."""
    given = assignments.where("topic is not null").select(
        f.col("group_id").alias("in_group"),
        f.col("topic").alias("of_topic"),
        f.col("partition").alias("of_partition"),
        f.struct("generation", "member_id", "begin_us", "done_us").alias("a"),
    )
    is_it = f.expr(
        "group_id = in_group and topic = of_topic and partition = of_partition"
        f" and a.begin_us < {_END} and a.begin_us >= coalesce(g_assigned_begin_us, 0)"
    )
    mine, later = "a.member_id = member_id", "a.generation != commit_epoch"
    done = "a.done_us <= start_us"
    return _summed(
        behind.join(given, is_it, "left"),
        behind,
        {
            "was_its_own": f"bool_or({mine} and not {later})",
            "times_kept": f"count(distinct case when {mine} and {later} and {done}"
            " then a.generation end)",
            "is_anothers": f"bool_or(not {mine} and {later} and {done})",
            "may_be_anothers": f"bool_or(not {mine} and {later})",
        },
    )


def _summed(joined: DataFrame, rows: DataFrame, sums: Mapping[str, str]) -> DataFrame:
    """Sum up what was joined to each row of a partition."""
    rest = [name for name in rows.columns if name not in _KEY]
    return (
        joined.groupBy(*_KEY)
        .agg(
            f.first(f.struct(*rest)).alias("row"),
            *(f.expr(each).alias(name) for name, each in sums.items()),
        )
        .select(*_KEY, "row.*", *sums)
    )


def _judged_here(commits: DataFrame) -> DataFrame:
    """Judge commits at the group's generation, and those of which that is not certain."""
    here = f"standing = '{AT_ITS_OWN}'"
    return commits.withColumns(
        {
            "strict": f.expr(
                f"case when {_OUT} then '{REFUSE}' when {here} then handing"
                f" else '{UNDECIDABLE}' end"
            ),
            "truth": f.expr(
                f"case when {_OUT} then '{DEPARTED}' when {here} then '{CURRENT}'"
                f" else '{UNDECIDABLE}' end"
            ),
            "member_epoch": f.expr(f"case when {here} then commit_epoch end"),
        }
    )


def _judged_behind(commits: DataFrame) -> DataFrame:
    """Judge commits at an earlier generation: all are refused, but not all are of zombies."""
    truth = (
        f"case when {_OUT} then '{DEPARTED}'"
        f" when was_its_own and is_anothers then '{ZOMBIE}'"
        f" when was_its_own and (may_be_anothers or is_open) then '{UNDECIDABLE}'"
        f" when was_its_own and times_kept = times then '{INNOCENT}'"
        f" when was_its_own and times_known = times then '{GIVEN_UP}'"
        f" when is_known and not coalesce(was_its_own, false) then '{NEVER_OWNED}'"
        f" else '{UNDECIDABLE}' end"
    )
    return commits.withColumns(
        {"strict": f.lit(REFUSE), "truth": f.expr(truth), "member_epoch": f.col("now")}
    )


def _shaped(judged: DataFrame) -> DataFrame:
    broker = (
        f.when(f.col("error") == ErrorCode.NONE, ACCEPT)
        .when(f.col("error").isin(*(int(each) for each in _REFUSALS)), REFUSE)
        .when(f.col("error").isNotNull(), "other")
    )
    return BY_GENERATION.shape(
        judged.withColumns(
            {
                "at": f.timestamp_micros("start_us"),
                "fenced_by": f.lit(GENERATION),
                "revocation": f.lit(NOT_APPLICABLE),
                "assignment": f.lit(NOT_APPLICABLE),
                "since_epoch": f.lit(None),
                "broker": broker,
            }
        )
    )
