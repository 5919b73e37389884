"""One batch of a followed capture: what is new beside what is known of what came before it.

What is kept is bounded. Of heartbeats only those stay that told something, of other signs of life
one for all between two silences, of classic groups what their generations are made of, and of
members that were not heard of for a day nothing. A commit is judged as soon as nothing under way
can matter to it, and after a minute in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.audits.classic import (
    COUNTS,
    counts,
    is_plain,
    judge_by_generation,
    standing,
)
from kafkalite.spark.audits.fencing import cases
from kafkalite.spark.audits.judging import BY_EPOCH, JUDGED, UNJUDGED, judge
from kafkalite.spark.audits.members import GHOSTS, ghosts, held_classically
from kafkalite.spark.kept import FOREVER
from kafkalite.spark.state.assignments import ASSIGNMENTS, assignments
from kafkalite.spark.state.commits import COMMITS, commits, with_outcomes
from kafkalite.spark.state.epochs import EPOCHS, UNKNOWN, steps, telling
from kafkalite.spark.state.generations import GENERATIONS, generations
from kafkalite.spark.state.heartbeats import HEARTBEATS, heartbeats
from kafkalite.spark.state.holdings import HOLDINGS, holdings
from kafkalite.spark.state.order import in_order, until_now
from kafkalite.spark.state.runs import runs
from kafkalite.spark.state.signs import CLASSIC, SIGNS, classic_signs, is_over, said_once, signs
from kafkalite.spark.state.spans import UNANSWERED_US
from kafkalite.spark.state.spells import spells, within
from kafkalite.spark.state.tables import Table, table
from kafkalite.spark.state.topics import TASKS, TOPICS, tasks, topics
from kafkalite.spark.state.turns import classic_beats, turns, with_epochs, within_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame, Row

    from kafkalite.spark.kept import Draft
    from kafkalite.spark.requests import Requests

SHOWN: Final = 20
"""So many findings of a batch are told one by one."""
MOST_STEPS: Final = 1_000
"""So many steps of one member are remembered."""

ENDS = table(
    "transaction_ends",
    "A request to end a transaction",
    ("transactional_id", "string", "the transactional id"),
    ("at", "bigint", "when it came: microseconds since the Unix epoch"),
)
_SAID = Table(
    "classic_signs",
    "A sign of life of who speaks the classic protocol, and the like ones that followed it",
    SIGNS.columns,
)

_MEMBER: Final = ("group_id", "member_id")
_ORDER: Final = ("done_us", "begin_us", "position")
_END_TXN: Final = 26
_BEATING: Final = frozenset({68, 88})
"""The heartbeats of consumer groups and of streams groups."""
_OF_CLASSIC: Final = frozenset({11, 12, 13, 14})
"""What members of classic groups say."""
_COMMITTING: Final = frozenset({8, 28})
_NAMING: Final = frozenset({3, 19, 75})
_COUNTED: Final = ("commits", "refused")


@dataclass(frozen=True, slots=True)
class News:
    """What a batch has found."""

    cases: tuple[Row, ...] = ()
    """Commits worth a look, as `JUDGED`: the first ones."""
    ghosts: tuple[Row, ...] = ()
    """Ghosts that were not known before, as `GHOSTS`: the first ones."""


@dataclass(frozen=True, slots=True)
class Spans:
    """How long what is waited for."""

    session_timeout_ms: int
    patience_us: int
    """For so long what a commit's verdict hangs on may come after it."""
    kept_us: int
    """For so long members are remembered that nothing is heard of."""


@dataclass(frozen=True, slots=True)
class _Groups:
    """What is known of groups and their members."""

    alive: DataFrame
    epochs: DataFrame
    held: DataFrame
    generations: DataFrame
    given: DataFrame
    turns: DataFrame | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, and what is known before it."""

    draft: Draft
    spans: Spans
    requests: Requests
    first_us: int
    """When the capture began."""
    last_us: int
    """How far it goes with this batch."""
    pending_us: Mapping[int, int]

    def run(self, *, is_last: bool) -> News:
        """Audit what is new beside what is known, and keep what will be needed."""
        names = self._keep_names(TOPICS, topics, _NAMING)
        groups = self._groups(names)
        found = self._judge(groups, names, is_last=is_last)
        haunting = self._ghosts(groups)
        if self._has({_END_TXN}):
            ends = self.requests.of("EndTxn").select(
                "request.transactional_id", f.unix_micros("ts").alias("at")
            )
            self.draft.add(ENDS, ends)
        return News(found, haunting)

    def _groups(self, names: DataFrame) -> _Groups:
        """Keep what is known of groups; what nothing new can be told of stays where it is."""
        has_beats, is_said = self._has(_BEATING), self._has(_OF_CLASSIC)
        alive, said = self.draft.known(SIGNS), self.draft.known(_SAID)
        generations_, given = self.draft.known(GENERATIONS), self.draft.known(ASSIGNMENTS)
        if has_beats or is_said:
            alive = self._keep(SIGNS, self._alive())
        if is_said:
            said = self._keep(_SAID, self._said())
        turns_ = self._turns(alive, said)
        if is_said:
            led = said if turns_ is None else within_turns(said, turns_, negated=True)
            generations_ = self._keep(GENERATIONS, generations(led))
            given = self._keep(ASSIGNMENTS, self._given(said))
        beats = self._keep(HEARTBEATS, self._beats(alive)) if has_beats else None
        works = self._keep_names(TASKS, tasks, {88})
        if beats is None and not (self.draft.has(HEARTBEATS) and (is_said or self._has(_NAMING))):
            epochs, held = self.draft.known(EPOCHS), self.draft.known(HOLDINGS)
        else:
            told = self.draft.known(HEARTBEATS) if beats is None else beats
            if turns_ is not None:
                told = told.unionByName(classic_beats(said, turns_, given, names))
            # Written, not cached: each query would be planned with all that they are made of.
            epochs = self._keep(EPOCHS, steps(told))
            held = self._keep(HOLDINGS, holdings(epochs, names, works))
        return _Groups(alive, epochs, held, generations_, given, turns_)

    def _alive(self) -> DataFrame:
        return runs(self._with(SIGNS, signs), self.spans.session_timeout_ms, self._since_us)

    def _said(self) -> DataFrame:
        """Return what members of classic groups said, as far as generations are made of it.

        As long as an answer is under way, whether what comes after repeats it is open.
        """
        whole = self._with(_SAID, classic_signs)
        at_us = f.coalesce("end_us", "start_us")
        settled_us = self._ready_us(_OF_CLASSIC) - self.spans.patience_us
        settled = said_once(whole.where(at_us <= settled_us), self.spans.session_timeout_ms)
        both = settled.unionByName(whole.where(at_us > settled_us))
        in_group = in_order(("group_id",), ()).rowsBetween(*_ALL)
        of_group = {
            "latest": f.max("generation").over(in_group),
            "heard_us": f.max("lasts_us").over(in_group),
        }
        is_young = f.col("lasts_us") >= self._since_us
        is_needed = is_young | (f.col("generation") == f.col("latest"))
        return both.withColumns(of_group).where((f.col("heard_us") >= self._since_us) & is_needed)

    def _given(self, said: DataFrame) -> DataFrame:
        """Return what was handed out in generations that are remembered."""
        whole = self._with(ASSIGNMENTS, assignments)
        remembered = said.select("group_id", "generation").distinct()
        return whole.join(remembered, ["group_id", "generation"], "left_semi")

    def _turns(self, alive: DataFrame, said: DataFrame) -> DataFrame | None:
        """Return who spoke the classic protocol in groups with epochs; None where nobody can."""
        if not (self.draft.has(_SAID) and (self.draft.has(HEARTBEATS) or self._has(_BEATING))):
            return None
        both = alive.where(f.col("protocol") != CLASSIC).unionByName(said)
        return self.draft.made(turns(both, self.spans.session_timeout_ms))

    def _beats(self, alive: DataFrame) -> DataFrame:
        """Return the heartbeats that are still needed: of members alive, what told something.

        As long as one is under way that may count as never answered, whether those after it tell
        something is open.
        """
        whole = self._with(HEARTBEATS, heartbeats)
        settled_us = self._ready_us(_BEATING) - self.spans.patience_us
        done_us = f.coalesce("end_us", "start_us")
        raw = whole.where(done_us > settled_us)
        told = telling(whole).where(done_us <= settled_us)
        assigned = f.last("assigned", ignorenulls=True).over(until_now(_MEMBER, _ORDER))
        latest = in_order(_MEMBER, ()).orderBy(*(f.desc(name) for name in _ORDER))
        counted = told.withColumns({"nth": f.row_number().over(latest), "had": assigned})
        # The first that is remembered tells what those before it told.
        is_first = (f.col("nth") == MOST_STEPS) & (f.col("error") == ErrorCode.NONE)
        few = counted.where(f.col("nth") <= MOST_STEPS).withColumn(
            "assigned", f.when(is_first, f.col("had")).otherwise(f.col("assigned"))
        )
        heard_of = alive.select(*_MEMBER).distinct()
        return (
            HEARTBEATS.shape(few)
            .unionByName(HEARTBEATS.shape(raw))
            .join(heard_of, [*_MEMBER], "left_semi")
        )

    def _judge(self, groups: _Groups, names: DataFrame, *, is_last: bool) -> tuple[Row, ...]:
        """Judge the commits to which nothing can matter any more that is to come."""
        if not (self.draft.has(COMMITS) or self._has(_COMMITTING)):
            return ()
        waiting = self._with(COMMITS, commits)
        is_due = f.lit(True) if is_last else self._is_due()
        asked = waiting.join(f.broadcast(_settled(groups)), "group_id", "left")
        asked = self.draft.made(asked.withColumn("is_due", is_due))
        if not is_last:
            self._keep(COMMITS, asked.where(~f.col("is_due")))
        due = asked.where("is_due")
        if due.isEmpty():
            return ()
        found = self.draft.add(JUDGED, self._judged(with_outcomes(due), groups, names))
        if found is None:
            return ()
        return tuple(cases(found).orderBy("start_us").limit(SHOWN + 1).collect())

    def _judged(self, due: DataFrame, groups: _Groups, names: DataFrame) -> DataFrame:
        """Count the commits that are due, and return those that there is something to say of."""
        epochs = groups.epochs
        with_ = within(with_epochs(due, epochs, groups.turns), spells(epochs))
        without = with_epochs(due, epochs, groups.turns, negated=True)
        beside = standing(without, groups.generations)
        is_plain_ = f.col("is_within") & f.col("is_taken")
        plain = with_.where(is_plain_).select(
            f.lit(BY_EPOCH).alias("fenced_by"), f.lit(1).alias("commits"), f.lit(0).alias("refused")
        )
        self._count(counts(beside).unionByName(COUNTS.shape(plain)))
        by_epoch = judge(COMMITS.shape(with_.where(~is_plain_)), epochs, groups.held, names)
        by_generation = judge_by_generation(
            beside.where(~is_plain()), groups.generations, groups.given, names
        )
        return by_epoch.where(f.col("truth") != UNJUDGED).unionByName(by_generation)

    def _count(self, told: DataFrame) -> None:
        """Count commits, beside those that were counted before."""
        sums = {name: f.sum(name).alias(name) for name in _COUNTED}
        for row in told.groupBy("fenced_by").agg(*sums.values()).collect():
            self.draft.counts.update({f"{row.fenced_by} {name}": row[name] for name in _COUNTED})
        kinds = sorted({name.rpartition(" ")[0] for name in self.draft.counts} - {""})
        columns = [[self.draft.counts[f"{kind} {name}"] for kind in kinds] for name in _COUNTED]
        self.draft.put(COUNTS, pa.table([kinds, *columns], [each.name for each in COUNTS.columns]))

    def _is_due(self) -> Column:
        """Whether a commit need not wait any longer."""
        over_us = f.coalesce(f.col("end_us"), f.col("start_us") + UNANSWERED_US)
        at_last = over_us <= self.last_us - self.spans.patience_us
        is_settled = f.col("is_settled").isNotNull() & f.col("end_us").isNotNull()
        ready_us = self._ready_us(_BEATING | _COMMITTING)
        return at_last | (is_settled & (f.col("end_us") < ready_us))

    def _ghosts(self, groups: _Groups) -> tuple[Row, ...]:
        """Write the ghosts since then, beside those of members that are forgotten by now."""
        span = self.draft.spark.range(1).select(
            f.lit(self.first_us).alias("first_us"), f.lit(self.last_us).alias("last_us")
        )
        old = self.draft.known(GHOSTS)
        silent, until_us = self._silent(groups.alive)
        is_new = silent != self.draft.counts[GHOSTS.name]
        self.draft.counts[GHOSTS.name] = silent
        if not is_new and until_us < self.draft.before.last_us - self.spans.patience_us:
            return ()
        held = groups.held.unionByName(
            held_classically(groups.given, groups.generations, groups.turns)
        )
        found = ghosts(groups.alive, held, span, self.spans.session_timeout_ms)
        last_sign = f.unix_micros("last_sign")
        both = old.where(last_sign < self._since_us).unionByName(
            GHOSTS.shape(found).where(last_sign >= self._since_us)
        )
        now = self._keep(GHOSTS, both)
        self.draft.put(GHOSTS, now.toArrow())
        key = (*_MEMBER, "client", "last_sign")
        fresh = now.join(old.select(*key), [*key], "left_anti").orderBy("last_sign")
        return tuple(fresh.limit(SHOWN + 1).collect())

    def _silent(self, alive: DataFrame) -> tuple[int, int]:
        """Return how many silences there are that may be ghosts', and until when the last is one.

        As long as there are no others, and their time is over, the ghosts are those of before.
        """
        timeout_us = f.coalesce("session_timeout_ms", f.lit(self.spans.session_timeout_ms)) * 1000
        heard_us = f.coalesce("end_us", "start_us")
        after = f.lead("start_us").over(in_order(_MEMBER, ("heard_us", "start_us", "position")))
        silences = (
            alive.where(~is_over())
            .withColumns({"heard_us": heard_us, "until_us": heard_us + timeout_us})
            .withColumn("after", after)
            .where((f.col("until_us") <= self.last_us) | f.col("after").isNotNull())
        )
        row = silences.agg(f.count("*").alias("silences"), f.max("until_us").alias("last")).first()
        assert row is not None
        return row.silences, -FOREVER if row.last is None else row.last

    @property
    def _since_us(self) -> int:
        return self.last_us - self.spans.kept_us

    def _has(self, apis: frozenset[int] | set[int]) -> bool:
        """Whether requests of one of these APIs came."""
        return not apis.isdisjoint(self.requests.apis())

    def _ready_us(self, apis: frozenset[int]) -> int:
        """Return until when all answers are known to requests of some APIs."""
        return min([self.last_us, *(self.pending_us.get(key, FOREVER) for key in apis)])

    def _with(self, table: Table, of: Callable[[Requests], DataFrame]) -> DataFrame:
        """Return what is known of a table, and what is new."""
        new = self.draft.new(table.shape(of(self.requests)))
        return self.draft.known(table).unionByName(new)

    def _keep(self, table: Table, frame: DataFrame) -> DataFrame:
        return self.draft.keep(table, frame)

    def _keep_names(
        self, table: Table, of: Callable[[Requests], DataFrame], apis: frozenset[int] | set[int]
    ) -> DataFrame:
        """Keep names; where nothing new can be among them, where they are."""
        if not self._has(apis):
            return self.draft.known(table)
        return self._keep(table, self._with(table, of).distinct())


def _settled(groups: _Groups) -> DataFrame:
    """Return groups with epochs of which what is to come tells nothing of what was.

    A heartbeat without an answer may have moved its member: the next one tells. A topic that is
    known by its id may yet be named. And of a classic group an answer to join may be long under
    way.
    """
    last = groups.epochs.groupBy(*_MEMBER).agg(f.max_by("standing", "step").alias("standing"))
    unknown = last.where(f.col("standing") == UNKNOWN).select("group_id")
    unnamed = groups.held.where(~f.col("is_named")).select("group_id")
    open_ = unknown.unionByName(unnamed).unionByName(groups.generations.select("group_id"))
    known = groups.epochs.select("group_id").distinct()
    return known.join(open_, "group_id", "left_anti").withColumn("is_settled", f.lit(True))


_ALL: Final = (-(2**63), 2**63 - 1)
