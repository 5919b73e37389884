"""Each commit beside what its coordinator knew when it came: the work behind the fencing audit.

A commit at its member's present epoch is accepted by every rule, and nearly all are. The others
are taken apart into partitions and looked up among those that the member held, and that others
were given meanwhile. A heartbeat that is under way while a commit is may come before it or
after, unless both use one connection; where the order matters, the verdict is undecidable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.audits.verdicts import ACCEPT, REFUSE, RULE_COLUMNS, UNDECIDABLE, verdict
from kafkalite.spark.state.commits import by_partition
from kafkalite.spark.state.epochs import GONE, KNOWN
from kafkalite.spark.state.order import in_order, until_now
from kafkalite.spark.state.spans import UNANSWERED_US
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CURRENT: Final = "current"
INNOCENT: Final = "innocent"
ZOMBIE: Final = "zombie"
GIVEN_UP: Final = "given up"
NEVER_OWNED: Final = "never its own"
DEPARTED: Final = "departed"
UNJUDGED: Final = "unjudged"

BY_EPOCH: Final = "epoch"

JUDGED = table(
    "judged_commits",
    "A partition that a request commits an offset of, and what each rule says of it",
    ("at", "timestamp", "when the request came"),
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member; empty for one without"),
    ("client", "string", "who sent it: host:port"),
    ("fenced_by", "string", "epoch; generation for a member of a classic group"),
    ("is_transactional", "boolean", "whether it is a TxnOffsetCommit"),
    ("transactional_id", "string", "of a TxnOffsetCommit"),
    ("producer_id", "bigint", "of a TxnOffsetCommit"),
    ("producer_epoch", "smallint", "of a TxnOffsetCommit"),
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("commit_epoch", "int", "the epoch or generation it is made at; -1 for none"),
    ("member_epoch", "int", "the member's, or its group's, at the coordinator; null where unknown"),
    ("since_epoch", "int", "the epoch since which the member holds the partition, if it does"),
    ("strict", "string", "accept, refuse or undecidable by equality of epochs (Kafka 4.0)"),
    ("revocation", "string", "the same by the member's revocation epoch (KAFKA-19779), or n/a"),
    ("assignment", "string", "the same by the partition's assignment epoch (KIP-1251), or n/a"),
    (
        "truth",
        "string",
        (
            "current: at the member's epoch; innocent: behind, but of a partition held ever since; "
            "zombie: another holds it since; given up: nobody else was seen to yet; never its own; "
            "departed: the member was no longer in the group; undecidable: the capture does not "
            "tell; unjudged: of a member without epochs, or of none"
        ),
    ),
    ("error", "smallint", "what the broker answered; null without an answer"),
    ("broker", "string", "accept or refuse as the broker did; other for other errors"),
    ("retention_ms", "bigint", "how long to keep it, where an old client says so; else -1"),
    ("start_us", "bigint", "when the request came: microseconds since the Unix epoch"),
    ("end_us", "bigint", "when its answer went; null without one"),
    ("connection", "bigint", "the connection it came by"),
    ("position", "bigint", "where in its file it stands"),
)

_MEMBER: Final = ("group_id", "member_id")
_REQUEST: Final = ("connection", "start_us", "position")
_END: Final = f"coalesce(end_us, start_us + {UNANSWERED_US})"
_FENCED: Final = (
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


def judge(
    commits: DataFrame, epochs: DataFrame, holdings: DataFrame, topics: DataFrame
) -> DataFrame:
    """Return every partition of every commit with the verdicts on it, as `JUDGED`."""
    rows = by_partition(_beside_their_members(commits, epochs), topics)
    return _judged(_beside_holdings(rows, holdings))


def _beside_their_members(commits: DataFrame, epochs: DataFrame) -> DataFrame:
    """Put beside each commit its member's step when it came, and the one under way if any."""
    step = f.struct(
        "standing",
        "epoch",
        "revocation_epoch",
        "certain_epoch",
        "step",
        "begin_us",
        "connection",
        f.col("assigned").isNotNull().alias("is_assigned_known"),
    )
    ordered = in_order(_MEMBER, ("step",))
    known = epochs.select(
        *_MEMBER,
        f.col("done_us").alias("at_us"),
        f.lit(0).alias("kind"),
        f.struct(
            step.alias("now"),
            f.lead(step).over(ordered).alias("next"),
            f.lead(step, 2).over(ordered).alias("later"),
        ).alias("told"),
    )
    asked = commits.withColumns({"at_us": f.col("start_us"), "kind": f.lit(1)})
    both = asked.unionByName(known, allowMissingColumns=True)
    last = f.last("told", ignorenulls=True).over(until_now(_MEMBER, ("at_us", "kind", "position")))
    found = both.withColumn("told", last).where("kind = 1")
    # One connection's requests are answered one after another: no doubt about their order.
    passed = f.expr("told.next.connection = connection and told.next.begin_us <= start_us")
    return (
        found.withColumns(
            {
                "now": f.when(passed, f.col("told.next")).otherwise(f.col("told.now")),
                "next": f.when(passed, f.col("told.later")).otherwise(f.col("told.next")),
                "later": f.when(passed, f.lit(None)).otherwise(f.col("told.later")),
            }
        )
        .withColumns({"next": _under_way("next"), "later": _under_way("later")})
        .withColumn("is_behind", _is_behind())
        .drop("told", "kind", "at_us")
    )


def _under_way(step: str) -> Column:
    """Return a step if a commit's moment may lie on either side of it."""
    overlaps = f"{step}.connection != connection and {step}.begin_us < {_END}"
    return f.when(f.expr(overlaps), f.col(step))


_IS_MEMBERS: Final = "now is not null and (commit_epoch >= 0 or member_id != '')"


def _is_behind() -> Column:
    """Whether a commit of a member is at another epoch than its own, or may be."""
    return f.expr(
        f"{_IS_MEMBERS} and not"
        f" (now.standing = '{KNOWN}' and commit_epoch = now.epoch"
        f" and (next is null or (next.standing = '{KNOWN}' and commit_epoch = next.epoch)))"
    )


def _beside_holdings(commits: DataFrame, holdings: DataFrame) -> DataFrame:
    """Put beside each partition what its member holds of it, and what others were given."""
    held = holdings.select(
        f.col("group_id").alias("held_in"),
        f.struct(*(each for each in holdings.columns if each != "group_id")).alias("h"),
    )
    # A holding that the capture never names may be of this topic.
    is_it = f.expr(
        "is_behind and c.group_id = held_in and c.partition = h.partition"
        " and (h.topic = c.topic or not h.is_named)"
    )
    joined = commits.alias("c").join(held, is_it, "left").drop("held_in")
    mine = "h.member_id = member_id"
    grip = "struct(h.since_epoch, h.is_since_known, h.is_named)"
    covers = "h.from_step <= {step}.step and (h.released is null or h.released.step > {step}.step)"
    other = "h.member_id != member_id and h.since_epoch > commit_epoch"

    def any_of(condition: str) -> Column:
        return f.coalesce(f.expr(f"bool_or({condition})"), f.lit(False))

    keys = (*_REQUEST, "topic", "partition")
    rest = [each for each in commits.columns if each not in keys]
    return (
        joined.groupBy(*keys)
        .agg(
            f.first(f.struct(*rest)).alias("row"),
            f.expr(f"max(case when {mine} and {covers.format(step='now')} then {grip} end)").alias(
                "held"
            ),
            f.expr(f"max(case when {mine} and {covers.format(step='next')} then {grip} end)").alias(
                "held_next"
            ),
            any_of(mine).alias("was_its_own"),
            any_of(f"{mine} and h.taken_done_us <= start_us").alias("is_out"),
            any_of(f"{mine} and h.taken_begin_us < {_END}").alias("may_be_out"),
            any_of(f"{other} and h.done_us <= start_us").alias("is_reassigned"),
            any_of(f"{other} and h.begin_us < {_END}").alias("may_be_reassigned"),
        )
        .select(*keys, "row.*", "held", "held_next", *_FOUND)
    )


_FOUND: Final = (
    "was_its_own",
    "is_out",
    "may_be_out",
    "is_reassigned",
    "may_be_reassigned",
)


def _judged(commits: DataFrame) -> DataFrame:
    """Judge commits: at its member's own epoch every rule accepts one, unless it is of nobody."""
    out = f"error = {ErrorCode.UNKNOWN_MEMBER_ID.value} or is_out"
    own = f"when not is_behind and error = {ErrorCode.UNKNOWN_MEMBER_ID.value} then"
    rules = {
        column: f.expr(
            f"case when not ({_IS_MEMBERS}) then null"
            f" {own} '{REFUSE}' when not is_behind then '{ACCEPT}'"
            f" when {out} then '{REFUSE}'"
            f" when may_be_out or later is not null then '{UNDECIDABLE}'"
            f" when next is null or {verdict(rule, 'now', 'held')}"
            f" = {verdict(rule, 'next', 'held_next')} then {verdict(rule, 'now', 'held')}"
            f" else '{UNDECIDABLE}' end"
        )
        for rule, column in RULE_COLUMNS.items()
    }
    truth = f.expr(
        f"case when not ({_IS_MEMBERS}) then '{UNJUDGED}'"
        f" {own} '{DEPARTED}' when not is_behind then '{CURRENT}'"
        f" when {out} or now.standing = '{GONE}' then '{DEPARTED}'"
        f" when now.standing != '{KNOWN}' or may_be_out or later is not null"
        f" or (next is not null and (held is null) != (held_next is null))"
        f" or not now.is_assigned_known or (held is not null and not held.is_named)"
        f" then '{UNDECIDABLE}'"
        f" when held is not null and commit_epoch = now.epoch then '{CURRENT}'"
        f" when commit_epoch >= held.since_epoch then '{INNOCENT}'"
        f" when not held.is_since_known then '{UNDECIDABLE}'"
        f" when is_reassigned and was_its_own then '{ZOMBIE}'"
        f" when may_be_reassigned and was_its_own then '{UNDECIDABLE}'"
        f" when was_its_own then '{GIVEN_UP}' else '{NEVER_OWNED}' end"
    )
    return _shaped(
        commits.withColumns(
            {
                **rules,
                "truth": truth,
                "member_epoch": f.col("now.epoch"),
                "since_epoch": f.col("held.since_epoch"),
            }
        )
    )


def _shaped(judged: DataFrame) -> DataFrame:
    broker = (
        f.when(f.col("error") == ErrorCode.NONE, ACCEPT)
        .when(f.col("error").isin(*(int(each) for each in _FENCED)), REFUSE)
        .when(f.col("error").isNotNull(), "other")
    )
    return JUDGED.shape(
        judged.withColumns(
            {
                "broker": broker,
                "at": f.timestamp_micros("start_us"),
                "fenced_by": f.lit(BY_EPOCH),
            }
        )
    )
