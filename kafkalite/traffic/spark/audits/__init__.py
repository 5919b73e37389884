"""The audits of captured traffic, and the state tables that they share.

Each audit is a pure function of requests and of state rebuilt from them. Each table describes its
columns. The audits answer questions raised by KIPs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.traffic.spark.audits.classic import (
    BY_GENERATION,
    COUNTS,
    classify_by_generation,
    counts,
    is_plain,
    with_standing,
)
from kafkalite.traffic.spark.audits.commit_checks import BY_EPOCH, CLASSIFIED
from kafkalite.traffic.spark.audits.commit_triage import (
    TRIAGED,
    commits_to_check,
    counted_commits,
    triage_commits,
)
from kafkalite.traffic.spark.audits.contract import Audit, AuditOptions
from kafkalite.traffic.spark.audits.fencing import (
    FENCING,
    PLAIN,
    classify_commits,
    count_plain_commits,
)
from kafkalite.traffic.spark.audits.health import HEALTH
from kafkalite.traffic.spark.audits.members import GHOSTS, MEMBERS, find_ghosts
from kafkalite.traffic.spark.audits.metadata import METADATA
from kafkalite.traffic.spark.audits.offsets import LASTING, OFFSETS, lasting_commits
from kafkalite.traffic.spark.audits.producers import PRODUCERS
from kafkalite.traffic.spark.state.accepted_offsets import ACCEPTED_OFFSETS, accepted_offsets
from kafkalite.traffic.spark.state.assignments import ASSIGNMENTS, assignments
from kafkalite.traffic.spark.state.connect import CONFIGURATIONS, configurations
from kafkalite.traffic.spark.state.epochs import EPOCHS, steps
from kafkalite.traffic.spark.state.generations import GENERATIONS, generations
from kafkalite.traffic.spark.state.heartbeats import (
    HEARTBEATS,
    RUNS,
    distinct_heartbeats,
    heartbeat_runs,
)
from kafkalite.traffic.spark.state.liveness import SIGNS, distinct_signs
from kafkalite.traffic.spark.state.partition_ownership import HOLDINGS, holdings
from kafkalite.traffic.spark.state.protocol_changes import (
    CLASSIC_INTERVALS,
    classic_heartbeats,
    classic_intervals,
    may_migrate,
    with_epochs,
    within_intervals,
)
from kafkalite.traffic.spark.state.subscriptions import SUBSCRIPTIONS, subscriptions
from kafkalite.traffic.spark.state.time_range import EXTENT, extent
from kafkalite.traffic.spark.state.topics import TASKS, TOPICS, tasks, topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from kafkalite.traffic.spark.requests import Requests
    from kafkalite.traffic.spark.state.tables import Table

__all__ = ["AUDITS", "STATES", "STATE_TABLES", "TABLES", "AuditOptions"]


def _held(requests: Requests) -> DataFrame:
    return holdings(requests.state("epochs"), requests.state("topics"), requests.state("tasks"))


def _accepted_offsets(requests: Requests, options: AuditOptions) -> DataFrame:
    # A bucket is at most as long as the retention, so that no offset expires within a bucket.
    grain_ms = max(1, min(options.bucket_ms, options.retention_ms))
    return accepted_offsets(requests, requests.state(TOPICS.name), grain_ms * 1000)


def _signs(requests: Requests, options: AuditOptions) -> DataFrame:
    return distinct_signs(requests, requests.state(HEARTBEATS.name), options.session_timeout_ms)


def _classic_intervals(requests: Requests, options: AuditOptions) -> DataFrame:
    if not may_migrate(requests):
        return CLASSIC_INTERVALS.empty(requests.spark)
    return classic_intervals(requests.state(SIGNS.name), options.session_timeout_ms)


def _epochs(requests: Requests) -> DataFrame:
    heartbeats = requests.state(HEARTBEATS.name)
    if may_migrate(requests):
        names = (SIGNS.name, CLASSIC_INTERVALS.name, ASSIGNMENTS.name, TOPICS.name)
        heartbeats = heartbeats.unionByName(classic_heartbeats(*map(requests.state, names)))
    return steps(heartbeats)


def _generations(requests: Requests) -> DataFrame:
    signs = requests.state(SIGNS.name)
    if may_migrate(requests):
        signs = within_intervals(signs, requests.state(CLASSIC_INTERVALS.name), negated=True)
    return generations(signs)


def _without_epochs(commits: DataFrame, requests: Requests) -> DataFrame:
    intervals = requests.state(CLASSIC_INTERVALS.name) if may_migrate(requests) else None
    return with_epochs(commits, requests.state(EPOCHS.name), intervals, negated=True)


def _subscriptions(requests: Requests, options: AuditOptions) -> DataFrame:
    return subscriptions(requests, requests.state(SIGNS.name), options.session_timeout_ms)


def _by_generation(requests: Requests) -> DataFrame:
    all_generations = requests.state(GENERATIONS.name)
    groups = f.broadcast(all_generations.select("group_id").distinct())
    classic = commits_to_check(requests).join(groups, "group_id", "semi")
    commits = with_standing(_without_epochs(classic, requests), all_generations)
    return classify_by_generation(
        commits.where(~is_plain()),
        all_generations,
        requests.state(ASSIGNMENTS.name),
        requests.state(TOPICS.name),
    )


def _counts(requests: Requests) -> DataFrame:
    to_check = _without_epochs(commits_to_check(requests), requests)
    by_kind = counts(with_standing(to_check, requests.state(GENERATIONS.name))).unionByName(
        COUNTS.shape(counted_commits(requests).where(f.col("fenced_by") != BY_EPOCH))
    )
    return COUNTS.shape(
        by_kind.groupBy("fenced_by").agg(
            *(f.sum(name).alias(name) for name in ("commits", "refused"))
        )
    )


STATES: Final[Mapping[str, Callable[[Requests, AuditOptions], DataFrame]]] = {
    TOPICS.name: lambda requests, _: topics(requests),
    TASKS.name: lambda requests, _: tasks(requests),
    RUNS.name: lambda requests, options: heartbeat_runs(requests, options.session_timeout_ms),
    HEARTBEATS.name: lambda requests, options: distinct_heartbeats(
        requests, options.session_timeout_ms
    ),
    EPOCHS.name: lambda requests, _: _epochs(requests),
    HOLDINGS.name: lambda requests, _: _held(requests),
    SIGNS.name: _signs,
    CLASSIC_INTERVALS.name: _classic_intervals,
    SUBSCRIPTIONS.name: _subscriptions,
    GENERATIONS.name: lambda requests, _: _generations(requests),
    ASSIGNMENTS.name: lambda requests, _: assignments(requests),
    TRIAGED.name: lambda requests, _: triage_commits(requests),
    PLAIN.name: lambda requests, _: count_plain_commits(requests),
    CLASSIFIED.name: lambda requests, _: classify_commits(requests),
    BY_GENERATION.name: lambda requests, _: _by_generation(requests),
    COUNTS.name: lambda requests, _: _counts(requests),
    CONFIGURATIONS.name: lambda requests, _: configurations(requests),
    ACCEPTED_OFFSETS.name: _accepted_offsets,
    LASTING.name: lasting_commits,
    EXTENT.name: lambda requests, _: extent(requests),
    GHOSTS.name: find_ghosts,
}
"""State table → function that computes it; each table is computed once and shared by audits."""

STATE_TABLES: Final[Mapping[str, Table]] = {
    table.name: table
    for table in (
        TOPICS,
        TASKS,
        RUNS,
        HEARTBEATS,
        EPOCHS,
        HOLDINGS,
        SIGNS,
        CLASSIC_INTERVALS,
        SUBSCRIPTIONS,
        GENERATIONS,
        ASSIGNMENTS,
        TRIAGED,
        PLAIN,
        CLASSIFIED,
        BY_GENERATION,
        COUNTS,
        CONFIGURATIONS,
        ACCEPTED_OFFSETS,
        LASTING,
        EXTENT,
        GHOSTS,
    )
}
"""Descriptions of the state tables."""

AUDITS: Final[Mapping[str, Audit]] = {
    audit.name: audit for audit in (FENCING, MEMBERS, OFFSETS, METADATA, PRODUCERS, HEALTH)
}
"""The audits by name."""

TABLES: Final[Mapping[str, Table]] = {
    table.name: table for audit in AUDITS.values() for table in audit.columns
}
"""Descriptions of the audits' tables."""
