"""A capture that grows, followed: new files as a stream, each batch of them decoded and handed on.

Batches are joined within, not with each other: a request that is open when the last file of a batch
ends has no answer there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.columnar.options import EVERYTHING
from kafkalite.spark import register
from kafkalite.spark.inputs import ByName
from kafkalite.spark.places import InputFile
from kafkalite.spark.requests import Requests
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
) -> None:
    """Hand on the requests of files that come to be, until it is stopped by an interrupt.

    With `available_now` it ends when what is there is done. Where it was, it goes on from, by what
    it keeps in `out`; the batch that it was stopped in comes again, with its number.
    """
    register(spark)
    told = tell or Silent()

    def take(names: DataFrame, number: int) -> None:
        files = [
            InputFile(url=row.file, size=row.size, modified_ns=0)
            for row in names.orderBy("file").collect()
        ]
        if files:
            _take(names.sparkSession, files, number)

    def _take(session: SparkSession, files: list[InputFile], number: int) -> None:
        staged = out / f"{_BATCH}-{number}"
        staged.delete()
        task = Task(staged=staged, name=f"{number:06}", options=options)
        lots = ByName(session, inputs).decode(files, task, _LOT_BYTES, told)
        stitch(session, lots, lots, out, task, told)
        each(Requests.read(session, staged, derive), number)
        staged.delete()
        told.step(f"batch {number:,}: {len(files):,} files")

    reader = spark.readStream.format(NAME).options(
        table="files", paths=",".join(inputs), maxFilesPerTrigger=str(FILES_A_BATCH)
    )
    writer = reader.load().writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", (out / _CHECKPOINT).url)
    if available_now:
        query = writer.trigger(availableNow=True).start()
    else:
        query = writer.trigger(processingTime=_LOOKS_EVERY).start()
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
