"""The fencing and members audits over a capture that grows, batch by batch.

What a batch brings is reduced to what tells something new and kept, a folder a batch, so that a
batch that is done again after a failure replaces itself. A commit is judged once all that can
matter to it has come: when the capture has gone on for a while after its answer. The verdicts
are those that one audit of the whole capture would have come to, by test.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.spark.audits.fencing import TOTALS, totals
from kafkalite.spark.audits.judging import JUDGED, judge
from kafkalite.spark.audits.members import GHOSTS, ghosts
from kafkalite.spark.state.commits import COMMITS, commits
from kafkalite.spark.state.epochs import steps, telling
from kafkalite.spark.state.extent import extent
from kafkalite.spark.state.heartbeats import HEARTBEATS, heartbeats
from kafkalite.spark.state.holdings import holdings
from kafkalite.spark.state.signs import SIGNS, signs
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.topics import TASKS, TOPICS, tasks, topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.spark.audits import AuditOptions
    from kafkalite.spark.places import Place
    from kafkalite.spark.requests import Requests
    from kafkalite.spark.state.tables import Table

PATIENCE_US: Final = 60_000_000
"""For so long what a commit's verdict hangs on may come after it."""

ENDS = table(
    "transaction_ends",
    "A request to end a transaction",
    ("transactional_id", "string", "the transactional id"),
    ("at", "bigint", "when it came: microseconds since the Unix epoch"),
)

_KEPT: Final = (HEARTBEATS, COMMITS, SIGNS, TOPICS, TASKS, ENDS)
_NOTE: Final = "batches.json"
_BEFORE_ALL: Final = -(2**62)
_AFTER_ALL: Final = 2**62


@dataclass(frozen=True, slots=True)
class Batch:
    """What is noted of a batch that was absorbed."""

    number: int
    first_us: int
    last_us: int
    judged_until_us: int
    """Commits answered by then are judged."""


class Follower:
    """The audits of a growing capture, kept in a folder of their own."""

    def __init__(
        self,
        spark: SparkSession,
        out: Place,
        options: AuditOptions,
        patience_us: int = PATIENCE_US,
    ) -> None:
        """Go on with what there is in `out`, or begin."""
        self._spark = spark
        self._out = out
        self._options = options
        self._patience_us = patience_us
        told = (out / _NOTE).read_text()
        self._batches = [Batch(**each) for each in json.loads(told)] if told else []

    def absorb(self, requests: Requests, batch_id: int) -> None:
        """Take in one batch; taken in again, it replaces what it was."""
        earlier = [each for each in self._batches if each.number < batch_id]
        self._keep(requests, batch_id)
        seen = extent(requests).collect()[0]
        if seen["first_us"] is None:
            return
        last_us = max(seen["last_us"], *(each.last_us for each in earlier), _BEFORE_ALL)
        until_us = last_us - self._patience_us
        judged = self._judge(earlier, batch_id, until_us)
        self._write(JUDGED, judged, batch_id)
        batch = Batch(batch_id, seen["first_us"], last_us, until_us)
        self._note([*earlier, batch])

    def finish(self) -> None:
        """Judge what still waits: nothing more will come."""
        if self._batches:
            number = self._batches[-1].number + 1
            self._write(JUDGED, self._judge(self._batches, number, _AFTER_ALL), number)
            last = self._batches[-1]
            self._note([*self._batches, Batch(number, last.first_us, last.last_us, _AFTER_ALL)])

    def judged(self) -> DataFrame:
        """Return every commit that is judged so far, as `JUDGED`."""
        return self._read(JUDGED)

    def totals(self) -> DataFrame:
        """Return what each rule makes of them, as the fencing audit's totals."""
        return TOTALS.shape(totals(self.judged(), self._read(ENDS)))

    def ghosts(self) -> DataFrame:
        """Return the ghosts so far, as `GHOSTS`."""
        begun = min((each.first_us for each in self._batches), default=0)
        ended = max((each.last_us for each in self._batches), default=0)
        span = self._spark.range(1).select(
            f.lit(begun).alias("first_us"), f.lit(ended).alias("last_us")
        )
        return GHOSTS.shape(
            ghosts(self._read(SIGNS), self._held(), span, self._options.session_timeout_ms)
        )

    def _keep(self, requests: Requests, batch_id: int) -> None:
        ends = requests.of("EndTxn").select(
            "request.transactional_id", f.unix_micros("ts").alias("at")
        )
        frames = (
            telling(heartbeats(requests)),
            commits(requests),
            signs(requests),
            topics(requests),
            tasks(requests),
            ends,
        )
        for kept, frame in zip(_KEPT, frames, strict=True):
            self._write(kept, kept.shape(frame), batch_id)

    def _judge(self, earlier: list[Batch], batch_id: int, until_us: int) -> DataFrame:
        """Judge the commits that have waited long enough, and those that came too late to wait."""
        from_us = earlier[-1].judged_until_us if earlier else _BEFORE_ALL
        answered = f.coalesce("end_us", "start_us")
        is_new = f.col("batch") == batch_id
        due = (answered <= until_us) & ((answered > from_us) | is_new)
        # Whole folders of batches that are long judged are not even opened.
        waiting = min((each.number for each in earlier if each.last_us > from_us), default=batch_id)
        asked = self._read(COMMITS, with_batch=True).where((f.col("batch") >= waiting) & due)
        return judge(
            asked.drop("batch"),
            steps(self._read(HEARTBEATS)),
            self._held(),
            self._read(TOPICS).distinct(),
        )

    def _held(self) -> DataFrame:
        return holdings(
            steps(self._read(HEARTBEATS)),
            self._read(TOPICS).distinct(),
            self._read(TASKS).distinct(),
        )

    def _write(self, kept: Table, frame: DataFrame, batch_id: int) -> None:
        frame.write.mode("overwrite").parquet((self._out / kept.name / f"batch={batch_id}").url)

    def _read(self, kept: Table, *, with_batch: bool = False) -> DataFrame:
        folder = self._out / kept.name
        if not any(folder.walk()):
            empty = kept.empty(self._spark)
            return empty.withColumn("batch", f.lit(0)) if with_batch else empty
        schema = kept.schema.add("batch", "integer")
        rows = self._spark.read.schema(schema).parquet(folder.url)
        return rows if with_batch else rows.drop("batch")

    def _note(self, batches: list[Batch]) -> None:
        (self._out / _NOTE).write_text(json.dumps([asdict(each) for each in batches]))
        self._batches = batches
