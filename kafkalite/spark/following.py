"""A capture that grows, followed: new files as a stream, each batch of them decoded and handed on.

Batches are joined within, not with each other: a request that is open when the last file of a batch
ends has no answer there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.columnar.options import EVERYTHING
from kafkalite.spark import register
from kafkalite.spark.inputs import ByName
from kafkalite.spark.places import InputFile
from kafkalite.spark.requests import Requests
from kafkalite.spark.sizing import sized
from kafkalite.spark.sources.capture import NAME
from kafkalite.spark.stages.decoding import Task
from kafkalite.spark.stitch import stitch
from kafkalite.spark.telling import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.columnar.options import Options
    from kafkalite.spark.places import Place
    from kafkalite.spark.telling import Teller

    Derive = Callable[[Requests, str], DataFrame]

FILES_A_BATCH: Final = 16

_LOT_BYTES: Final = 128 << 20
_CHECKPOINT: Final = "_kafkalite/checkpoint"
_BATCH: Final = "_kafkalite/batch"
_LOOKS_EVERY: Final = "5 seconds"
_ASKS_EVERY_S: Final = 1


def follow(
    spark: SparkSession,
    inputs: Sequence[str],
    out: Place,
    each: Callable[[Requests, int], None],
    derive: Derive | None = None,
    *,
    options: Options = EVERYTHING,
    available_now: bool = False,
    tell: Teller | None = None,
    told_to_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Hand on the requests of files that come to be, until it is told to stop.

    With `available_now` it ends when what is there is done. Where it was, it goes on from, by what
    it keeps in `out`; the batch that it was ended in comes again, with its number.
    """
    register(spark)
    decoding = _Decoding(spark, inputs, out, derive, options, tell or Silent())

    def take(names: DataFrame, number: int) -> None:
        files = [
            InputFile(url=row.file, size=row.size, modified_ns=0)
            for row in names.orderBy("file").collect()
        ]
        if files:
            decoding.take(names.sparkSession, files, number, each)

    reader = spark.readStream.format(NAME).options(
        table="files", paths=",".join(inputs), maxFilesPerTrigger=str(FILES_A_BATCH)
    )
    writer = reader.load().writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", (out / _CHECKPOINT).url)
    if available_now:
        query = writer.trigger(availableNow=True).start()
    else:
        query = writer.trigger(processingTime=_LOOKS_EVERY).start()
    while not query.awaitTermination(_ASKS_EVERY_S):
        # In the midst of a batch its jobs would fail one by one, each with its own report.
        if told_to_stop() and not query.status["isTriggerActive"]:
            query.stop()
            return


@dataclass(frozen=True, slots=True)
class _Decoding:
    """What becomes of the files of a batch."""

    spark: SparkSession
    inputs: Sequence[str]
    out: Place
    derive: Derive | None
    options: Options
    tell: Teller

    def take(
        self,
        session: SparkSession,
        files: list[InputFile],
        number: int,
        each: Callable[[Requests, int], None],
    ) -> None:
        """Decode them, and hand on their requests; `session` is the stream's own."""
        staged = self.out / f"{_BATCH}-{number}"
        staged.delete()
        task = Task(staged=staged, name=f"{number:06}", options=self.options)
        size = sum(file.size for file in files)
        # What is kept between batches is read by the session that the stream was started from.
        with sized(session, size), sized(self.spark, size):
            lots = ByName(session, self.inputs).decode(files, task, _LOT_BYTES, self.tell)
            stitch(session, lots, lots, self.out, task, self.tell)
            each(Requests.read(session, staged, self.derive), number)
        staged.delete()
        self.tell.step(f"batch {number:,}: {len(files):,} files")
