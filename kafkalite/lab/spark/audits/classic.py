"""Offset commits in classic groups, classified by comparing generations.

The coordinator of a classic group compares the commit's generation with the group's. It refuses
commits between the start of a generation and its assignment (SyncGroup). Rules by member epochs do
not apply. A commit at an earlier generation comes from a zombie if its partition has been assigned
to another member since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.audits.commit_checks import (
    CLASSIFIED,
    CURRENT,
    DEPARTED,
    NEVER_ASSIGNED,
    REVOKED,
    STILL_OWNED,
    ZOMBIE,
)
from kafkalite.lab.spark.audits.fencing_rules import ACCEPT, NOT_APPLICABLE, REFUSE, UNDECIDABLE
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.commits import by_partition
from kafkalite.lab.spark.state.tables import Table, table
from kafkalite.lab.spark.state.timing import UNANSWERED_US
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

GENERATION: Final = "generation"

AT_CURRENT_GENERATION: Final = "current"
AT_EARLIER_GENERATION: Final = "earlier"
UNCERTAIN: Final = "uncertain"
SIMPLE: Final = "simple"
UNKNOWN: Final = "unknown"

BY_GENERATION = Table(
    "classified_by_generation",
    "A partition of a commit in a classic group, unless accepted at the group's generation",
    CLASSIFIED.columns,
)

COMMIT_COUNTS = table(
    "commit_counts",
    "Number of commits of one kind; commits of members with epochs are not included",
    ("commit_kind", "string", "generation, simple or unknown, as in fencing_totals"),
    ("commits", "bigint", "number of requests"),
    ("refused", "bigint", "requests of which the broker refused at least one partition"),
)

_FENCING_ERRORS: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
)
_IS_REMOVED_MEMBER: Final = (
    f"error in ({int(ErrorCode.UNKNOWN_MEMBER_ID)}, {int(ErrorCode.FENCED_INSTANCE_ID)})"
)
_KEY: Final = ("connection", "start_us", "position", "topic", "partition")
_END_US: Final = f"coalesce(end_us, start_us + {UNANSWERED_US})"
# Commits in transactions are also accepted before the assignment.
_ASSIGNMENT_DECISION: Final = (
    f"case when is_transactional or g_assigned_latest_us <= start_us then '{ACCEPT}'"
    f" when {_END_US} <= g_assigned_earliest_us then '{REFUSE}' else '{UNDECIDABLE}' end"
)


def compare_with_generations(commits: DataFrame, generations: DataFrame) -> DataFrame:
    """Return commits joined with their group's generation, with two new columns.

    `generation_status`: current if the commit is at the group's generation, earlier if it is at an
    earlier one, else uncertain. It is simple for a commit without a member, and unknown if the
    capture shows no generation of the group.
    `assignment_decision`: refuse if the generation had no assignment yet, undecidable if that is
    uncertain, otherwise accept.
    """
    own_generation = generations.select(
        f.col("group_id").alias("joined_group_id"),
        "generation",
        *(f.col(name).alias(f"g_{name}") for name in generations.columns if name.endswith("_us")),
    )
    first = f.min_by(f.struct("generation", "latest_us"), f.struct("restart_count", "generation"))
    groups = generations.groupBy("group_id").agg(
        first.alias("first"), (f.max("restart_count") == 0).alias("never_restarted")
    )
    is_own = f.expr(
        "group_id = joined_group_id and commit_epoch = generation and start_us >= g_earliest_us"
        " and (g_reused_us is null or start_us < g_reused_us)"
    )
    is_earlier = (
        "g_next_latest_us <= start_us or (generation is null and never_restarted"
        " and commit_epoch < first.generation and first.latest_us <= start_us)"
    )
    is_current = (
        "g_latest_us <= start_us"
        f" and (g_next_earliest_us is null or {_END_US} <= g_next_earliest_us)"
    )
    generation_status = (
        f"case when member_id = '' and commit_epoch < 0 then '{SIMPLE}'"
        f" when first is null then '{UNKNOWN}' when {is_earlier} then '{AT_EARLIER_GENERATION}'"
        f" when {is_current} then '{AT_CURRENT_GENERATION}' else '{UNCERTAIN}' end"
    )
    return (
        commits.join(own_generation, is_own, "left")
        .join(groups, "group_id", "left")
        .withColumns(
            {
                "generation_status": f.expr(generation_status),
                "assignment_decision": f.expr(_ASSIGNMENT_DECISION),
            }
        )
        .drop("joined_group_id", "generation", "first", "never_restarted")
    )


def count_commits(commits: DataFrame) -> DataFrame:
    """Return the number of commits of each kind, as `COMMIT_COUNTS`."""
    kind = f.when(
        f.col("generation_status").isin(SIMPLE, UNKNOWN), f.col("generation_status")
    ).otherwise(GENERATION)
    return COMMIT_COUNTS.shape(
        commits.groupBy(kind.alias("commit_kind")).agg(
            f.count(f.lit(1)).alias("commits"), f.count_if("is_refused").alias("refused")
        )
    )


def is_plain_commit() -> Column:
    """Whether a commit is plain: accepted at its group's generation, so that no check is needed."""
    return f.coalesce(
        f.expr(
            f"generation_status = '{AT_CURRENT_GENERATION}'"
            f" and assignment_decision = '{ACCEPT}' and is_accepted"
        ),
        f.lit(False),
    )


def classify_by_generation(
    commits: DataFrame, generations: DataFrame, assignments: DataFrame, topics: DataFrame
) -> DataFrame:
    """Classify the partitions of members' commits, as `BY_GENERATION`.

    `commits` has no plain commits, which need no check.
    """
    member_commits = commits.where(~f.col("generation_status").isin(SIMPLE, UNKNOWN))
    current = by_partition(
        member_commits.where(f.col("generation_status") != AT_EARLIER_GENERATION), topics
    )
    earlier = by_partition(
        member_commits.where(f.col("generation_status") == AT_EARLIER_GENERATION), topics
    )
    with_assignments = _with_assignments(
        _with_later_generations(earlier, generations, assignments), assignments
    )
    return _to_table(_classify_current(current)).unionByName(
        _to_table(_classify_earlier(with_assignments))
    )


def _with_later_generations(
    earlier: DataFrame, generations: DataFrame, assignments: DataFrame
) -> DataFrame:
    """Add the number of later generations, and how many of their assignments are fully known."""
    completeness = (
        assignments.where("is_from_leader")
        .groupBy("group_id", "generation", "earliest_us")
        .agg(f.bool_and("is_decoded").alias("is_complete"))
        .withColumnRenamed("earliest_us", "assigned_earliest_us")
    )
    with_completeness = generations.join(
        completeness, ["group_id", "generation", "assigned_earliest_us"], "left"
    )
    later = with_completeness.select(
        f.col("group_id").alias("joined_group_id"), f.struct("*").alias("g")
    )
    is_later = f.expr(
        f"group_id = joined_group_id and g.earliest_us < {_END_US} and if(g_latest_us is null,"
        " g.generation > commit_epoch, g.latest_us >= g_latest_us)"
    )
    is_assigned, is_own_generation = "g.assigned_latest_us <= start_us", "g.latest_us = g_latest_us"
    return _aggregate(
        earlier.join(later, is_later, "left"),
        earlier,
        {
            "now": "max_by(g.generation, g.latest_us) filter (where g.latest_us <= start_us)",
            "is_known": f"bool_or({is_own_generation} and g.is_complete)",
            "times": f"count_if({is_assigned} and not {is_own_generation})",
            "times_known": f"count_if({is_assigned} and not {is_own_generation} and g.is_complete)",
            "is_open": (
                f"bool_or(g.assigned_latest_us > start_us and g.assigned_earliest_us < {_END_US})"
            ),
        },
    )


def _with_assignments(earlier: DataFrame, assignments: DataFrame) -> DataFrame:
    """Join each partition with its assignments at the commit's generation and later."""
    assigned = assignments.where("topic is not null").select(
        f.col("group_id").alias("joined_group_id"),
        f.col("topic").alias("of_topic"),
        f.col("partition").alias("of_partition"),
        f.struct("generation", "member_id", "earliest_us", "latest_us").alias("a"),
    )
    is_same_partition = f.expr(
        "group_id = joined_group_id and topic = of_topic and partition = of_partition"
        f" and a.earliest_us < {_END_US} and a.earliest_us >= coalesce(g_assigned_earliest_us, 0)"
    )
    is_own, is_later = "a.member_id = member_id", "a.generation != commit_epoch"
    is_done = "a.latest_us <= start_us"
    return _aggregate(
        earlier.join(assigned, is_same_partition, "left"),
        earlier,
        {
            "was_assigned": f"bool_or({is_own} and not {is_later})",
            "times_retained": f"count(distinct case when {is_own} and {is_later} and {is_done}"
            " then a.generation end)",
            "is_anothers": f"bool_or(not {is_own} and {is_later} and {is_done})",
            "may_be_anothers": f"bool_or(not {is_own} and {is_later})",
        },
    )


def _aggregate(joined: DataFrame, rows: DataFrame, aggregates: Mapping[str, str]) -> DataFrame:
    """Aggregate the rows joined to each partition."""
    other_columns = [name for name in rows.columns if name not in _KEY]
    return (
        joined.groupBy(*_KEY)
        .agg(
            f.first(f.struct(*other_columns)).alias("row"),
            *(f.expr(expression).alias(name) for name, expression in aggregates.items()),
        )
        .select(*_KEY, "row.*", *aggregates)
    )


def _classify_current(commits: DataFrame) -> DataFrame:
    """Classify commits at the group's generation, or at an uncertain one."""
    is_current = f"generation_status = '{AT_CURRENT_GENERATION}'"
    return commits.withColumns(
        {
            "strict_decision": f.expr(
                f"case when {_IS_REMOVED_MEMBER} then '{REFUSE}' when {is_current}"
                f" then assignment_decision"
                f" else '{UNDECIDABLE}' end"
            ),
            "classification": f.expr(
                f"case when {_IS_REMOVED_MEMBER} then '{DEPARTED}'"
                f" when {is_current} then '{CURRENT}'"
                f" else '{UNDECIDABLE}' end"
            ),
            "member_epoch": f.expr(f"case when {is_current} then commit_epoch end"),
        }
    )


def _classify_earlier(commits: DataFrame) -> DataFrame:
    """Classify commits at an earlier generation: all are refused, but some come from no zombie."""
    classification = (
        f"case when was_assigned and is_anothers then '{ZOMBIE}'"
        f" when {_IS_REMOVED_MEMBER} and was_assigned and may_be_anothers then '{UNDECIDABLE}'"
        f" when {_IS_REMOVED_MEMBER} then '{DEPARTED}'"
        f" when was_assigned and (may_be_anothers or is_open) then '{UNDECIDABLE}'"
        f" when was_assigned and times_retained = times then '{STILL_OWNED}'"
        f" when was_assigned and times_known = times then '{REVOKED}'"
        f" when is_known and not coalesce(was_assigned, false) then '{NEVER_ASSIGNED}'"
        f" else '{UNDECIDABLE}' end"
    )
    return commits.withColumns(
        {
            "strict_decision": f.lit(REFUSE),
            "classification": f.expr(classification),
            "member_epoch": f.col("now"),
        }
    )


def _to_table(classified: DataFrame) -> DataFrame:
    broker = (
        f.when(f.col("error") == ErrorCode.NONE, ACCEPT)
        .when(f.col("error").isin(*(int(code) for code in _FENCING_ERRORS)), REFUSE)
        .when(f.col("error").isNotNull(), "other")
    )
    return BY_GENERATION.shape(
        classified.withColumns(
            {
                "at": f.timestamp_micros("start_us"),
                "commit_kind": f.lit(GENERATION),
                "revocation_epoch_decision": f.lit(NOT_APPLICABLE),
                "assignment_epoch_decision": f.lit(NOT_APPLICABLE),
                "assignment_epoch": f.lit(None),
                "broker_decision": broker,
            }
        )
    )
