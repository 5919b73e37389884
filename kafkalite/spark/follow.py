"""The fencing and members audits over a capture that grows, batch by batch.

What must be known of the past is kept in a folder a batch, made of the one of the batch before: a
batch that is done again after a failure begins where it began, and replaces what it left. Chosen
instead of Spark's own state stores: so the audits of a stream are the queries of any audit, over
what is kept and what is new, and come to the same by test.

What is kept is bounded. Of heartbeats only those stay that told something, of other signs of life
one for all between two silences, and of members that were not heard of for a day nothing. A
commit is judged as soon as nothing under way can matter to it, and after a minute in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.audits.fencing import TOTALS, cases, totals
from kafkalite.spark.audits.judging import JUDGED, judge
from kafkalite.spark.audits.members import GHOSTS, ghosts
from kafkalite.spark.kept import FOREVER, Kept, Known
from kafkalite.spark.state.commits import COMMITS, commits
from kafkalite.spark.state.epochs import EPOCHS, UNKNOWN, steps, telling
from kafkalite.spark.state.extent import extent
from kafkalite.spark.state.heartbeats import HEARTBEATS, heartbeats
from kafkalite.spark.state.holdings import HOLDINGS, holdings
from kafkalite.spark.state.order import in_order, until_now
from kafkalite.spark.state.runs import runs
from kafkalite.spark.state.signs import SIGNS, is_over, signs
from kafkalite.spark.state.spans import UNANSWERED_US
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.topics import TASKS, TOPICS, tasks, topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from kafkalite.spark.audits import AuditOptions
    from kafkalite.spark.places import Place
    from kafkalite.spark.requests import Requests
    from kafkalite.spark.state.tables import Table

PATIENCE_US: Final = 60_000_000
"""For so long what a commit's verdict hangs on may come after it."""
KEPT_US: Final = 24 * 3_600_000_000
"""For so long members are remembered that nothing is heard of."""
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

_MEMBER: Final = ("group_id", "member_id")
_ORDER: Final = ("done_us", "begin_us", "position")
_END_TXN: Final = 26
_BEATING: Final = (68, 88)
"""The heartbeats of consumer groups and of streams groups."""
_JUDGED_APIS: Final = (*_BEATING, 8, 28)


@dataclass(frozen=True, slots=True)
class News:
    """What a batch has found."""

    cases: tuple[Row, ...] = ()
    """Commits worth a look, as `JUDGED`: the first ones."""
    ghosts: tuple[Row, ...] = ()
    """Ghosts that were not known before, as `GHOSTS`: the first ones."""


class Follower:
    """The audits of a growing capture, kept in a folder of their own."""

    def __init__(
        self,
        spark: SparkSession,
        out: Place,
        options: AuditOptions,
        *,
        patience_us: int = PATIENCE_US,
        kept_us: int = KEPT_US,
    ) -> None:
        """Go on with what there is in `out`, or begin."""
        self._kept = Kept(spark, out, (JUDGED, ENDS))
        self._spans = _Spans(options.session_timeout_ms, patience_us, kept_us)

    def absorb(
        self,
        requests: Requests,
        number: int,
        pending_us: Mapping[int, int] | None = None,
        *,
        is_last: bool = False,
    ) -> News:
        """Take in one batch; taken in again, it replaces what it was.

        `pending_us` says since when a request of each API waits for its answer. Of one that
        `is_last` nothing is kept: what still waits is judged as it is, until a batch comes in its
        place.
        """
        before = self._kept.before(number)
        self._kept.take_back(number)
        seen = extent(requests).collect()[0]
        if seen["first_us"] is None and not before.tables:
            return News()
        known = Known(
            min(before.first_us, _or(seen["first_us"], FOREVER)),
            max(before.last_us, _or(seen["last_us"], -FOREVER)),
            dict(before.tables),
        )
        batch = _Batch(self._kept, self._spans, requests, number, before, known, pending_us or {})
        news = batch.run(is_last=is_last)
        if not is_last:
            self._kept.note(number, known, before)
        return news

    def judged(self) -> DataFrame:
        """Return every commit that is judged so far, as `JUDGED`."""
        return self._kept.found(JUDGED)

    def totals(self) -> DataFrame:
        """Return what each rule makes of them, as the fencing audit's totals."""
        return TOTALS.shape(totals(self.judged(), self._kept.found(ENDS)))

    def ghosts(self) -> DataFrame:
        """Return the ghosts so far, as `GHOSTS`."""
        return self._kept.found(GHOSTS)


@dataclass(frozen=True, slots=True)
class _Spans:
    """How long what is waited for."""

    session_timeout_ms: int
    patience_us: int
    kept_us: int


@dataclass(frozen=True, slots=True)
class _Batch:
    """One batch, and what is known before it."""

    kept: Kept
    spans: _Spans
    requests: Requests
    number: int
    before: Known
    known: Known
    pending_us: Mapping[int, int]

    def run(self, *, is_last: bool) -> News:
        """Audit what is new beside what is known, and keep what will be needed."""
        since_us = self.known.last_us - self.spans.kept_us
        alive = self._keep(
            SIGNS, runs(self._with(SIGNS, signs), self.spans.session_timeout_ms, since_us)
        )
        beats = self._keep(HEARTBEATS, self._beats(alive))
        names = self._keep_names(TOPICS, topics, {3, 19, 75})
        works = self._keep_names(TASKS, tasks, {88})
        # Written, not cached: each query would be planned with all that they are made of.
        epochs = self._keep(EPOCHS, steps(beats))
        held = self._keep(HOLDINGS, holdings(epochs, names, works))
        found = self._judge(epochs, held, names, is_last=is_last)
        haunting = self._ghosts(alive, held, since_us)
        if _END_TXN in self.requests.apis():
            ends = self.requests.of("EndTxn").select(
                "request.transactional_id", f.unix_micros("ts").alias("at")
            )
            self.kept.add(ENDS, ends, self.number)
        return News(found, haunting)

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

    def _judge(
        self, epochs: DataFrame, held: DataFrame, names: DataFrame, *, is_last: bool
    ) -> tuple[Row, ...]:
        """Judge the commits to which nothing can matter any more that is to come."""
        waiting = self._with(COMMITS, commits)
        is_due = f.lit(True) if is_last else self._is_due()
        asked = waiting.join(f.broadcast(_unsettled(epochs, held)), "group_id", "left")
        asked = asked.withColumn("is_due", is_due).localCheckpoint()
        if not is_last:
            self._keep(COMMITS, asked.where(~f.col("is_due")))
        due = asked.where("is_due")
        if due.isEmpty():
            return ()
        judged = judge(COMMITS.shape(due), epochs, held, names)
        found = self.kept.add(JUDGED, judged, self.number)
        if found is None:
            return ()
        return tuple(cases(found).orderBy("start_us").limit(SHOWN + 1).collect())

    def _is_due(self) -> Column:
        """Whether a commit need not wait any longer."""
        over_us = f.coalesce(f.col("end_us"), f.col("start_us") + UNANSWERED_US)
        at_last = over_us <= self.known.last_us - self.spans.patience_us
        is_settled = f.col("is_unsettled").isNull() & f.col("end_us").isNotNull()
        return at_last | (is_settled & (f.col("end_us") < self._ready_us(_JUDGED_APIS)))

    def _ghosts(self, alive: DataFrame, held: DataFrame, since_us: int) -> tuple[Row, ...]:
        """Write the ghosts since then, beside those of members that are forgotten by now."""
        spark = self.kept.spark
        span = spark.range(1).select(
            f.lit(self.known.first_us).alias("first_us"),
            f.lit(self.known.last_us).alias("last_us"),
        )
        old = self.kept.known(GHOSTS, self.before)
        silent, until_us = self._silent(alive)
        self.known.counts[GHOSTS.name] = silent
        is_new = silent != self.before.counts.get(GHOSTS.name, 0)
        if not is_new and until_us < self.before.last_us - self.spans.patience_us:
            return ()
        found = ghosts(alive, held, span, self.spans.session_timeout_ms)
        last_sign = f.unix_micros("last_sign")
        both = old.where(last_sign < since_us).unionByName(
            GHOSTS.shape(found).where(last_sign >= since_us)
        )
        now = self._keep(GHOSTS, both)
        self.kept.replace(GHOSTS, now)
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
            .where((f.col("until_us") <= self.known.last_us) | f.col("after").isNotNull())
        )
        row = silences.agg(f.count("*").alias("silences"), f.max("until_us").alias("last")).first()
        assert row is not None
        return row.silences, _or(row.last, -FOREVER)

    def _ready_us(self, apis: tuple[int, ...]) -> int:
        """Return until when all answers are known to requests of some APIs."""
        return min([self.known.last_us, *(self.pending_us.get(key, FOREVER) for key in apis)])

    def _with(self, table: Table, of: Callable[[Requests], DataFrame]) -> DataFrame:
        """Return what is known of a table, and what is new."""
        return self.kept.known(table, self.before).unionByName(table.shape(of(self.requests)))

    def _keep(self, table: Table, frame: DataFrame) -> DataFrame:
        return self.kept.keep(table, frame, self.number, self.known)

    def _keep_names(
        self, table: Table, of: Callable[[Requests], DataFrame], apis: set[int]
    ) -> DataFrame:
        """Keep names; where nothing new can be among them, where they are."""
        if apis.isdisjoint(self.requests.apis()):
            return self.kept.known(table, self.before)
        return self._keep(table, self._with(table, of).distinct())


def _unsettled(epochs: DataFrame, held: DataFrame) -> DataFrame:
    """Return groups of which what is to come may tell something of what was.

    A heartbeat without an answer may have moved its member: the next one tells. And a topic that
    is known by its id may yet be named.
    """
    last = epochs.groupBy(*_MEMBER).agg(f.max_by("standing", "step").alias("standing"))
    unknown = last.where(f.col("standing") == UNKNOWN).select("group_id")
    unnamed = held.where(~f.col("is_named")).select("group_id")
    return unknown.unionByName(unnamed).distinct().withColumn("is_unsettled", f.lit(True))


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def told_of(news: News) -> Iterator[str]:
    """Yield what a batch has found as lines for people."""
    for row in news.cases[:SHOWN]:
        who = row.member_id or row.transactional_id or row.client
        rules = f"strict {row.strict}, revocation {row.revocation}, assignment {row.assignment}"
        yield (
            f"{row.at:%Y-%m-%dT%H:%M:%S} commit: {row.truth}: group {row.group_id}, member {who},"
            f" {row.topic}-{row.partition} at epoch {row.commit_epoch}, its member's is"
            f" {_said(row.member_epoch)}; {rules}; broker: {_said(row.broker)}"
        )
    for row in news.ghosts[:SHOWN]:
        yield (
            f"{row.last_sign:%Y-%m-%dT%H:%M:%S} ghost: {row.kind}: group {row.group_id}, member"
            f" {row.member_id or '?'} of {row.client_id or row.client},"
            f" {row.partitions_held} partitions for {row.partition_seconds_held:.0f} seconds"
        )
    for found, what in ((news.cases, JUDGED.name), (news.ghosts, GHOSTS.name)):
        if len(found) > SHOWN:
            yield f"and more: see {what}"


def _said(value: object) -> object:
    return "unknown" if value is None else value
