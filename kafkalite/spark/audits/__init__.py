"""What captured traffic says about the questions that Kafka's own proposals asked.

Each audit is a pure function of requests and of the states rebuilt from them; each table it
makes says what its columns mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.spark.audits.classic import (
    BY_GENERATION,
    COUNTS,
    counts,
    is_plain,
    judge_by_generation,
    standing,
)
from kafkalite.spark.audits.contract import Audit, AuditOptions
from kafkalite.spark.audits.fencing import FENCING, PLAIN, judged, plain
from kafkalite.spark.audits.health import HEALTH
from kafkalite.spark.audits.judging import BY_EPOCH, JUDGED
from kafkalite.spark.audits.members import GHOSTS, MEMBERS, haunting
from kafkalite.spark.audits.metadata import METADATA
from kafkalite.spark.audits.offsets import LASTING, OFFSETS, lasting_commits
from kafkalite.spark.audits.producers import PRODUCERS
from kafkalite.spark.audits.sifting import SIFTED, counted, in_doubt, sifted
from kafkalite.spark.state.assignments import ASSIGNMENTS, assignments
from kafkalite.spark.state.connect import CONFIGURATIONS, configurations
from kafkalite.spark.state.epochs import EPOCHS, steps
from kafkalite.spark.state.extent import EXTENT, extent
from kafkalite.spark.state.generations import GENERATIONS, generations
from kafkalite.spark.state.heartbeats import HEARTBEATS, RUNS, beats, heartbeat_runs
from kafkalite.spark.state.holdings import HOLDINGS, holdings
from kafkalite.spark.state.signs import SIGNS, telling_signs
from kafkalite.spark.state.subscriptions import SUBSCRIPTIONS, subscriptions
from kafkalite.spark.state.taken import TAKEN, taken
from kafkalite.spark.state.topics import TASKS, TOPICS, tasks, topics
from kafkalite.spark.state.turns import (
    TURNS,
    classic_beats,
    may_change_over,
    turns,
    with_epochs,
    within_turns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests
    from kafkalite.spark.state.tables import Table

__all__ = ["AUDITS", "STATES", "STATE_TABLES", "TABLES", "AuditOptions"]


def _held(requests: Requests) -> DataFrame:
    return holdings(requests.state("epochs"), requests.state("topics"), requests.state("tasks"))


def _taken(requests: Requests, options: AuditOptions) -> DataFrame:
    # Within a grain nothing may expire.
    grain_ms = max(1, min(options.bucket_ms, options.retention_ms))
    return taken(requests, requests.state(TOPICS.name), grain_ms * 1000)


def _signs(requests: Requests, options: AuditOptions) -> DataFrame:
    return telling_signs(requests, requests.state(HEARTBEATS.name), options.session_timeout_ms)


def _turns(requests: Requests, options: AuditOptions) -> DataFrame:
    if not may_change_over(requests):
        return TURNS.empty(requests.spark)
    return turns(requests.state(SIGNS.name), options.session_timeout_ms)


def _epochs(requests: Requests) -> DataFrame:
    told = requests.state(HEARTBEATS.name)
    if may_change_over(requests):
        names = (SIGNS.name, TURNS.name, ASSIGNMENTS.name, TOPICS.name)
        told = told.unionByName(classic_beats(*map(requests.state, names)))
    return steps(told)


def _generations(requests: Requests) -> DataFrame:
    told = requests.state(SIGNS.name)
    if may_change_over(requests):
        told = within_turns(told, requests.state(TURNS.name), negated=True)
    return generations(told)


def _without_epochs(commits: DataFrame, requests: Requests) -> DataFrame:
    turns = requests.state(TURNS.name) if may_change_over(requests) else None
    return with_epochs(commits, requests.state(EPOCHS.name), turns, negated=True)


def _subscriptions(requests: Requests, options: AuditOptions) -> DataFrame:
    return subscriptions(requests, requests.state(SIGNS.name), options.session_timeout_ms)


def _by_generation(requests: Requests) -> DataFrame:
    known = requests.state(GENERATIONS.name)
    groups = f.broadcast(known.select("group_id").distinct())
    classic = in_doubt(requests).join(groups, "group_id", "semi")
    beside = standing(_without_epochs(classic, requests), known)
    return judge_by_generation(
        beside.where(~is_plain()),
        known,
        requests.state(ASSIGNMENTS.name),
        requests.state(TOPICS.name),
    )


def _counts(requests: Requests) -> DataFrame:
    rest = _without_epochs(in_doubt(requests), requests)
    told = counts(standing(rest, requests.state(GENERATIONS.name))).unionByName(
        COUNTS.shape(counted(requests).where(f.col("fenced_by") != BY_EPOCH))
    )
    return COUNTS.shape(
        told.groupBy("fenced_by").agg(*(f.sum(name).alias(name) for name in ("commits", "refused")))
    )


STATES: Final[Mapping[str, Callable[[Requests, AuditOptions], DataFrame]]] = {
    TOPICS.name: lambda requests, _: topics(requests),
    TASKS.name: lambda requests, _: tasks(requests),
    RUNS.name: lambda requests, options: heartbeat_runs(requests, options.session_timeout_ms),
    HEARTBEATS.name: lambda requests, options: beats(requests, options.session_timeout_ms),
    EPOCHS.name: lambda requests, _: _epochs(requests),
    HOLDINGS.name: lambda requests, _: _held(requests),
    SIGNS.name: _signs,
    TURNS.name: _turns,
    SUBSCRIPTIONS.name: _subscriptions,
    GENERATIONS.name: lambda requests, _: _generations(requests),
    ASSIGNMENTS.name: lambda requests, _: assignments(requests),
    SIFTED.name: lambda requests, _: sifted(requests),
    PLAIN.name: lambda requests, _: plain(requests),
    JUDGED.name: lambda requests, _: judged(requests),
    BY_GENERATION.name: lambda requests, _: _by_generation(requests),
    COUNTS.name: lambda requests, _: _counts(requests),
    CONFIGURATIONS.name: lambda requests, _: configurations(requests),
    TAKEN.name: _taken,
    LASTING.name: lasting_commits,
    EXTENT.name: lambda requests, _: extent(requests),
    GHOSTS.name: haunting,
}
"""The states that audits share, each made once."""

STATE_TABLES: Final[Mapping[str, Table]] = {
    each.name: each
    for each in (
        TOPICS,
        TASKS,
        RUNS,
        HEARTBEATS,
        EPOCHS,
        HOLDINGS,
        SIGNS,
        TURNS,
        SUBSCRIPTIONS,
        GENERATIONS,
        ASSIGNMENTS,
        SIFTED,
        PLAIN,
        JUDGED,
        BY_GENERATION,
        COUNTS,
        CONFIGURATIONS,
        TAKEN,
        LASTING,
        EXTENT,
        GHOSTS,
    )
}
"""What the columns of the states say."""

AUDITS: Final[Mapping[str, Audit]] = {
    each.name: each for each in (FENCING, MEMBERS, OFFSETS, METADATA, PRODUCERS, HEALTH)
}
"""Every audit by its name."""

TABLES: Final[Mapping[str, Table]] = {
    table.name: table for audit in AUDITS.values() for table in audit.columns
}
"""What the columns of the audits' tables say."""
