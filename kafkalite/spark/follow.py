"""The fencing and members audits over a capture that grows, batch by batch.

What must be known of the past is kept in a folder a batch, made of the one of the batch before: a
batch that is done again after a failure begins where it began, and replaces what it left. Chosen
instead of Spark's own state stores: so the audits of a stream are the queries of any audit, over
what is kept and what is new, and come to the same by test.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.spark.audits.classic import COUNTS
from kafkalite.spark.audits.fencing import cases, totals, with_all_counted
from kafkalite.spark.audits.judging import BY_EPOCH, JUDGED
from kafkalite.spark.audits.members import GHOSTS
from kafkalite.spark.batch import ENDS, SHOWN, Batch, News, Spans
from kafkalite.spark.kept import Kept
from kafkalite.spark.sizing import by_one_task
from kafkalite.spark.state.extent import extent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.spark.audits import AuditOptions
    from kafkalite.spark.kept import Draft
    from kafkalite.spark.places import Place
    from kafkalite.spark.requests import Requests

PATIENCE_US: Final = 60_000_000
"""For so long what a commit's verdict hangs on may come after it."""
KEPT_US: Final = 24 * 3_600_000_000
"""For so long members are remembered that nothing is heard of."""


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
        self._spark = spark
        self._kept = Kept(spark, out, (JUDGED, ENDS))
        self._spans = Spans(options.session_timeout_ms, patience_us, kept_us)

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
        draft = self._kept.begin(number, are_few=requests.are_few)
        seen = extent(requests).collect()[0]
        before = draft.before
        if seen["first_us"] is None and not before.tables:
            return News()
        first_us = min(before.first_us, _or(seen["first_us"], before.first_us))
        last_us = max(before.last_us, _or(seen["last_us"], before.last_us))
        batch = Batch(draft, self._spans, requests, first_us, last_us, pending_us or {})
        with self._suited(draft, requests):
            news = batch.run(is_last=is_last)
        if not is_last:
            draft.end(first_us, last_us)
        return news

    @contextmanager
    def _suited(self, draft: Draft, requests: Requests) -> Iterator[None]:
        """Have what suits the queries of a batch; a stream has a session of its own."""
        with ExitStack() as suited:
            for each in {self._spark, requests.spark} if draft.is_small else ():
                suited.enter_context(by_one_task(each))
            yield

    def judged(self) -> DataFrame:
        """Return every commit so far that there is something to say of, as `JUDGED`."""
        return self._kept.found(JUDGED)

    def cases(self) -> DataFrame:
        """Return those of them that are worth a look, as the fencing audit's cases."""
        return cases(self.judged())

    def totals(self) -> DataFrame:
        """Return what each rule makes of all commits, as the fencing audit's totals."""
        counted = self._kept.found(COUNTS)
        is_plain = f.col("fenced_by") == BY_EPOCH
        return with_all_counted(
            totals(self.judged(), self._kept.found(ENDS)),
            counted.where(~is_plain),
            counted.where(is_plain),
        )

    def ghosts(self) -> DataFrame:
        """Return the ghosts so far, as `GHOSTS`."""
        return self._kept.found(GHOSTS)


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
