"""The audits of captured traffic, and the state tables that they share.

Each audit is a pure function of requests and of state that is rebuilt from them. Each table
describes its columns. The audits answer questions that KIPs raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.audits.classic import (
    BY_GENERATION,
    COMMIT_COUNTS,
    classify_by_generation,
    compare_with_generations,
    count_commits,
    is_plain_commit,
)
from kafkalite.lab.spark.audits.commit_checks import BY_EPOCH, CLASSIFIED
from kafkalite.lab.spark.audits.commit_triage import (
    TRIAGED,
    commits_to_check,
    counted_commits,
    triage_commits,
)
from kafkalite.lab.spark.audits.contract import ALL_APIS, Audit, AuditOptions, State
from kafkalite.lab.spark.audits.fencing import (
    CURRENT_COMMIT_COUNTS,
    FENCING,
    classify_commits,
    count_plain_commits,
)
from kafkalite.lab.spark.audits.health import HEALTH
from kafkalite.lab.spark.audits.members import (
    GHOSTS,
    MEMBERS,
    find_ghosts,
    member_commit_reductions,
    member_commits,
)
from kafkalite.lab.spark.audits.metadata import METADATA
from kafkalite.lab.spark.audits.offsets import EXPIRY_CANDIDATES, OFFSETS, expiry_candidates
from kafkalite.lab.spark.audits.producers import PRODUCERS
from kafkalite.lab.spark.audits.proofs import with_proofs
from kafkalite.lab.spark.audits.records import RECORDS
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.accepted_offsets import (
    ACCEPTED_OFFSETS,
    accepted_offset_reductions,
    accepted_offsets,
)
from kafkalite.lab.spark.state.assignments import ASSIGNMENTS, assignments
from kafkalite.lab.spark.state.checked_records import CHECKED_RECORDS, checked_records
from kafkalite.lab.spark.state.commits import COMMIT_APIS
from kafkalite.lab.spark.state.connect import CONFIGURATIONS, configurations
from kafkalite.lab.spark.state.epochs import EPOCHS, steps
from kafkalite.lab.spark.state.generations import GENERATIONS, generations
from kafkalite.lab.spark.state.heartbeats import (
    HEARTBEAT_APIS,
    HEARTBEATS,
    RUNS,
    distinct_heartbeats,
    heartbeat_reductions,
    heartbeat_runs,
)
from kafkalite.lab.spark.state.liveness import (
    CLASSIC_APIS,
    MEMBER_COMMITS,
    MEMBERSHIP_REQUESTS,
    distinct_membership_requests,
)
from kafkalite.lab.spark.state.partition_epochs import PARTITION_EPOCHS, partition_epochs
from kafkalite.lab.spark.state.partition_ownership import OWNED_PARTITIONS, owned_partitions
from kafkalite.lab.spark.state.partition_sums import (
    PARTITION_SUMS,
    partition_sum_reductions,
    partition_sums,
)
from kafkalite.lab.spark.state.pieces import piece_reductions
from kafkalite.lab.spark.state.producing import WRITES, transactional_produce, writes
from kafkalite.lab.spark.state.protocol_changes import (
    CLASSIC_INTERVALS,
    classic_heartbeats,
    classic_intervals,
    may_migrate,
    select_with_epochs,
    select_within_intervals,
)
from kafkalite.lab.spark.state.request_sums import (
    REQUEST_SUMS,
    request_sum_reductions,
    request_sums,
)
from kafkalite.lab.spark.state.subscriptions import (
    SUBSCRIPTIONS,
    heartbeats_with_subscription,
    subscriptions,
)
from kafkalite.lab.spark.state.time_range import TIME_RANGE, TIME_RANGES, time_range
from kafkalite.lab.spark.state.topics import TASKS, TOPIC_APIS, TOPICS, tasks, topics
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests
    from kafkalite.lab.spark.stages.projection import Projection
    from kafkalite.lab.spark.state.tables import Table

__all__ = ["AUDITS", "STATES", "TABLES", "AuditOptions", "reductions"]


def _owned_partitions(requests: Requests) -> DataFrame:
    return owned_partitions(
        requests.state("epochs"), requests.state("topics"), requests.state("tasks")
    )


def _accepted_offsets(requests: Requests, options: AuditOptions) -> DataFrame:
    # A bucket is at most as long as the retention, so that no offset expires within a bucket.
    bucket_us = _offset_bucket_ms(options) * 1000
    return accepted_offsets(requests, requests.state(TOPICS.name), bucket_us)


def _offset_bucket_ms(options: AuditOptions) -> int:
    return max(1, min(options.bucket_ms, options.retention_ms))


def _membership_requests(requests: Requests, options: AuditOptions) -> DataFrame:
    return distinct_membership_requests(
        requests, requests.state(HEARTBEATS.name), options.session_timeout_ms
    )


def _classic_intervals(requests: Requests, options: AuditOptions) -> DataFrame:
    if not may_migrate(requests):
        return CLASSIC_INTERVALS.empty(requests.spark)
    return classic_intervals(requests.state(MEMBERSHIP_REQUESTS.name), options.session_timeout_ms)


def _epochs(requests: Requests) -> DataFrame:
    heartbeats = requests.state(HEARTBEATS.name)
    if may_migrate(requests):
        names = (MEMBERSHIP_REQUESTS.name, CLASSIC_INTERVALS.name, ASSIGNMENTS.name, TOPICS.name)
        heartbeats = heartbeats.unionByName(classic_heartbeats(*map(requests.state, names)))
    return steps(heartbeats)


def _generations(requests: Requests) -> DataFrame:
    membership_requests = requests.state(MEMBERSHIP_REQUESTS.name)
    if may_migrate(requests):
        membership_requests = select_within_intervals(
            membership_requests, requests.state(CLASSIC_INTERVALS.name), negated=True
        )
    return generations(membership_requests)


def _select_without_epochs(commits: DataFrame, requests: Requests) -> DataFrame:
    intervals = requests.state(CLASSIC_INTERVALS.name) if may_migrate(requests) else None
    return select_with_epochs(commits, requests.state(EPOCHS.name), intervals, negated=True)


def _subscriptions(requests: Requests, options: AuditOptions) -> DataFrame:
    return subscriptions(
        requests, requests.state(MEMBERSHIP_REQUESTS.name), options.session_timeout_ms
    )


def _classify_by_generation(requests: Requests) -> DataFrame:
    all_generations = requests.state(GENERATIONS.name)
    groups = f.broadcast(all_generations.select("group_id").distinct())
    classic = commits_to_check(requests).join(groups, "group_id", "semi")
    commits = compare_with_generations(_select_without_epochs(classic, requests), all_generations)
    return classify_by_generation(
        commits.where(~is_plain_commit()),
        all_generations,
        requests.state(ASSIGNMENTS.name),
        requests.state(TOPICS.name),
    )


def _count_commits(requests: Requests) -> DataFrame:
    to_check = _select_without_epochs(commits_to_check(requests), requests)
    by_kind = count_commits(
        compare_with_generations(to_check, requests.state(GENERATIONS.name))
    ).unionByName(
        COMMIT_COUNTS.shape(counted_commits(requests).where(f.col("commit_kind") != BY_EPOCH))
    )
    return COMMIT_COUNTS.shape(
        by_kind.groupBy("commit_kind").agg(
            *(f.sum(name).alias(name) for name in ("commits", "refused"))
        )
    )


STATES: Final[Mapping[str, State]] = {
    state.table.name: state
    for state in (
        State(TOPICS, lambda requests, _: topics(requests), apis=TOPIC_APIS),
        State(TASKS, lambda requests, _: tasks(requests), apis={ApiKey.STREAMS_GROUP_HEARTBEAT}),
        State(
            RUNS,
            lambda requests, options: heartbeat_runs(requests, options.session_timeout_ms),
            lambda options: heartbeat_reductions(options.session_timeout_ms),
            apis=HEARTBEAT_APIS,
        ),
        State(
            HEARTBEATS,
            lambda requests, options: distinct_heartbeats(requests, options.session_timeout_ms),
        ),
        State(EPOCHS, lambda requests, _: _epochs(requests)),
        State(OWNED_PARTITIONS, lambda requests, _: _owned_partitions(requests)),
        State(
            MEMBERSHIP_REQUESTS,
            _membership_requests,
            apis=CLASSIC_APIS | {ApiKey.SHARE_GROUP_HEARTBEAT},
        ),
        State(
            MEMBER_COMMITS,
            member_commits,
            member_commit_reductions,
            apis={ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT},
        ),
        State(CLASSIC_INTERVALS, _classic_intervals),
        State(
            SUBSCRIPTIONS,
            _subscriptions,
            lambda _: [heartbeats_with_subscription()],
            apis={ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT},
        ),
        State(GENERATIONS, lambda requests, _: _generations(requests)),
        State(ASSIGNMENTS, lambda requests, _: assignments(requests), apis={ApiKey.SYNC_GROUP}),
        State(TRIAGED, lambda requests, _: triage_commits(requests), apis=COMMIT_APIS),
        State(CURRENT_COMMIT_COUNTS, lambda requests, _: count_plain_commits(requests)),
        State(CLASSIFIED, lambda requests, _: classify_commits(requests)),
        State(BY_GENERATION, lambda requests, _: _classify_by_generation(requests)),
        State(COMMIT_COUNTS, lambda requests, _: _count_commits(requests)),
        State(CONFIGURATIONS, lambda requests, _: configurations(requests), apis={ApiKey.PRODUCE}),
        State(
            ACCEPTED_OFFSETS,
            _accepted_offsets,
            lambda options: accepted_offset_reductions(_offset_bucket_ms(options) * 1000),
            apis=COMMIT_APIS | {ApiKey.END_TXN},
        ),
        State(EXPIRY_CANDIDATES, expiry_candidates),
        State(
            TIME_RANGE,
            lambda requests, _: time_range(requests),
            lambda _: [TIME_RANGES],
            apis=ALL_APIS,
        ),
        State(
            REQUEST_SUMS,
            lambda requests, options: request_sums(requests, options.bucket_ms * 1000),
            lambda options: request_sum_reductions(options.bucket_ms * 1000),
            apis=ALL_APIS,
        ),
        State(
            PARTITION_SUMS,
            lambda requests, options: partition_sums(requests, options.bucket_ms * 1000),
            lambda options: partition_sum_reductions(options.bucket_ms * 1000),
            apis={ApiKey.PRODUCE, ApiKey.FETCH},
        ),
        State(GHOSTS, find_ghosts),
        State(
            WRITES,
            lambda requests, _: writes(requests),
            lambda _: [transactional_produce()],
            apis={
                ApiKey.PRODUCE,
                ApiKey.ADD_PARTITIONS_TO_TXN,
                ApiKey.ADD_OFFSETS_TO_TXN,
                ApiKey.TXN_OFFSET_COMMIT,
                ApiKey.END_TXN,
            },
        ),
        State(
            PARTITION_EPOCHS,
            lambda requests, _: partition_epochs(requests, requests.state(TOPICS.name)),
            apis={ApiKey.METADATA, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH},
        ),
        State(
            CHECKED_RECORDS,
            lambda requests, _: checked_records(requests),
            lambda _: piece_reductions(),
            apis=ALL_APIS,
        ),
    )
}
"""The state tables by name; each is computed once and shared by audits."""

AUDITS: Final[Mapping[str, Audit]] = {
    audit.name: audit for audit in (RECORDS, FENCING, MEMBERS, OFFSETS, METADATA, PRODUCERS, HEALTH)
}
"""The audits by name."""
PERIODIC_AUDITS: Final = tuple(name for name in AUDITS if name != RECORDS.name)
"""The audits of the periods of a stream. What became of a record depends on all requests before."""

TABLES: Final[Mapping[str, Table]] = {
    table.name: with_proofs(table) for audit in AUDITS.values() for table in audit.tables
}
"""Descriptions of the audits' tables as they are written."""


def reductions(audits: Iterable[str], options: AuditOptions) -> tuple[Projection, ...]:
    """Return the projections of requests that audits read, if these depend only on the options."""
    chosen = [AUDITS[name] for name in audits]
    states = dict.fromkeys(name for audit in chosen for name in audit.reduced_states)
    return (
        *(each for name in (TIME_RANGE.name, *states) for each in STATES[name].reductions(options)),
        *{each.name: each for audit in chosen for each in audit.reductions}.values(),
    )
