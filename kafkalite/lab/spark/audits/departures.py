"""Ends of memberships with their causes, and rebalances that waited for a member.

A member of a classic group leaves by LeaveGroup, or the coordinator removes it: its session times
out, or it does not rejoin within the rebalance timeout. While a client processes records for a
long time, it sends heartbeats, and its session does not end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.groups.session_rules import ENDED_CODES
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.heartbeats import LEAVE_TEMPORARILY_EPOCH
from kafkalite.lab.spark.state.liveness import (
    CLASSIC,
    IDENTITY,
    JOIN_GROUP,
    LEAVE,
    SYNC_GROUP,
    ends_membership,
    identity,
    renews_session,
    shows_member,
    with_member_facts,
)
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import (
    ordered_rows,
    rows_before_current,
    rows_up_to_current,
)
from kafkalite.ports.units import MICROSECONDS_PER_MILLISECOND
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LEFT: Final = "left"
LEFT_TEMPORARILY: Final = "left temporarily"
PROCESSING: Final = "processing exceeded max.poll.interval.ms"
REMOVED: Final = "removed by another client"
MISSED_REBALANCE: Final = "missed the rebalance timeout"
SESSION_TIMEOUT: Final = "session timeout"
FENCED: Final = "fenced by a static member"
UNKNOWN: Final = "unknown"
REJOINED: Final = "rejoined"

_POLL_TIMEOUT_REASON: Final = "consumer poll timeout has expired."
"""The reason in the LeaveGroup of Kafka's Java client when `max.poll.interval.ms` has passed."""
_NOTABLE_WAIT_US: Final = 3_000_000
"""Clients learn of a rebalance by a heartbeat, by default every 3 s."""

DEPARTURES = table(
    "departures",
    "The end of a membership, and its cause",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member; empty if only the coordinator knows its id"),
    ("instance_id", "string", "the instance id of a static member"),
    ("protocol", "string", "consumer, streams, share or classic"),
    ("client", "string", "its client: host:port"),
    ("client_id", "string", "the client id"),
    ("last_seen", "timestamp", "time of its last request or response as a member"),
    ("ended_at", "timestamp", "end of the membership; the latest possible time if it is uncertain"),
    (
        "cause",
        "string",
        (
            "left: it sent LeaveGroup, or a heartbeat that leaves; "
            "left temporarily: a static member sent a heartbeat with epoch -2, and may return "
            "until its session times out; "
            "processing exceeded max.poll.interval.ms: its LeaveGroup gave this reason; "
            "removed by another client: that client sent the LeaveGroup; "
            "missed the rebalance timeout: it sent heartbeats, but no JoinGroup or SyncGroup in "
            "time; "
            "session timeout: no request renewed its session; "
            "fenced by a static member: another client joined with its instance id; "
            "unknown: the capture does not show why the coordinator removed it"
        ),
    ),
    ("leave_reason", "string", "the reason in LeaveGroup"),
    ("silent_ms", "bigint", "time from the last renewal of its session to the end"),
    ("session_timeout_ms", "bigint", "its session timeout"),
    ("rebalance_timeout_ms", "bigint", "its rebalance timeout; null if the capture lacks its join"),
    (
        "asked_to_rejoin_at",
        "timestamp",
        "time of the first REBALANCE_IN_PROGRESS that it received since its last join",
    ),
    times=("ended_at",),
)

REBALANCE_WAITS = table(
    "rebalance_waits",
    "A rebalance of a classic group that waited at least 3 s for a member",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member"),
    ("client", "string", "its client: host:port"),
    ("client_id", "string", "the client id"),
    ("asked_at", "timestamp", "time of the first REBALANCE_IN_PROGRESS that it received"),
    ("until", "timestamp", "time of its next JoinGroup, or end of its membership"),
    ("seconds", "double", "time between the two, for which its client processed records"),
    ("outcome", "string", "rejoined, or the cause of its departure"),
    times=("until",),
)

_ORDER: Final = ("at_us", "start_us", "position")


def membership_ends(
    membership_requests: DataFrame, generations: DataFrame, session_timeout_ms: int
) -> DataFrame:
    """Return the joins of known members, and the requests after which they are no members.

    Each row has the state before it: the last renewal, the timeouts, the first
    REBALANCE_IN_PROGRESS. `cause` is null for joins.
    """
    with_state = _with_state(membership_requests, session_timeout_ms)
    ends = with_state.where(
        f.col("last").isNotNull()
        & ~f.col("last.is_over")
        & (ends_membership() | (f.col("api") == JOIN_GROUP))
    )
    return (
        _with_missed_generation(ends, generations)
        .withColumn("cause", _cause())
        .unionByName(_fenced(membership_requests), allowMissingColumns=True)
    )


def _with_state(membership_requests: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return the requests of known members, each with the state of its member before it."""
    known = with_member_facts(membership_requests.where(shows_member()))
    shown = known.where(identity() != "").withColumns(
        {
            "identity": identity(),
            "at_us": f.coalesce("end_us", "start_us"),
            "renews": f.coalesce(renews_session(), f.lit(False)),
        }
    )
    before, ordered = rows_before_current(IDENTITY, _ORDER), ordered_rows(IDENTITY, _ORDER)
    up_to_current = rows_up_to_current(IDENTITY, _ORDER)
    # A run may end after later requests of the same member.
    shown = shown.withColumn("seen_us", f.max("last_end_us").over(up_to_current))
    is_join = (f.col("api") == JOIN_GROUP) & (f.col("error") == ErrorCode.NONE)
    last = f.struct(
        "client",
        "client_id",
        "member_id",
        "seen_us",
        ends_membership().alias("is_over"),
    )
    joined = shown.withColumns(
        {
            "joins": f.coalesce(f.count_if(is_join).over(before), f.lit(0)),
            "timeout_ms": f.coalesce(
                f.last("session_timeout_ms", ignorenulls=True).over(up_to_current),
                f.lit(session_timeout_ms),
            ),
            "rebalance_timeout_ms": f.last("rebalance_timeout_ms", ignorenulls=True).over(
                up_to_current
            ),
            "renewed_us": f.max(f.when(f.col("renews"), f.col("last_end_us"))).over(before),
            "last": f.lag(last).over(ordered),
            "joined_us": f.max(f.when(is_join, f.col("end_us"))).over(before),
        }
    )
    since_join = rows_before_current((*IDENTITY, "joins"), _ORDER)
    is_asked = f.col("error") == ErrorCode.REBALANCE_IN_PROGRESS
    is_synced = (f.col("api") == SYNC_GROUP) & (f.col("error") == ErrorCode.NONE)
    return joined.withColumns(
        {
            "asked_us": f.min(f.when(is_asked, f.col("end_us"))).over(since_join),
            "has_synced": f.coalesce(f.bool_or(is_synced).over(since_join), f.lit(False)),
        }
    )


def _with_missed_generation(ends: DataFrame, generations: DataFrame) -> DataFrame:
    """Add `missed_us`: when a generation began after the member was asked to rejoin."""
    starts = generations.select(
        f.col("group_id").alias("of_group"), f.col("latest_us").alias("later_us")
    )
    is_later = f.expr("group_id = of_group and later_us > asked_us and later_us <= at_us")
    key = ("group_id", "identity", "at_us", "start_us", "position")
    missed = (
        ends.where("asked_us is not null")
        .select(*key, "asked_us")
        .join(starts, is_later)
        .groupBy(*key)
        .agg(f.min("later_us").alias("missed_us"))
    )
    return ends.join(missed, [*key], "left")


def _cause() -> Column:
    """Return why a membership ended; null for a join."""
    is_ended = f.col("error").isin(*map(int, ENDED_CODES))
    is_others = f.col("client_id") != f.col("last.client_id")
    silent_us = f.col("at_us") - f.col("renewed_us")
    session_end_us = f.col("renewed_us") + f.col("timeout_ms") * MICROSECONDS_PER_MILLISECOND
    rejoin_end_us = f.coalesce(
        "missed_us",
        f.col("asked_us") + f.col("rebalance_timeout_ms") * MICROSECONDS_PER_MILLISECOND,
    )
    # A member that joined must also send SyncGroup within the rebalance timeout.
    is_unsynced = f.expr(
        f"joined_us is not null and not has_synced"
        f" and at_us - joined_us >= rebalance_timeout_ms * {MICROSECONDS_PER_MILLISECOND}"
    )
    is_asked = f.col("asked_us").isNotNull()
    missed = (f.col("protocol") == CLASSIC) & f.col("last.seen_us").isNotNull()
    return f.when(
        f.coalesce(is_ended, f.lit(False)),
        f.when(
            silent_us >= f.col("timeout_ms") * MICROSECONDS_PER_MILLISECOND,
            f.when(
                missed & is_asked & (rejoin_end_us < session_end_us), MISSED_REBALANCE
            ).otherwise(SESSION_TIMEOUT),
        )
        .when(missed & (is_asked | is_unsynced), MISSED_REBALANCE)
        .otherwise(UNKNOWN),
    ).when(
        f.col("action") == LEAVE,
        f.when(f.coalesce(is_others, f.lit(False)), REMOVED)
        .when(f.col("leave_reason") == _POLL_TIMEOUT_REASON, PROCESSING)
        .when(f.col("generation") == LEAVE_TEMPORARILY_EPOCH, LEFT_TEMPORARILY)
        .otherwise(LEFT),
    )


def _fenced(membership_requests: DataFrame) -> DataFrame:
    """Return the first refusal of each member whose instance id another client took."""
    is_fenced = (f.col("error") == ErrorCode.FENCED_INSTANCE_ID) & (f.col("member_id") != "")
    first = f.struct("start_us", "position")
    return (
        membership_requests.where(is_fenced)
        .groupBy("group_id", "member_id")
        .agg(
            *(
                f.min_by(name, first).alias(name)
                for name in ("instance_id", "protocol", "client", "client_id", "action")
            ),
            f.min("start_us").alias("start_us"),
            f.min(f.coalesce("end_us", "start_us")).alias("at_us"),
        )
        .withColumn("cause", f.lit(FENCED))
    )


def departures(ends: DataFrame, ghost_rows: DataFrame) -> DataFrame:
    """Return the ends of memberships, as `DEPARTURES`; a ghost's end has no request."""
    ended_us = f.col("at_us")
    noticed = ends.where("cause is not null").withColumns(
        {
            "member_id": f.coalesce(f.nullif("member_id", f.lit("")), "last.member_id"),
            # An administrator's request does not come from the member's client.
            "client": f.coalesce("last.client", "client"),
            "client_id": f.coalesce("last.client_id", "client_id"),
            "last_seen": f.timestamp_micros(f.coalesce("last.seen_us", "start_us")),
            "ended_at": f.timestamp_micros(ended_us),
            "silent_ms": (ended_us - f.col("renewed_us")).cast("bigint")
            / MICROSECONDS_PER_MILLISECOND,
            "session_timeout_ms": f.col("timeout_ms"),
            "asked_to_rejoin_at": f.timestamp_micros("asked_us"),
        }
    )
    silent_ms = (
        f.unix_micros("ended_at") - f.unix_micros("last_seen")
    ) / MICROSECONDS_PER_MILLISECOND
    unnoticed = ghost_rows.withColumns({"cause": f.col("end_reason"), "silent_ms": silent_ms}).join(
        noticed.select("group_id", "member_id", "last_seen"),
        ["group_id", "member_id", "last_seen"],
        "left_anti",
    )
    missing = {
        column.name: f.lit(None)
        for column in DEPARTURES.columns
        if column.name not in unnoticed.columns
    }
    return DEPARTURES.shape(noticed).unionByName(DEPARTURES.shape(unnoticed.withColumns(missing)))


def rebalance_waits(ends: DataFrame) -> DataFrame:
    """Return the rebalances that waited for a member, as `REBALANCE_WAITS`."""
    # The coordinator had removed the member when the next generation began.
    until_us = f.when(
        f.col("cause") == MISSED_REBALANCE, f.coalesce("missed_us", "at_us")
    ).otherwise(f.col("start_us"))
    waited_us = until_us - f.col("asked_us")
    return REBALANCE_WAITS.shape(
        ends.where((f.col("protocol") == CLASSIC) & (waited_us >= _NOTABLE_WAIT_US)).withColumns(
            {
                "member_id": f.coalesce(f.nullif("member_id", f.lit("")), "last.member_id"),
                "client": f.col("last.client"),
                "client_id": f.col("last.client_id"),
                "asked_at": f.timestamp_micros("asked_us"),
                "until": f.timestamp_micros(until_us),
                "seconds": waited_us / (MICROSECONDS_PER_MILLISECOND * 1_000),
                "outcome": f.coalesce("cause", f.lit(REJOINED)),
            }
        )
    )
