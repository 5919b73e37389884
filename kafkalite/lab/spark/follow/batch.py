"""One batch of a followed capture: audits new rows together with the stored state.

The stored state is bounded. It contains the heartbeats that changed something, one merged
membership request per interval between silences, and the rows from which generations of classic
groups are derived. Members without requests for a day are removed from it. A commit is classified
as soon as no request in flight can change the result, and at the latest after a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from kafkalite.lab.spark.audits import STATES
from kafkalite.lab.spark.audits.classic import (
    COMMIT_COUNTS,
    classify_by_generation,
    compare_with_generations,
    count_commits,
    is_plain_commit,
)
from kafkalite.lab.spark.audits.commit_checks import (
    BY_EPOCH,
    CLASSIFIED,
    UNCLASSIFIED,
    classify,
)
from kafkalite.lab.spark.audits.contract import AuditOptions, State
from kafkalite.lab.spark.audits.fencing import CASES, cases
from kafkalite.lab.spark.audits.members import GHOSTS, classic_owned_partitions, ghosts
from kafkalite.lab.spark.audits.proofs import Places, times_in
from kafkalite.lab.spark.follow.proofs import PROVEN_COMMITS, PROVEN_GHOSTS, collect_places
from kafkalite.lab.spark.follow.state import FOREVER
from kafkalite.lab.spark.state.assignments import ASSIGNMENTS
from kafkalite.lab.spark.state.commits import COMMIT_APIS, COMMITS, commits, with_outcomes
from kafkalite.lab.spark.state.epochs import EPOCHS, UNKNOWN, state_changes, steps
from kafkalite.lab.spark.state.generations import GENERATIONS, generations
from kafkalite.lab.spark.state.heartbeats import HEARTBEAT_APIS, HEARTBEATS, heartbeats
from kafkalite.lab.spark.state.liveness import (
    CLASSIC,
    CLASSIC_APIS,
    MEMBERSHIP_APIS,
    MEMBERSHIP_REQUESTS,
    classic_membership_requests,
    commits_of_members,
    distinct_classic_requests,
    ends_membership,
    membership_requests,
)
from kafkalite.lab.spark.state.liveness_runs import merge_into_runs
from kafkalite.lab.spark.state.membership_spans import epoch_intervals, with_is_within
from kafkalite.lab.spark.state.partition_ownership import OWNED_PARTITIONS, owned_partitions
from kafkalite.lab.spark.state.protocol_changes import (
    classic_heartbeats,
    classic_intervals,
    select_with_epochs,
    select_within_intervals,
)
from kafkalite.lab.spark.state.tables import Table, in_memory_table, table
from kafkalite.lab.spark.state.timing import UNANSWERED_US
from kafkalite.lab.spark.state.topics import TASKS, TOPICS
from kafkalite.lab.spark.state.windows import ordered_rows, rows_up_to_current
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    import numpy.typing as npt
    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.follow.state import BatchState
    from kafkalite.lab.spark.requests import Requests

    Times = npt.NDArray[np.int64]

MAX_LISTED: Final = 20
"""Maximum number of findings of a batch that are listed."""
MAX_STEPS: Final = 1_000
"""Maximum number of stored steps per member."""

ENDS = table(
    "transaction_ends",
    "An EndTxn request",
    ("transactional_id", "string", "the transactional id"),
    ("at", "bigint", "time of the request in microseconds since the Unix epoch"),
)
_CLASSIC_REQUESTS = Table(
    "classic_membership_requests",
    "A membership request of the classic protocol, and the identical ones that followed it",
    MEMBERSHIP_REQUESTS.columns,
)

_MEMBER: Final = ("group_id", "member_id")
_ORDER: Final = ("latest_us", "earliest_us", "position")
_READY: Final = "ready_us"
"""The count with the time until which all members' requests had responses."""
_COUNTED: Final = ("commits", "refused")


def _requests_of_members(requests: Requests) -> DataFrame:
    """Return the membership requests, and the commits that show that a member has a client."""
    return membership_requests(requests).unionByName(commits_of_members(requests))


_TOPICS, _TASKS, _ASSIGNMENTS = (STATES[each.name] for each in (TOPICS, TASKS, ASSIGNMENTS))
_HEARTBEATS = State(HEARTBEATS, lambda requests, _: heartbeats(requests), apis=HEARTBEAT_APIS)
_CLASSIC = State(
    _CLASSIC_REQUESTS,
    lambda requests, _: classic_membership_requests(requests),
    apis=CLASSIC_APIS,
)
_MEMBERSHIP = State(
    MEMBERSHIP_REQUESTS,
    lambda requests, _: _requests_of_members(requests),
    apis=MEMBERSHIP_APIS | {ApiKey.OFFSET_COMMIT},
)
_COMMITS = State(COMMITS, lambda requests, _: commits(requests), apis=COMMIT_APIS)
OWN_STATES: Final = (_HEARTBEATS, _CLASSIC, _MEMBERSHIP, _COMMITS)
"""States of a followed capture that have each request, because later requests may repeat it."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings of a batch."""

    cases: tuple[Mapping[str, Any], ...] = ()
    """The first commits that the fencing audit lists, as `PROVEN_COMMITS`."""
    ghosts: tuple[Mapping[str, Any], ...] = ()
    """The first new ghosts, as `PROVEN_GHOSTS`."""


@dataclass(frozen=True, slots=True)
class _Commits:
    """Commits that were classified in a batch, and those that wait for it."""

    classified: pa.Table | None = None
    """As `CLASSIFIED`."""
    waiting_us: Times = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class _Ghosts:
    """New ghosts, and all."""

    new: pa.Table | None
    """The first new ones, as `GHOSTS`; None if the table is unchanged."""
    stored: pa.Table


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits of classification and of stored state."""

    session_timeout_ms: int
    max_delay_us: int
    """Time after which a commit is classified even if requests are still in flight."""
    member_retention_us: int
    """Time without requests after which a member is removed from the stored state."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """State of groups and their members."""

    membership_requests: DataFrame
    epochs: DataFrame
    owned_partitions: DataFrame
    generations: DataFrame
    assignments: DataFrame
    classic_intervals: DataFrame | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, and the state before it."""

    state: BatchState
    limits: TimeLimits
    requests: Requests
    first_us: int
    """Start of the capture."""
    last_us: int
    """End of the capture so far, with this batch."""
    pending_us: Mapping[int, int]

    def run(self, *, is_last: bool) -> Findings:
        """Audit the batch, and store the state that later batches need."""
        names = self._store_names(_TOPICS)
        groups = self._groups(names)
        commits_ = self._classify(groups, names, is_last=is_last)
        ghosts_ = self._ghosts(groups)
        places = self._places(groups, commits_, ghosts_)
        cases = self._write_commits(commits_.classified, places)
        new_ghosts = self._write_ghosts(ghosts_, places)
        if "EndTxn" in self.requests:
            ends = self.requests.of("EndTxn").select(
                "request.transactional_id", f.unix_micros("ts").alias("at")
            )
            self.state.add_findings(ENDS, ends)
        return Findings(cases, new_ghosts)

    def _groups(self, names: DataFrame) -> _Groups:
        """Store the state of groups, except for tables that the batch cannot change."""
        has_heartbeats = self._has_requests(_HEARTBEATS)
        has_classic_requests = self._has_requests(_CLASSIC)
        previous = self.state.previous
        membership_requests_, classic = previous(MEMBERSHIP_REQUESTS), previous(_CLASSIC_REQUESTS)
        generations_, assignments_ = previous(GENERATIONS), previous(ASSIGNMENTS)
        if self._has_requests(_MEMBERSHIP):
            membership_requests_ = self._store(MEMBERSHIP_REQUESTS, self._membership_runs())
        if has_classic_requests:
            classic = self._store(_CLASSIC_REQUESTS, self._needed_classic_requests())
        intervals = self._classic_intervals(membership_requests_, classic)
        if has_classic_requests:
            classic_group_requests = (
                classic
                if intervals is None
                else select_within_intervals(classic, intervals, negated=True)
            )
            generations_ = self._store(GENERATIONS, generations(classic_group_requests))
            assignments_ = self._store(ASSIGNMENTS, self._retained_assignments(classic))
        needed_heartbeats = (
            self._store(HEARTBEATS, self._needed_heartbeats(membership_requests_))
            if has_heartbeats
            else None
        )
        task_topics = self._store_names(_TASKS)
        if needed_heartbeats is None and not (
            self.state.has(HEARTBEATS) and (has_classic_requests or self._has_requests(_TOPICS))
        ):
            epochs, owned_partitions_ = previous(EPOCHS), previous(OWNED_PARTITIONS)
        else:
            heartbeat_rows = (
                previous(HEARTBEATS) if needed_heartbeats is None else needed_heartbeats
            )
            if intervals is not None:
                heartbeat_rows = heartbeat_rows.unionByName(
                    classic_heartbeats(classic, intervals, assignments_, names)
                )
            # Stored, so that later queries are not planned with all sources of these tables.
            epochs = self._store(EPOCHS, steps(heartbeat_rows))
            owned_partitions_ = self._store(
                OWNED_PARTITIONS, owned_partitions(epochs, names, task_topics)
            )
        return _Groups(
            membership_requests_, epochs, owned_partitions_, generations_, assignments_, intervals
        )

    def _membership_runs(self) -> DataFrame:
        return merge_into_runs(
            self._stored_and_new(_MEMBERSHIP),
            self.limits.session_timeout_ms,
            self._retained_since_us,
        )

    def _needed_classic_requests(self) -> DataFrame:
        """Return the membership requests of the classic protocol that generations are derived from.

        While a response is missing, it is unknown whether later requests repeat earlier ones.
        """
        all_requests = self._stored_and_new(_CLASSIC)
        at_us = f.coalesce("end_us", "start_us")
        settled_us = self._ready_us(_CLASSIC.apis) - self.limits.max_delay_us
        settled = distinct_classic_requests(
            all_requests.where(at_us <= settled_us), self.limits.session_timeout_ms
        )
        merged = settled.unionByName(all_requests.where(at_us > settled_us))
        group_rows = ordered_rows(("group_id",), ()).rowsBetween(*_ALL_ROWS)
        of_group = {
            "latest": f.max("generation").over(group_rows),
            "seen_us": f.max("last_end_us").over(group_rows),
        }
        is_recent = f.col("last_end_us") >= self._retained_since_us
        is_needed = is_recent | (f.col("generation") == f.col("latest"))
        return merged.withColumns(of_group).where(
            (f.col("seen_us") >= self._retained_since_us) & is_needed
        )

    def _retained_assignments(self, classic: DataFrame) -> DataFrame:
        """Return the assignments of generations that are still stored."""
        all_assignments = self._stored_and_new(_ASSIGNMENTS)
        remembered = classic.select("group_id", "generation").distinct()
        return all_assignments.join(remembered, ["group_id", "generation"], "left_semi")

    def _classic_intervals(
        self, membership_requests_: DataFrame, classic: DataFrame
    ) -> DataFrame | None:
        """Return the intervals of classic members in consumer groups; None if there can be none."""
        if not (
            self.state.has(_CLASSIC_REQUESTS)
            and (self.state.has(HEARTBEATS) or self._has_requests(_HEARTBEATS))
        ):
            return None
        all_requests = membership_requests_.where(f.col("protocol") != CLASSIC).unionByName(classic)
        return self.state.compute(classic_intervals(all_requests, self.limits.session_timeout_ms))

    def _needed_heartbeats(self, membership_requests_: DataFrame) -> DataFrame:
        """Return the heartbeats that are still needed: those that changed a live member.

        All recent heartbeats are included: while a response may still follow, it is unknown whether
        later heartbeats change something.
        """
        all_heartbeats = self._stored_and_new(_HEARTBEATS)
        settled_us = self._ready_us(_HEARTBEATS.apis) - self.limits.max_delay_us
        latest_us = f.coalesce("end_us", "start_us")
        recent = all_heartbeats.where(latest_us > settled_us)
        changes = state_changes(all_heartbeats).where(latest_us <= settled_us)
        assigned = f.last("assigned", ignorenulls=True).over(rows_up_to_current(_MEMBER, _ORDER))
        latest = ordered_rows(_MEMBER, ()).orderBy(*(f.desc(name) for name in _ORDER))
        counted = changes.withColumns(
            {"rank": f.row_number().over(latest), "last_assigned": assigned}
        )
        # The first stored heartbeat gets the assignment that earlier heartbeats had received.
        is_first = (f.col("rank") == MAX_STEPS) & (f.col("error") == ErrorCode.NONE)
        latest_changes = counted.where(f.col("rank") <= MAX_STEPS).withColumn(
            "assigned", f.when(is_first, f.col("last_assigned")).otherwise(f.col("assigned"))
        )
        live_members = membership_requests_.select(*_MEMBER).distinct()
        return (
            HEARTBEATS.shape(latest_changes)
            .unionByName(HEARTBEATS.shape(recent))
            .join(live_members, [*_MEMBER], "left_semi")
        )

    def _classify(self, groups: _Groups, names: DataFrame, *, is_last: bool) -> _Commits:
        """Classify the commits whose results no later request can change."""
        if not (self.state.has(COMMITS) or self._has_requests(_COMMITS)):
            return _Commits()
        stored = self._stored_and_new(_COMMITS)
        is_due = f.lit(True) if is_last else self._is_due()
        pending = stored.join(f.broadcast(_settled(groups)), "group_id", "left")
        pending = self.state.compute(pending.withColumn("is_due", is_due))
        if not is_last:
            self._store(COMMITS, pending.where(~f.col("is_due")))
        waiting = pending.where(~f.col("is_due")).select("start_us").toArrow()["start_us"]
        due = pending.where("is_due")
        if due.isEmpty():
            return _Commits(waiting_us=_times(waiting))
        classified = CLASSIFIED.shape(self._classify_due(with_outcomes(due), groups, names))
        return _Commits(classified.toArrow(), _times(waiting))

    def _classify_due(self, due: DataFrame, groups: _Groups, names: DataFrame) -> DataFrame:
        """Count the plain commits among those that are due, and return the others classified."""
        epochs = groups.epochs
        with_member_epochs = with_is_within(
            select_with_epochs(due, epochs, groups.classic_intervals), epoch_intervals(epochs)
        )
        without_member_epochs = select_with_epochs(
            due, epochs, groups.classic_intervals, negated=True
        )
        classic_commits = compare_with_generations(without_member_epochs, groups.generations)
        is_plain_ = f.col("is_within") & f.col("is_accepted")
        plain = with_member_epochs.where(is_plain_).select(
            f.lit(BY_EPOCH).alias("commit_kind"),
            f.lit(1).alias("commits"),
            f.lit(0).alias("refused"),
        )
        self._add_counts(count_commits(classic_commits).unionByName(COMMIT_COUNTS.shape(plain)))
        by_epoch = classify(
            COMMITS.shape(with_member_epochs.where(~is_plain_)),
            epochs,
            groups.owned_partitions,
            names,
        )
        by_generation = classify_by_generation(
            classic_commits.where(~is_plain_commit()),
            groups.generations,
            groups.assignments,
            names,
        )
        return by_epoch.where(f.col("classification") != UNCLASSIFIED).unionByName(by_generation)

    def _add_counts(self, counted: DataFrame) -> None:
        """Add commits to the counts."""
        sums = {name: f.sum(name).alias(name) for name in _COUNTED}
        for row in counted.groupBy("commit_kind").agg(*sums.values()).collect():
            self.state.counts.update({f"{row.commit_kind} {name}": row[name] for name in _COUNTED})
        kinds = sorted({name.rpartition(" ")[0] for name in self.state.counts} - {""})
        columns = [[self.state.counts[f"{kind} {name}"] for kind in kinds] for name in _COUNTED]
        self.state.replace_rows(
            COMMIT_COUNTS,
            pa.table([kinds, *columns], [column.name for column in COMMIT_COUNTS.columns]),
        )

    def _is_due(self) -> Column:
        """Whether a commit can be classified now."""
        latest_end_us = f.coalesce(f.col("end_us"), f.col("start_us") + UNANSWERED_US)
        is_overdue = latest_end_us <= self.last_us - self.limits.max_delay_us
        is_settled = f.col("is_settled").isNotNull() & f.col("end_us").isNotNull()
        ready_us = self._ready_us(_HEARTBEATS.apis | _COMMITS.apis)
        return is_overdue | (is_settled & (f.col("end_us") < ready_us))

    def _ghosts(self, groups: _Groups) -> _Ghosts:
        """Store new ghosts, and those of members that are no longer in the stored state."""
        # A member that waits for the response to a JoinGroup is not silent.
        ready_us = self._ready_us(MEMBERSHIP_APIS)
        before_us = self.state.counts[_READY]
        self.state.counts[_READY] = ready_us
        time_range_ = self.state.spark.range(1).select(
            f.lit(self.first_us).alias("first_us"), f.lit(ready_us).alias("last_us")
        )
        old = self.state.previous(GHOSTS)
        silences, until_us = self._silences(groups.membership_requests)
        is_new = silences != self.state.counts[GHOSTS.name]
        self.state.counts[GHOSTS.name] = silences
        if not is_new and until_us < before_us - self.limits.max_delay_us:
            return _Ghosts(None, old.toArrow())
        all_owned_partitions = groups.owned_partitions.unionByName(
            classic_owned_partitions(
                groups.assignments, groups.generations, groups.classic_intervals
            )
        )
        current = ghosts(
            groups.membership_requests,
            all_owned_partitions,
            groups.generations,
            time_range_,
            self.limits.session_timeout_ms,
        )
        last_seen = f.unix_micros("last_seen")
        merged = old.where(last_seen < self._retained_since_us).unionByName(
            GHOSTS.shape(current).where(last_seen >= self._retained_since_us)
        )
        stored = self._store(GHOSTS, merged)
        key = (*_MEMBER, "client", "last_seen")
        new = stored.join(old.select(*key), [*key], "left_anti").orderBy("last_seen")
        return _Ghosts(new.limit(MAX_LISTED + 1).toArrow(), stored.toArrow())

    def _places(self, groups: _Groups, commits_: _Commits, ghosts_: _Ghosts) -> Places:
        """Return the requests that prove findings, and store those that later ones may name."""
        has_findings = commits_.classified is not None or ghosts_.new is not None
        if not (has_findings or self._has_requests(_COMMITS) or self._has_requests(_MEMBERSHIP)):
            return Places(())
        members = groups.membership_requests.select("last_end_us").toArrow()["last_end_us"]
        found = [] if commits_.classified is None else [times_in(CASES.name, commits_.classified)]
        return collect_places(
            self.state,
            self.requests,
            found,
            [_times(members), commits_.waiting_us, times_in(GHOSTS.name, ghosts_.stored)],
        )

    def _write_commits(
        self, classified: pa.Table | None, places: Places
    ) -> tuple[Mapping[str, Any], ...]:
        """Write classified commits with their proofs; return the first that the audit lists."""
        if classified is None:
            return ()
        proven = places.add_to(CASES.name, classified)
        frame = in_memory_table(self.state.spark, proven, PROVEN_COMMITS.schema)
        written = self.state.add_findings(PROVEN_COMMITS, frame)
        if written is None:
            return ()
        first = cases(written).orderBy("start_us").limit(MAX_LISTED + 1)
        return tuple(row.asDict() for row in first.collect())

    def _write_ghosts(self, ghosts_: _Ghosts, places: Places) -> tuple[Mapping[str, Any], ...]:
        """Replace the table of ghosts, with their proofs; return the first new ones."""
        if ghosts_.new is None:
            return ()
        self.state.replace_rows(PROVEN_GHOSTS, places.add_to(GHOSTS.name, ghosts_.stored))
        return tuple(places.add_to(GHOSTS.name, ghosts_.new).to_pylist())

    def _silences(self, membership_requests_: DataFrame) -> tuple[int, int]:
        """Return the number of silences that may be ghosts, and the end of the last one.

        If the number is unchanged and that end has passed, the ghosts are unchanged too.
        """
        timeout_us = f.coalesce("session_timeout_ms", f.lit(self.limits.session_timeout_ms)) * 1000
        seen_us = f.coalesce("end_us", "start_us")
        after = f.lead("start_us").over(ordered_rows(_MEMBER, ("seen_us", "start_us", "position")))
        silences = (
            membership_requests_.where(~ends_membership())
            .withColumns({"seen_us": seen_us, "until_us": seen_us + timeout_us})
            .withColumn("after", after)
            .where((f.col("until_us") <= self.last_us) | f.col("after").isNotNull())
        )
        row = silences.agg(f.count("*").alias("silences"), f.max("until_us").alias("last")).first()
        assert row is not None
        return row.silences, -FOREVER if row.last is None else row.last

    @property
    def _retained_since_us(self) -> int:
        return self.last_us - self.limits.member_retention_us

    def _has_requests(self, state: State) -> bool:
        """Whether the batch has requests that a state reads."""
        return not state.apis.isdisjoint(self.requests.apis())

    def _ready_us(self, apis: AbstractSet[int]) -> int:
        """Return the time until which all requests of these APIs have their responses."""
        return min([self.last_us, *(self.pending_us.get(key, FOREVER) for key in apis)])

    def _stored_and_new(self, state: State) -> DataFrame:
        """Return the stored and the new rows of a state."""
        options = AuditOptions(session_timeout_ms=self.limits.session_timeout_ms)
        new = state.table.shape(state.compute(self.requests, options))
        return self.state.previous(state.table).unionByName(self.state.match_partitions(new))

    def _store(self, table: Table, frame: DataFrame) -> DataFrame:
        return self.state.store(table, frame)

    def _store_names(self, state: State) -> DataFrame:
        """Store a table of names if the batch may have new ones."""
        if not self._has_requests(state):
            return self.state.previous(state.table)
        return self._store(state.table, self._stored_and_new(state).distinct())


def _settled(groups: _Groups) -> DataFrame:
    """Return groups with epochs about whose past state later requests cannot show more.

    Groups with one of these are excluded: a heartbeat without a response, because the next
    heartbeat shows its effect; a topic that is known only by id, because it may still get a name; a
    classic generation, because the response to a join may take long.
    """
    last = groups.epochs.groupBy(*_MEMBER).agg(f.max_by("status", "step").alias("status"))
    unknown = last.where(f.col("status") == UNKNOWN).select("group_id")
    unnamed = groups.owned_partitions.where(~f.col("is_named")).select("group_id")
    excluded = unknown.unionByName(unnamed).unionByName(groups.generations.select("group_id"))
    all_groups = groups.epochs.select("group_id").distinct()
    return all_groups.join(excluded, "group_id", "left_anti").withColumn("is_settled", f.lit(True))


def _times(values: pa.ChunkedArray) -> Times:
    """Return times without nulls."""
    times: Times = np.asarray(pc.drop_null(values), np.int64)
    return times


_ALL_ROWS: Final = (-(2**63), 2**63 - 1)
