"""One batch of a followed capture: audits new rows together with the stored state.

The stored state is bounded. It contains the heartbeats that changed something, one merged sign of
life per interval between silences, the rows that generations of classic groups are derived from,
and nothing of members without requests for a day. A commit is classified as soon as no request in
flight can change the result, and after a minute in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as f

from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.traffic.spark.audits.classic import (
    COUNTS,
    classify_by_generation,
    counts,
    is_plain,
    with_standing,
)
from kafkalite.traffic.spark.audits.commit_checks import (
    BY_EPOCH,
    CLASSIFIED,
    UNCLASSIFIED,
    classify,
)
from kafkalite.traffic.spark.audits.fencing import cases
from kafkalite.traffic.spark.audits.members import GHOSTS, classic_holdings, ghosts
from kafkalite.traffic.spark.follow.state import FOREVER
from kafkalite.traffic.spark.state.assignments import ASSIGNMENTS, assignments
from kafkalite.traffic.spark.state.commits import COMMITS, commits, with_outcomes
from kafkalite.traffic.spark.state.epochs import EPOCHS, UNKNOWN, state_changes, steps
from kafkalite.traffic.spark.state.generations import GENERATIONS, generations
from kafkalite.traffic.spark.state.heartbeats import HEARTBEATS, heartbeats
from kafkalite.traffic.spark.state.liveness import (
    CLASSIC,
    SIGNS,
    classic_signs,
    distinct_classic_signs,
    is_over,
    signs,
)
from kafkalite.traffic.spark.state.liveness_runs import runs
from kafkalite.traffic.spark.state.membership_spans import epoch_intervals, within
from kafkalite.traffic.spark.state.partition_ownership import HOLDINGS, holdings
from kafkalite.traffic.spark.state.protocol_changes import (
    classic_heartbeats,
    classic_intervals,
    with_epochs,
    within_intervals,
)
from kafkalite.traffic.spark.state.tables import Table, table
from kafkalite.traffic.spark.state.timing import UNANSWERED_US
from kafkalite.traffic.spark.state.topics import TASKS, TOPICS, tasks, topics
from kafkalite.traffic.spark.state.windows import in_order, until_now

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame, Row

    from kafkalite.traffic.spark.follow.state import BatchState
    from kafkalite.traffic.spark.requests import Requests

SHOWN: Final = 20
"""Findings of a batch that are listed one by one."""
MAX_STEPS: Final = 1_000
"""Stored steps per member."""

ENDS = table(
    "transaction_ends",
    "An EndTxn request",
    ("transactional_id", "string", "the transactional id"),
    ("at", "bigint", "time of the request in microseconds since the Unix epoch"),
)
_CLASSIC_SIGNS = Table(
    "classic_signs",
    "A sign of life of the classic protocol, and the identical ones that followed it",
    SIGNS.columns,
)

_MEMBER: Final = ("group_id", "member_id")
_ORDER: Final = ("done_us", "begin_us", "position")
_END_TXN: Final = ApiKey.END_TXN
_HEARTBEAT_APIS: Final = frozenset(
    {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT}
)
"""Heartbeats of consumer and streams groups."""
_CLASSIC_APIS: Final = frozenset(
    {ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP}
)
"""Requests of members of classic groups."""
_COMMIT_APIS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})
_TOPIC_NAME_APIS: Final = frozenset(
    {ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_TOPIC_PARTITIONS}
)
_COUNTED: Final = ("commits", "refused")


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings of a batch."""

    cases: tuple[Row, ...] = ()
    """The first commits worth listing, as `CLASSIFIED`."""
    ghosts: tuple[Row, ...] = ()
    """The first new ghosts, as `GHOSTS`."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits."""

    session_timeout_ms: int
    patience_us: int
    """A commit is classified at the latest this long after it."""
    remembered_us: int
    """Members without requests for this long are forgotten."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """State of groups and their members."""

    alive: DataFrame
    epochs: DataFrame
    held: DataFrame
    generations: DataFrame
    given: DataFrame
    classic_intervals: DataFrame | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, and the state before it."""

    draft: BatchState
    limits: TimeLimits
    requests: Requests
    first_us: int
    """Start of the capture."""
    last_us: int
    """End of the capture so far, with this batch."""
    pending_us: Mapping[int, int]

    def run(self, *, is_last: bool) -> Findings:
        """Audit the batch, and store the state that later batches need."""
        names = self._store_names(TOPICS, topics, _TOPIC_NAME_APIS)
        groups = self._groups(names)
        cases = self._classify(groups, names, is_last=is_last)
        new_ghosts = self._ghosts(groups)
        if self._has({_END_TXN}):
            ends = self.requests.of("EndTxn").select(
                "request.transactional_id", f.unix_micros("ts").alias("at")
            )
            self.draft.add(ENDS, ends)
        return Findings(cases, new_ghosts)

    def _groups(self, names: DataFrame) -> _Groups:
        """Store the state of groups; tables that the batch cannot change stay in their folder."""
        has_heartbeats, has_classic_signs = self._has(_HEARTBEAT_APIS), self._has(_CLASSIC_APIS)
        alive, classic = self.draft.previous(SIGNS), self.draft.previous(_CLASSIC_SIGNS)
        generations_, given = self.draft.previous(GENERATIONS), self.draft.previous(ASSIGNMENTS)
        if has_heartbeats or has_classic_signs:
            alive = self._store(SIGNS, self._alive())
        if has_classic_signs:
            classic = self._store(_CLASSIC_SIGNS, self._needed_classic_signs())
        intervals = self._classic_intervals(alive, classic)
        if has_classic_signs:
            led_signs = (
                classic if intervals is None else within_intervals(classic, intervals, negated=True)
            )
            generations_ = self._store(GENERATIONS, generations(led_signs))
            given = self._store(ASSIGNMENTS, self._given(classic))
        needed_heartbeats = (
            self._store(HEARTBEATS, self._needed_heartbeats(alive)) if has_heartbeats else None
        )
        task_topics = self._store_names(TASKS, tasks, {ApiKey.STREAMS_GROUP_HEARTBEAT})
        if needed_heartbeats is None and not (
            self.draft.has(HEARTBEATS) and (has_classic_signs or self._has(_TOPIC_NAME_APIS))
        ):
            epochs, held = self.draft.previous(EPOCHS), self.draft.previous(HOLDINGS)
        else:
            heartbeat_rows = (
                self.draft.previous(HEARTBEATS) if needed_heartbeats is None else needed_heartbeats
            )
            if intervals is not None:
                heartbeat_rows = heartbeat_rows.unionByName(
                    classic_heartbeats(classic, intervals, given, names)
                )
            # Stored, not cached: otherwise each query would be planned with all of their sources.
            epochs = self._store(EPOCHS, steps(heartbeat_rows))
            held = self._store(HOLDINGS, holdings(epochs, names, task_topics))
        return _Groups(alive, epochs, held, generations_, given, intervals)

    def _alive(self) -> DataFrame:
        return runs(self._with(SIGNS, signs), self.limits.session_timeout_ms, self._since_us)

    def _needed_classic_signs(self) -> DataFrame:
        """Return the classic signs of life that generations are derived from.

        While a response is missing, it is unknown whether later signs repeat earlier ones.
        """
        all_signs = self._with(_CLASSIC_SIGNS, classic_signs)
        at_us = f.coalesce("end_us", "start_us")
        settled_us = self._ready_us(_CLASSIC_APIS) - self.limits.patience_us
        settled = distinct_classic_signs(
            all_signs.where(at_us <= settled_us), self.limits.session_timeout_ms
        )
        merged = settled.unionByName(all_signs.where(at_us > settled_us))
        in_group = in_order(("group_id",), ()).rowsBetween(*_ALL)
        of_group = {
            "latest": f.max("generation").over(in_group),
            "seen_us": f.max("lasts_us").over(in_group),
        }
        is_young = f.col("lasts_us") >= self._since_us
        is_needed = is_young | (f.col("generation") == f.col("latest"))
        return merged.withColumns(of_group).where((f.col("seen_us") >= self._since_us) & is_needed)

    def _given(self, classic: DataFrame) -> DataFrame:
        """Return the assignments of generations that are still stored."""
        all_assignments = self._with(ASSIGNMENTS, assignments)
        remembered = classic.select("group_id", "generation").distinct()
        return all_assignments.join(remembered, ["group_id", "generation"], "left_semi")

    def _classic_intervals(self, alive: DataFrame, classic: DataFrame) -> DataFrame | None:
        """Return the intervals of classic members in consumer groups; None if there can be none."""
        if not (
            self.draft.has(_CLASSIC_SIGNS)
            and (self.draft.has(HEARTBEATS) or self._has(_HEARTBEAT_APIS))
        ):
            return None
        signs = alive.where(f.col("protocol") != CLASSIC).unionByName(classic)
        return self.draft.compute(classic_intervals(signs, self.limits.session_timeout_ms))

    def _needed_heartbeats(self, alive: DataFrame) -> DataFrame:
        """Return the heartbeats that are still needed: those that changed a live member.

        All recent ones are included: while a response may still follow, it is unknown whether later
        heartbeats change something.
        """
        all_heartbeats = self._with(HEARTBEATS, heartbeats)
        settled_us = self._ready_us(_HEARTBEAT_APIS) - self.limits.patience_us
        done_us = f.coalesce("end_us", "start_us")
        recent = all_heartbeats.where(done_us > settled_us)
        changes = state_changes(all_heartbeats).where(done_us <= settled_us)
        assigned = f.last("assigned", ignorenulls=True).over(until_now(_MEMBER, _ORDER))
        latest = in_order(_MEMBER, ()).orderBy(*(f.desc(name) for name in _ORDER))
        counted = changes.withColumns({"nth": f.row_number().over(latest), "had": assigned})
        # The first stored heartbeat gets the assignment that earlier heartbeats had received.
        is_first = (f.col("nth") == MAX_STEPS) & (f.col("error") == ErrorCode.NONE)
        latest_changes = counted.where(f.col("nth") <= MAX_STEPS).withColumn(
            "assigned", f.when(is_first, f.col("had")).otherwise(f.col("assigned"))
        )
        live_members = alive.select(*_MEMBER).distinct()
        return (
            HEARTBEATS.shape(latest_changes)
            .unionByName(HEARTBEATS.shape(recent))
            .join(live_members, [*_MEMBER], "left_semi")
        )

    def _classify(self, groups: _Groups, names: DataFrame, *, is_last: bool) -> tuple[Row, ...]:
        """Classify the commits whose results no later request can change."""
        if not (self.draft.has(COMMITS) or self._has(_COMMIT_APIS)):
            return ()
        stored = self._with(COMMITS, commits)
        is_due = f.lit(True) if is_last else self._is_due()
        pending = stored.join(f.broadcast(_settled(groups)), "group_id", "left")
        pending = self.draft.compute(pending.withColumn("is_due", is_due))
        if not is_last:
            self._store(COMMITS, pending.where(~f.col("is_due")))
        due = pending.where("is_due")
        if due.isEmpty():
            return ()
        classified = self.draft.add(CLASSIFIED, self._classified(with_outcomes(due), groups, names))
        if classified is None:
            return ()
        return tuple(cases(classified).orderBy("start_us").limit(SHOWN + 1).collect())

    def _classified(self, due: DataFrame, groups: _Groups, names: DataFrame) -> DataFrame:
        """Count the plain commits among those that are due, and return the others classified."""
        epochs = groups.epochs
        with_ = within(with_epochs(due, epochs, groups.classic_intervals), epoch_intervals(epochs))
        without = with_epochs(due, epochs, groups.classic_intervals, negated=True)
        classic_commits = with_standing(without, groups.generations)
        is_plain_ = f.col("is_within") & f.col("is_accepted")
        plain = with_.where(is_plain_).select(
            f.lit(BY_EPOCH).alias("fenced_by"), f.lit(1).alias("commits"), f.lit(0).alias("refused")
        )
        self._count(counts(classic_commits).unionByName(COUNTS.shape(plain)))
        by_epoch = classify(COMMITS.shape(with_.where(~is_plain_)), epochs, groups.held, names)
        by_generation = classify_by_generation(
            classic_commits.where(~is_plain()), groups.generations, groups.given, names
        )
        return by_epoch.where(f.col("truth") != UNCLASSIFIED).unionByName(by_generation)

    def _count(self, counted: DataFrame) -> None:
        """Add commits to the counts."""
        sums = {name: f.sum(name).alias(name) for name in _COUNTED}
        for row in counted.groupBy("fenced_by").agg(*sums.values()).collect():
            self.draft.counts.update({f"{row.fenced_by} {name}": row[name] for name in _COUNTED})
        kinds = sorted({name.rpartition(" ")[0] for name in self.draft.counts} - {""})
        columns = [[self.draft.counts[f"{kind} {name}"] for kind in kinds] for name in _COUNTED]
        self.draft.replace_rows(
            COUNTS, pa.table([kinds, *columns], [column.name for column in COUNTS.columns])
        )

    def _is_due(self) -> Column:
        """Whether a commit can be classified now."""
        over_us = f.coalesce(f.col("end_us"), f.col("start_us") + UNANSWERED_US)
        at_last = over_us <= self.last_us - self.limits.patience_us
        is_settled = f.col("is_settled").isNotNull() & f.col("end_us").isNotNull()
        ready_us = self._ready_us(_HEARTBEAT_APIS | _COMMIT_APIS)
        return at_last | (is_settled & (f.col("end_us") < ready_us))

    def _ghosts(self, groups: _Groups) -> tuple[Row, ...]:
        """Store new ghosts, together with those of members that are forgotten by now."""
        span = self.draft.spark.range(1).select(
            f.lit(self.first_us).alias("first_us"), f.lit(self.last_us).alias("last_us")
        )
        old = self.draft.previous(GHOSTS)
        silences, until_us = self._silent(groups.alive)
        is_new = silences != self.draft.counts[GHOSTS.name]
        self.draft.counts[GHOSTS.name] = silences
        if not is_new and until_us < self.draft.before.last_us - self.limits.patience_us:
            return ()
        all_holdings = groups.held.unionByName(
            classic_holdings(groups.given, groups.generations, groups.classic_intervals)
        )
        current = ghosts(groups.alive, all_holdings, span, self.limits.session_timeout_ms)
        last_sign = f.unix_micros("last_sign")
        merged = old.where(last_sign < self._since_us).unionByName(
            GHOSTS.shape(current).where(last_sign >= self._since_us)
        )
        stored = self._store(GHOSTS, merged)
        self.draft.replace_rows(GHOSTS, stored.toArrow())
        key = (*_MEMBER, "client", "last_sign")
        new = stored.join(old.select(*key), [*key], "left_anti").orderBy("last_sign")
        return tuple(new.limit(SHOWN + 1).collect())

    def _silent(self, alive: DataFrame) -> tuple[int, int]:
        """Return the number of silences that may be ghosts, and the end of the latest.

        If the number is unchanged and that end has passed, the ghosts are unchanged too.
        """
        timeout_us = f.coalesce("session_timeout_ms", f.lit(self.limits.session_timeout_ms)) * 1000
        seen_us = f.coalesce("end_us", "start_us")
        after = f.lead("start_us").over(in_order(_MEMBER, ("seen_us", "start_us", "position")))
        silences = (
            alive.where(~is_over())
            .withColumns({"seen_us": seen_us, "until_us": seen_us + timeout_us})
            .withColumn("after", after)
            .where((f.col("until_us") <= self.last_us) | f.col("after").isNotNull())
        )
        row = silences.agg(f.count("*").alias("silences"), f.max("until_us").alias("last")).first()
        assert row is not None
        return row.silences, -FOREVER if row.last is None else row.last

    @property
    def _since_us(self) -> int:
        return self.last_us - self.limits.remembered_us

    def _has(self, apis: frozenset[int] | set[int]) -> bool:
        """Whether the batch has requests of one of these APIs."""
        return not apis.isdisjoint(self.requests.apis())

    def _ready_us(self, apis: frozenset[int]) -> int:
        """Return the time until which all requests of these APIs have their responses."""
        return min([self.last_us, *(self.pending_us.get(key, FOREVER) for key in apis)])

    def _with(self, table: Table, of: Callable[[Requests], DataFrame]) -> DataFrame:
        """Return the stored and the new rows of a table."""
        new = self.draft.new(table.shape(of(self.requests)))
        return self.draft.previous(table).unionByName(new)

    def _store(self, table: Table, frame: DataFrame) -> DataFrame:
        return self.draft.store(table, frame)

    def _store_names(
        self, table: Table, of: Callable[[Requests], DataFrame], apis: frozenset[int] | set[int]
    ) -> DataFrame:
        """Store a table of names, unless the batch cannot have new ones."""
        if not self._has(apis):
            return self.draft.previous(table)
        return self._store(table, self._with(table, of).distinct())


def _settled(groups: _Groups) -> DataFrame:
    """Return groups with epochs whose past state no later request can clarify.

    Groups with one of these are excluded: a heartbeat without a response, whose effect the next
    heartbeat shows; a topic that is known only by id and may still get a name; a classic
    generation, because the response to a join may take long.
    """
    last = groups.epochs.groupBy(*_MEMBER).agg(f.max_by("standing", "step").alias("standing"))
    unknown = last.where(f.col("standing") == UNKNOWN).select("group_id")
    unnamed = groups.held.where(~f.col("is_named")).select("group_id")
    excluded = unknown.unionByName(unnamed).unionByName(groups.generations.select("group_id"))
    all_groups = groups.epochs.select("group_id").distinct()
    return all_groups.join(excluded, "group_id", "left_anti").withColumn("is_settled", f.lit(True))


_ALL: Final = (-(2**63), 2**63 - 1)
