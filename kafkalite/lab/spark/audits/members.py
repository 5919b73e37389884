"""Members of groups: why they left, for whom rebalances waited, and ghosts (KIP-1082).

A ghost is a member for which no client sends requests.

If the response to a join is lost, the member stays in the group without a client, unless the client
generated the member id: then the retry joins as the same member. A client that stops before it
knows its member id cannot leave. A client may also stop without leaving. All of
these stay in the group until their session times out, and their partitions are not read until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.audits.contract import Audit, AuditOptions
from kafkalite.lab.spark.audits.departures import (
    DEPARTURES,
    MISSED_REBALANCE,
    REBALANCE_WAITS,
    SESSION_TIMEOUT,
    departures,
    membership_ends,
    rebalance_waits,
)
from kafkalite.lab.spark.audits.group_timelines import GROUP_TIMELINES, group_timelines
from kafkalite.lab.spark.dataframes import Window, shared
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.assignments import ASSIGNMENTS, assigned_to_owned_partitions
from kafkalite.lab.spark.state.generations import GENERATIONS
from kafkalite.lab.spark.state.heartbeats import RUNS
from kafkalite.lab.spark.state.liveness import (
    IDENTITY,
    JOIN,
    JOIN_GROUP,
    MEMBER_COMMITS,
    MEMBERSHIP_REQUESTS,
    OFFSET_COMMIT,
    SYNC_GROUP,
    commits_of_members_projection,
    distinct_commits_of_members,
    ends_membership,
    identity,
    shows_member,
    with_member_facts,
)
from kafkalite.lab.spark.state.partition_ownership import OWNED_PARTITIONS
from kafkalite.lab.spark.state.protocol_changes import (
    CLASSIC_INTERVALS,
    may_migrate,
    with_interval_member,
)
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.time_range import TIME_RANGE
from kafkalite.lab.spark.state.windows import ordered_rows, rows_up_to_current
from kafkalite.ports.units import MICROSECONDS_PER_SECOND
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests
    from kafkalite.lab.spark.stages.projection import Projection

LOST_RESPONSE: Final = "lost response"
NO_HEARTBEAT: Final = "no heartbeat"
STOPPED: Final = "stopped"

GHOSTS = table(
    "ghosts",
    "A member without a client, from its last request on",
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member; empty if only the coordinator knows its id"),
    ("protocol", "string", "consumer, streams, share or classic"),
    (
        "kind",
        "string",
        (
            "lost response: the response to its join was lost, and the client had not generated "
            "its id; no heartbeat: it joined and sent nothing else; "
            "stopped: it sent heartbeats, then stopped without leaving"
        ),
    ),
    ("client", "string", "its client: host:port"),
    ("client_id", "string", "the client id"),
    ("last_seen", "timestamp", "time of its last request or response"),
    ("ended_at", "timestamp", "end of its session, or end of the capture"),
    (
        "end_reason",
        "string",
        (
            "session timeout; or missed the rebalance timeout, if the group's next generation "
            "began without it before that"
        ),
    ),
    ("partitions_owned", "bigint", "number of partitions assigned to it"),
    ("partition_seconds_owned", "double", "total time for which no client read these partitions"),
    (
        "partition_seconds_unassigned",
        "double",
        (
            "total time for which partitions that other members had released stayed unassigned; "
            "if a group has several ghosts at that time, each gets an equal share"
        ),
    ),
    (
        "is_avoidable_by_client_generated_id",
        "boolean",
        "whether a client-generated id would have avoided the ghost",
    ),
    times=("ended_at",),
)

TOTALS = table(
    "ghost_totals",
    "Totals of ghosts of one kind",
    ("kind", "string", "as in ghosts"),
    (
        "is_avoidable_by_client_generated_id",
        "boolean",
        "whether client-generated ids would have avoided them",
    ),
    ("ghosts", "bigint", "number of ghosts"),
    ("groups", "bigint", "number of groups"),
    (
        "partition_seconds",
        "double",
        "total time for which partitions were owned by them or unassigned",
    ),
)

_TIME_ORDER: Final = ("end_or_start_us", "start_us", "position")


def members(requests: Requests, options: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    ghost_rows = requests.state(GHOSTS.name)
    ends = shared(
        membership_ends(
            with_commits_of_silent_members(requests, options.session_timeout_ms),
            requests.state(GENERATIONS.name),
            options.session_timeout_ms,
        )
    )
    return {
        GHOSTS.name: ghost_rows,
        TOTALS.name: totals(ghost_rows),
        DEPARTURES.name: departures(ends, ghost_rows),
        REBALANCE_WAITS.name: rebalance_waits(ends),
        GROUP_TIMELINES.name: group_timelines(requests),
    }


def find_ghosts(requests: Requests, options: AuditOptions) -> DataFrame:
    """Return all ghosts of a capture, as `GHOSTS`."""
    owned_partitions = requests.state(OWNED_PARTITIONS.name)
    if SYNC_GROUP in requests:
        assigned, generations = requests.state(ASSIGNMENTS.name), requests.state(GENERATIONS.name)
        classic_intervals = (
            requests.state(CLASSIC_INTERVALS.name) if may_migrate(requests) else None
        )
        owned_partitions = owned_partitions.unionByName(
            classic_owned_partitions(assigned, generations, classic_intervals)
        )
    found = ghosts(
        with_commits_of_silent_members(requests, options.session_timeout_ms),
        owned_partitions,
        requests.state(GENERATIONS.name),
        requests.state(TIME_RANGE.name),
        options.session_timeout_ms,
    )
    return GHOSTS.since(found, options.since_us)


def with_commits_of_silent_members(requests: Requests, session_timeout_ms: int) -> DataFrame:
    """Return the membership requests, and the commits of members without other requests.

    A commit is a sign of life. Few members need it, and a capture may have millions of commits.
    """
    all_requests = requests.state(MEMBERSHIP_REQUESTS.name)
    if OFFSET_COMMIT not in requests:
        return all_requests
    silent = _silences(all_requests, session_timeout_ms).select("group_id", "member_id").distinct()
    commits = requests.state(MEMBER_COMMITS.name).join(
        f.broadcast(silent), ["group_id", "member_id"], "left_semi"
    )
    return all_requests.unionByName(MEMBERSHIP_REQUESTS.shape(commits))


def member_commits(requests: Requests, options: AuditOptions) -> DataFrame:
    """Return the commits of members without repetitions, as `MEMBER_COMMITS`."""
    timeout_ms = options.session_timeout_ms
    if JOIN_GROUP in requests:  # no other request has a session timeout
        shortest = f.min("request.session_timeout_ms").alias("shortest_ms")
        for row in requests.of(JOIN_GROUP).agg(shortest).where("shortest_ms >= 0").collect():
            timeout_ms = min(timeout_ms, row.shortest_ms)
    # The tasks that write requests do not know a shorter timeout.
    name = MEMBER_COMMITS.name if timeout_ms == options.session_timeout_ms else ""
    return distinct_commits_of_members(requests, timeout_ms * 1000, name)


def member_commit_reductions(options: AuditOptions) -> list[Projection]:
    """Return the projection of `member_commits` if no member has a shorter timeout."""
    return [commits_of_members_projection(options.session_timeout_ms * 1000, MEMBER_COMMITS.name)]


def classic_owned_partitions(
    assignments: DataFrame, generations: DataFrame, classic_intervals: DataFrame | None
) -> DataFrame:
    """Return partitions of classic members until their group migrated, as `OWNED_PARTITIONS`."""
    owned_partitions = assigned_to_owned_partitions(assignments, generations)
    if classic_intervals is None:
        return owned_partitions
    migrated = with_interval_member(
        classic_intervals.where("classic_generation is not null")
    ).select(
        "interval_group_id",
        "interval_member_id",
        "classic_generation",
        f.col("from_us").alias("migrated_us"),
    )
    is_same_member = (
        "group_id = interval_group_id and member_id = interval_member_id"
        " and assignment_epoch = classic_generation"
    )
    release = f.struct(
        f.lit(None).cast("int").alias("step"),
        f.col("migrated_us").alias("earliest_us"),
        f.col("migrated_us").alias("latest_us"),
    )
    migrated_before_release = "migrated_us < coalesce(released.earliest_us, migrated_us + 1)"
    return OWNED_PARTITIONS.shape(
        owned_partitions.join(f.broadcast(migrated), f.expr(is_same_member), "left").withColumn(
            "released",
            f.when(f.expr(migrated_before_release), release).otherwise(f.col("released")),
        )
    )


def ghosts(
    membership_requests: DataFrame,
    owned_partitions: DataFrame,
    generations: DataFrame,
    capture_range: DataFrame,
    session_timeout_ms: int,
) -> DataFrame:
    """Return all ghosts, as `GHOSTS`."""
    candidates = _joins_without_response(membership_requests, session_timeout_ms).unionByName(
        _silent_members(membership_requests, session_timeout_ms)
    )
    with_generation = _with_next_generation(candidates, generations).crossJoin(
        f.broadcast(capture_range)
    )
    # The session of a waiting member begins when the next generation does. The capture shows that
    # its response was lost if the rebalance timeout passed without a response.
    begin_us = f.coalesce(f.when(f.col("is_waiting"), f.col("next_generation_us")), "from_us")
    is_over = f.expr(
        "last_us - begin_us >= timeout_us and (not is_waiting or next_generation_us is not null"
        " or last_us - from_us >= coalesce(rebalance_timeout_us, 0))"
    )
    excluded_us = f.when(
        ~f.col("is_waiting") & f.col("instance_id").isNull(), f.col("next_generation_us")
    )
    session_end_us = f.col("begin_us") + f.col("timeout_us")
    ended = (
        with_generation.withColumn("begin_us", begin_us)
        .where(is_over)
        .withColumns(
            {
                "until_us": f.least("next_us", session_end_us, "last_us", excluded_us),
                "end_reason": f.when(excluded_us < session_end_us, MISSED_REBALANCE).otherwise(
                    SESSION_TIMEOUT
                ),
                "ghost": f.struct("group_id", "member_id", "client", "from_us"),
            }
        )
    )
    return GHOSTS.shape(
        _with_unassigned_time(
            _with_owned_partitions(ended, owned_partitions), owned_partitions
        ).withColumns(
            {"last_seen": f.timestamp_micros("from_us"), "ended_at": f.timestamp_micros("until_us")}
        )
    )


_SILENT_COLUMNS: Final = (
    "group_id",
    "member_id",
    "instance_id",
    "protocol",
    "kind",
    "client",
    "client_id",
    "generation",
    "from_us",
    "next_us",
    "timeout_us",
    "rebalance_timeout_us",
    "is_waiting",
    "is_avoidable_by_client_generated_id",
)


def _timeout_us(session_timeout_ms: int) -> Column:
    return f.coalesce("session_timeout_ms", f.lit(session_timeout_ms)) * 1000


def _joins_without_response(membership_requests: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Find joins whose response was lost, so that only the coordinator knows the member id."""
    lost = membership_requests.where(
        (f.col("action") == JOIN) & f.col("end_us").isNull() & f.col("may_leave_ghost")
    )
    return lost.withColumns(
        {
            "kind": f.lit(LOST_RESPONSE),
            "from_us": f.col("start_us"),
            "next_us": f.lit(None).cast("bigint"),
            "timeout_us": _timeout_us(session_timeout_ms),
            "rebalance_timeout_us": f.col("rebalance_timeout_ms") * 1000,
            "is_waiting": f.coalesce(f.col("api") == JOIN_GROUP, f.lit(False)),
            "is_avoidable_by_client_generated_id": f.lit(True),
        }
    ).select(*_SILENT_COLUMNS)


def _silences(membership_requests: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return the last requests before a silence that is longer than the session timeout.

    A group whose coordinator moved to a node that is not captured is not silent.
    """
    has_moved = f.coalesce(f.col("error") == ErrorCode.NOT_COORDINATOR, f.lit(False))
    known = with_member_facts(membership_requests.where(shows_member()))
    of_known_members = known.where(identity() != "").withColumns(
        {"end_or_start_us": f.coalesce("end_us", "start_us"), "identity": identity()}
    )
    up_to_current = rows_up_to_current(IDENTITY, _TIME_ORDER)
    requested_timeout_ms = f.last("session_timeout_ms", ignorenulls=True).over(up_to_current)
    following = f.lead(f.struct("start_us", "was_member")).over(ordered_rows(IDENTITY, _TIME_ORDER))
    return (
        of_known_members.withColumns(
            {
                "session_timeout_ms": requested_timeout_ms,
                "rebalance_timeout_us": f.last("rebalance_timeout_ms", ignorenulls=True).over(
                    up_to_current
                )
                * 1000,
                "timeout_us": f.coalesce(requested_timeout_ms, f.lit(session_timeout_ms)) * 1000,
                "following": following,
                "joined_without_id": f.first("request_member_id").over(up_to_current) == "",
                "other_requests": f.count_if(f.col("action") != JOIN).over(up_to_current),
                # A run may end after later requests of the same member.
                "from_us": f.max("last_end_us").over(up_to_current),
            }
        )
        .withColumn("next_us", f.col("following.start_us"))
        .where(
            ~ends_membership()
            & ~has_moved
            & ~f.coalesce("following.was_member", f.lit(False))
            & (f.col("next_us").isNull() | (f.expr("next_us - from_us > timeout_us")))
        )
    )


def _silent_members(membership_requests: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Find members that sent no further request before their session timed out."""
    joined_only = f.col("other_requests") == 0
    return (
        _silences(membership_requests, session_timeout_ms)
        .withColumns(
            {
                "kind": f.when(joined_only, NO_HEARTBEAT).otherwise(STOPPED),
                "is_waiting": f.coalesce("is_waiting", f.lit(False)),
                "is_avoidable_by_client_generated_id": joined_only & f.col("joined_without_id"),
            }
        )
        .select(*_SILENT_COLUMNS)
    )


def _with_next_generation(candidates: DataFrame, generations: DataFrame) -> DataFrame:
    """Add the start of the group's next generation, null if the capture shows none.

    It has no member that is silent. It answers a member that waits.
    """
    starts = generations.select(
        f.col("group_id").alias("of_group"),
        f.col("generation").alias("later_generation"),
        f.col("latest_us").alias("later_us"),
    )
    is_later = f.expr(
        "group_id = of_group and protocol = 'classic' and later_us >= from_us and"
        " (is_waiting or later_generation > coalesce(generation, -1))"
    )
    key = ("group_id", "member_id", "client", "from_us")
    return (
        candidates.join(starts, is_later, "left")
        .groupBy(*key)
        .agg(
            f.first(f.struct(*(name for name in _SILENT_COLUMNS if name not in key))).alias("row"),
            f.min("later_us").alias("next_generation_us"),
        )
        .select(*key, "row.*", "next_generation_us")
    )


def _with_owned_partitions(ghosts_: DataFrame, owned_partitions: DataFrame) -> DataFrame:
    """Add the number of partitions that each ghost owned.

    `partition_seconds_owned` is the time for which it owned them after its last request.
    """
    with_owned_partitions = ghosts_.alias("g").join(
        owned_partitions.alias("h"),
        f.expr(
            "g.group_id = h.group_id and g.member_id = h.member_id and h.earliest_us <= g.from_us"
            " and (h.released is null or h.released.earliest_us > g.from_us)"
        ),
        "left",
    )
    seconds = (
        f.expr("greatest(0, least(until_us, h.reassigned_latest_us) - from_us)")
        / MICROSECONDS_PER_SECOND
    )
    ghost_columns = [f"g.{name}" for name in ghosts_.columns if name != "ghost"]
    return with_owned_partitions.groupBy("ghost", *ghost_columns).agg(
        f.count("h.partition").alias("partitions_owned"),
        f.coalesce(f.sum(f.when(f.col("h.partition").isNotNull(), seconds)), f.lit(0.0)).alias(
            "partition_seconds_owned"
        ),
    )


def _with_unassigned_time(ghosts_: DataFrame, owned_partitions: DataFrame) -> DataFrame:
    """Add the time for which released partitions stayed unassigned because of ghosts."""
    partition = ("group_id", "topic", "partition")
    next_assignment = f.lead("latest_us").over(ordered_rows(partition, ("earliest_us",)))
    released_partitions = (
        owned_partitions.withColumn("given_us", next_assignment)
        .where("released is not null")
        .alias("h")
    )
    is_overlapping = f.expr(
        "g.group_id = h.group_id and h.released.latest_us < g.until_us"
        " and coalesce(h.given_us, g.last_us) > g.from_us"
    )
    ghost_intervals = ghosts_.select("ghost", "group_id", "from_us", "until_us", "last_us").alias(
        "g"
    )
    gap = f.struct("h.topic", "h.partition", "h.released.latest_us")
    overlap = f.expr(
        "least(coalesce(h.given_us, g.last_us), g.until_us)"
        " - greatest(h.released.latest_us, g.from_us)"
    )
    overlaps = (
        ghost_intervals.join(released_partitions, is_overlapping)
        .select(
            "ghost",
            "g.group_id",
            gap.alias("gap"),
            (overlap / MICROSECONDS_PER_SECOND).alias("seconds"),
        )
        .where("seconds > 0")
    )
    ghost_count = f.count(f.lit(1)).over(Window.partitionBy("group_id", "gap"))
    by_ghost = (
        overlaps.withColumn("seconds", f.col("seconds") / ghost_count)
        .groupBy("ghost")
        .agg(f.sum("seconds").alias("free_seconds"))
    )
    return ghosts_.join(by_ghost, "ghost", "left").withColumn(
        "partition_seconds_unassigned", f.coalesce("free_seconds", f.lit(0.0))
    )


def totals(ghost_rows: DataFrame) -> DataFrame:
    """Return the totals of ghosts of each kind, as `TOTALS`."""
    blocked_seconds = f.col("partition_seconds_owned") + f.col("partition_seconds_unassigned")
    return TOTALS.shape(
        ghost_rows.groupBy("kind", "is_avoidable_by_client_generated_id").agg(
            f.count(f.lit(1)).alias("ghosts"),
            f.count_distinct("group_id").alias("groups"),
            f.sum(blocked_seconds).alias("partition_seconds"),
        )
    )


MEMBERS = Audit(
    "members",
    "why members left their groups, which rebalances waited for them, and ghost members",
    (GHOSTS, TOTALS, DEPARTURES, REBALANCE_WAITS, GROUP_TIMELINES),
    members,
    (RUNS.name, MEMBER_COMMITS.name),
)
"""The audit `members`."""
