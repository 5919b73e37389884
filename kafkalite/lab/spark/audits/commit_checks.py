"""Compares each commit with the coordinator's state at that time: the core of the fencing audit.

Every rule accepts a commit at its member's current epoch. Nearly all commits are at that epoch. The
others are split into partitions, and compared with the partitions that the member owned and with
those that were assigned to other members meanwhile. The order of a heartbeat and a commit that are
in flight at the same time is unknown unless they share a connection. If the decision depends on
this order, it is undecidable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.audits.fencing_rules import (
    ACCEPT,
    REFUSE,
    RULE_COLUMNS,
    UNDECIDABLE,
    decision_sql,
)
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.commits import by_partition
from kafkalite.lab.spark.state.epochs import KNOWN, NOT_MEMBER
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.timing import UNANSWERED_US
from kafkalite.lab.spark.state.windows import ordered_rows, rows_up_to_current
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CURRENT: Final = "current"
STILL_OWNED: Final = "still owned"
ZOMBIE: Final = "zombie"
REVOKED: Final = "revoked"
NEVER_ASSIGNED: Final = "never assigned"
DEPARTED: Final = "departed"
UNCLASSIFIED: Final = "unclassified"

BY_EPOCH: Final = "epoch"

CLASSIFIED = table(
    "classified_commits",
    "A partition of a commit, and the decision of each rule on it",
    ("at", "timestamp", "time of the request"),
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member; empty without one"),
    ("client", "string", "the client: host:port"),
    ("commit_kind", "string", "epoch; generation for a member of a classic group"),
    ("is_transactional", "boolean", "whether it is a TxnOffsetCommit"),
    ("transactional_id", "string", "of a TxnOffsetCommit, else null"),
    ("producer_id", "bigint", "of a TxnOffsetCommit, else null"),
    ("producer_epoch", "smallint", "of a TxnOffsetCommit, else null"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("commit_epoch", "int", "the member epoch or generation in the request; -1 for none"),
    ("member_epoch", "int", "the epoch or generation at the coordinator; null if unknown"),
    (
        "assignment_epoch",
        "int",
        "the epoch at which the partition was assigned to the member; null if it does not own it",
    ),
    (
        "strict_decision",
        "string",
        "accept, refuse or undecidable: epochs must be equal (Kafka 4.0 to 4.2)",
    ),
    (
        "revocation_epoch_decision",
        "string",
        "the same by the member's revocation epoch (KAFKA-19779), or n/a",
    ),
    (
        "assignment_epoch_decision",
        "string",
        "the same by the partition's assignment epoch (KIP-1251), or n/a",
    ),
    (
        "classification",
        "string",
        (
            "current: at the member's epoch; still owned: at an earlier epoch, but the member has "
            "owned the partition since; zombie: another member owns the partition; revoked: the "
            "partition was revoked, and no other member is known to own it yet; never assigned: "
            "the member never owned the partition; departed: the member had left the group, and "
            "no other member is known to own the partition yet; "
            "undecidable: the capture does not show enough; unclassified: the commit has no "
            "member, or a member without epochs"
        ),
    ),
    ("error", "smallint", "error code of the response; null without a response"),
    ("broker_decision", "string", "accept, refuse, or other for other errors"),
    ("retention_ms", "bigint", "retention time in the request of an old client, else -1"),
    ("start_us", "bigint", "time of the request in microseconds since the Unix epoch"),
    ("end_us", "bigint", "time of the response; null without a response"),
    ("connection", "bigint", "number of the connection"),
    ("position", "bigint", "position of the request in its file"),
)

_MEMBER: Final = ("group_id", "member_id")
_REQUEST: Final = ("connection", "start_us", "position")
_END_US: Final = f"coalesce(end_us, start_us + {UNANSWERED_US})"
_FENCING_ERRORS: Final = (
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


def classify(
    commits: DataFrame, epochs: DataFrame, owned_partitions: DataFrame, topics: DataFrame
) -> DataFrame:
    """Return every partition of every commit with the rules' decisions, as `CLASSIFIED`."""
    rows = by_partition(_with_member_steps(commits, epochs), topics)
    return _classify_rows(_with_owned_partitions(rows, owned_partitions))


def _with_member_steps(commits: DataFrame, epochs: DataFrame) -> DataFrame:
    """Join each commit with its member's step at that time, and with the steps in flight."""
    step = f.struct(
        "status",
        "epoch",
        "revocation_epoch",
        "known_since_epoch",
        "step",
        "earliest_us",
        "connection",
        f.col("assigned").isNotNull().alias("is_assigned_known"),
    )
    ordered = ordered_rows(_MEMBER, ("step",))
    steps = epochs.select(
        *_MEMBER,
        f.col("latest_us").alias("at_us"),
        f.lit(0).alias("kind"),
        f.struct(
            step.alias("now"),
            f.lead(step).over(ordered).alias("next"),
            f.lead(step, 2).over(ordered).alias("later"),
        ).alias("steps"),
    )
    commit_rows = commits.withColumns({"at_us": f.col("start_us"), "kind": f.lit(1)})
    rows = commit_rows.unionByName(steps, allowMissingColumns=True)
    latest_steps = f.last("steps", ignorenulls=True).over(
        rows_up_to_current(_MEMBER, ("at_us", "kind", "position"))
    )
    with_steps = rows.withColumn("steps", latest_steps).where("kind = 1")
    # A broker answers the requests of one connection in order, so their order is certain.
    is_next_before_commit = f.expr(
        "steps.next.connection = connection and steps.next.earliest_us <= start_us"
    )
    return (
        with_steps.withColumns(
            {
                "now": f.when(is_next_before_commit, f.col("steps.next")).otherwise(
                    f.col("steps.now")
                ),
                "next": f.when(is_next_before_commit, f.col("steps.later")).otherwise(
                    f.col("steps.next")
                ),
                "later": f.when(is_next_before_commit, f.lit(None)).otherwise(f.col("steps.later")),
            }
        )
        .withColumns({"next": _if_in_flight("next"), "later": _if_in_flight("later")})
        .withColumn("may_be_at_other_epoch", _may_be_at_other_epoch())
        .drop("steps", "kind", "at_us")
    )


def _if_in_flight(step: str) -> Column:
    """Return a step whose order relative to the commit is unknown; null otherwise."""
    overlaps = f"{step}.connection != connection and {step}.earliest_us < {_END_US}"
    return f.when(f.expr(overlaps), f.col(step))


_IS_FROM_KNOWN_MEMBER: Final = "now is not null and (commit_epoch >= 0 or member_id != '')"


def _may_be_at_other_epoch() -> Column:
    """Whether a member's commit may be at another epoch than the member's."""
    return f.expr(
        f"{_IS_FROM_KNOWN_MEMBER} and not"
        f" (now.status = '{KNOWN}' and commit_epoch = now.epoch"
        f" and (next is null or (next.status = '{KNOWN}' and commit_epoch = next.epoch)))"
    )


def _with_owned_partitions(commits: DataFrame, owned_partitions: DataFrame) -> DataFrame:
    """Join each partition with the times in which its member and other members owned it."""
    candidates = owned_partitions.select(
        f.col("group_id").alias("owned_in"),
        f.struct(*(name for name in owned_partitions.columns if name != "group_id")).alias("h"),
    )
    # If the capture has no name for the topic id of an owned partition, it may be this topic.
    may_be_of_partition = f.expr(
        "may_be_at_other_epoch and c.group_id = owned_in and c.partition = h.partition"
        " and (h.topic = c.topic or not h.is_named)"
    )
    joined = commits.alias("c").join(candidates, may_be_of_partition, "left").drop("owned_in")
    is_own = "h.member_id = member_id"
    ownership = "struct(h.assignment_epoch, h.is_assignment_epoch_known, h.is_named)"
    covers = (
        "h.assigned_step <= {step}.step and (h.released is null or h.released.step > {step}.step)"
    )
    is_of_later_member = "h.member_id != member_id and h.assignment_epoch > commit_epoch"

    def any_of(condition: str) -> Column:
        return f.coalesce(f.expr(f"bool_or({condition})"), f.lit(False))

    keys = (*_REQUEST, "topic", "partition")
    other_columns = [name for name in commits.columns if name not in keys]
    return (
        joined.groupBy(*keys)
        .agg(
            f.first(f.struct(*other_columns)).alias("row"),
            f.expr(
                f"max(case when {is_own} and {covers.format(step='now')} then {ownership} end)"
            ).alias("owned"),
            f.expr(
                f"max(case when {is_own} and {covers.format(step='next')} then {ownership} end)"
            ).alias("owned_next"),
            any_of(is_own).alias("was_assigned"),
            any_of(f"{is_own} and h.reassigned_latest_us <= start_us").alias("was_removed"),
            any_of(f"{is_own} and h.reassigned_earliest_us < {_END_US}").alias(
                "may_have_been_removed"
            ),
            any_of(f"{is_of_later_member} and h.latest_us <= start_us").alias("is_reassigned"),
            any_of(f"{is_of_later_member} and h.earliest_us < {_END_US}").alias(
                "may_be_reassigned"
            ),
        )
        .select(*keys, "row.*", "owned", "owned_next", *_FLAGS)
    )


_FLAGS: Final = (
    "was_assigned",
    "was_removed",
    "may_have_been_removed",
    "is_reassigned",
    "may_be_reassigned",
)


def _classify_rows(commits: DataFrame) -> DataFrame:
    """Add the classification and the decision of each rule.

    A commit at its member's epoch is accepted.
    """
    is_removed = f"error = {ErrorCode.UNKNOWN_MEMBER_ID.value} or was_removed"
    has_departed = f"({is_removed} or now.status = '{NOT_MEMBER}')"
    refusal_case = (
        f"when not may_be_at_other_epoch and error = {ErrorCode.UNKNOWN_MEMBER_ID.value} then"
    )
    rules = {
        column: f.expr(
            f"case when not ({_IS_FROM_KNOWN_MEMBER}) then null"
            f" {refusal_case} '{REFUSE}' when not may_be_at_other_epoch then '{ACCEPT}'"
            f" when {is_removed} then '{REFUSE}'"
            f" when may_have_been_removed or later is not null then '{UNDECIDABLE}'"
            f" when next is null or {decision_sql(rule, 'now', 'owned')}"
            f" = {decision_sql(rule, 'next', 'owned_next')}"
            f" then {decision_sql(rule, 'now', 'owned')}"
            f" else '{UNDECIDABLE}' end"
        )
        for rule, column in RULE_COLUMNS.items()
    }
    classification = f.expr(
        f"case when not ({_IS_FROM_KNOWN_MEMBER}) then '{UNCLASSIFIED}'"
        f" {refusal_case} '{DEPARTED}' when not may_be_at_other_epoch then '{CURRENT}'"
        f" when {has_departed} and is_reassigned and was_assigned then '{ZOMBIE}'"
        f" when {has_departed} and may_be_reassigned and was_assigned then '{UNDECIDABLE}'"
        f" when {has_departed} then '{DEPARTED}'"
        f" when now.status != '{KNOWN}' or may_have_been_removed or later is not null"
        f" or (next is not null and (owned is null) != (owned_next is null))"
        f" or not now.is_assigned_known or (owned is not null and not owned.is_named)"
        f" then '{UNDECIDABLE}'"
        f" when owned is not null and commit_epoch = now.epoch then '{CURRENT}'"
        f" when commit_epoch >= owned.assignment_epoch then '{STILL_OWNED}'"
        f" when not owned.is_assignment_epoch_known then '{UNDECIDABLE}'"
        f" when is_reassigned and was_assigned then '{ZOMBIE}'"
        f" when may_be_reassigned and was_assigned then '{UNDECIDABLE}'"
        f" when was_assigned then '{REVOKED}' else '{NEVER_ASSIGNED}' end"
    )
    return _to_table(
        commits.withColumns(
            {
                **rules,
                "classification": classification,
                "member_epoch": f.col("now.epoch"),
                "assignment_epoch": f.col("owned.assignment_epoch"),
            }
        )
    )


def _to_table(classified: DataFrame) -> DataFrame:
    broker = (
        f.when(f.col("error") == ErrorCode.NONE, ACCEPT)
        .when(f.col("error").isin(*(int(code) for code in _FENCING_ERRORS)), REFUSE)
        .when(f.col("error").isNotNull(), "other")
    )
    return CLASSIFIED.shape(
        classified.withColumns(
            {
                "broker_decision": broker,
                "at": f.timestamp_micros("start_us"),
                "commit_kind": f.lit(BY_EPOCH),
            }
        )
    )
