"""The two ways in: files that Python's workers open by name, and files that Spark reads for them.

The first is faster, and has no largest file: huge ones are read in parts. The second is for where
only Hadoop's file systems lead, with the credentials that the cluster has.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.spark.manifest import Lot, pieces
from kafkalite.spark.places import InputFile, PlaceError, find, hadoops, place
from kafkalite.spark.reach import reach
from kafkalite.spark.sizing import HERE_BYTES, having, is_one_process
from kafkalite.spark.stages.decoding import (
    Account,
    decode,
    decode_contents,
    decode_lots,
    quarantine,
)
from kafkalite.spark.stages.parting import (
    PARTED,
    find_parts,
    found_parts,
    is_huge,
    part_bytes,
)
from kafkalite.spark.telling import Done

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.columnar.parts import FilePart
    from kafkalite.spark.places import Place
    from kafkalite.spark.stages.decoding import Task
    from kafkalite.spark.telling import Teller

TOLD: Final = "told string"

LARGEST_BY_SPARK: Final = 2**31 - 1
"""Spark hands over a file in one value, which has a largest size."""

_LOTS_PER_CORE: Final = 3
"""So many at least, that the last ones do not leave cores idle for long."""
_DIRECTORY: Final = "recursiveFileLookup"
_ROWS_A_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES_A_TASK: Final = "spark.sql.files.maxPartitionBytes"
_NS_PER_US: Final = 1_000


class ByName:
    """Files that workers open by their names."""

    def __init__(self, spark: SparkSession, urls: Sequence[str]) -> None:
        self._spark = spark
        self._urls = urls

    def find(self, without: Place) -> list[InputFile]:
        """List the files; PlaceError where a name leads nowhere."""
        return find(self._urls, without)

    def decode(
        self, files: Sequence[InputFile], task: Task, lot_bytes: int, tell: Teller
    ) -> list[Lot]:
        """Read files into staged tables, about so many bytes a task; small ones right here."""
        size = sum(each.size for each in files)
        if size <= min(HERE_BYTES, lot_bytes) and is_one_process(self._spark):
            with _watched(self._spark, files, tell):
                account = decode(task, 0, 0, ((each.url, None) for each in files))
                return [lot_of(account, {each.url: each for each in files})]
        tasks = _LOTS_PER_CORE * cores(self._spark)
        parts = self._parts(files, part_bytes(size, tasks, lot_bytes), tell)
        shared = pieces(files, parts, tasks, lot_bytes)
        with _watched(self._spark, files, tell) as progress:
            task = replace(task, progress=progress)
            done = self._numbers(shared).mapInArrow(
                partial(decode_lots, task=task, lots=shared), TOLD
            )
            return accounts(done, files)

    def _parts(
        self, files: Sequence[InputFile], part: int, tell: Teller
    ) -> dict[str, list[FilePart]]:
        """Find where huge files can be read in parts: a task a file goes through it."""
        huge = [each for each in files if is_huge(each, part)]
        if not huge:
            return {}
        tell.step(f"looking where {len(huge):,} large files can be read in parts")
        looking = partial(find_parts, files=huge, part=part)
        rows = self._numbers(huge).mapInArrow(looking, PARTED).collect()
        return {row.file: found_parts(row.parts) for row in rows}

    def _numbers(self, work: Sequence[object]) -> DataFrame:
        """Return the numbers of what is to be done, each for a task of its own."""
        return self._spark.range(0, len(work), 1, numPartitions=len(work))


class BySpark:
    """Files that Spark reads."""

    def __init__(self, spark: SparkSession, urls: Sequence[str]) -> None:
        self._spark = spark
        self._urls = [*map(hadoops, urls)]

    def find(self, without: Place) -> list[InputFile]:
        """List the files; PlaceError where a name leads nowhere."""
        from pyspark.errors import AnalysisException  # noqa: PLC0415 - here alone

        for url in self._urls:
            reach(self._spark, url)
        try:
            rows = self._binary(self._urls).select("path", "length", "modificationTime").collect()
        except AnalysisException as error:
            raise PlaceError(str(error).splitlines()[0]) from error
        return sorted(
            InputFile(
                url=row.path,
                size=row.length,
                modified_ns=int(row.modificationTime.timestamp() * 1_000_000) * _NS_PER_US,
            )
            for row in rows
            if not row.path.removeprefix("file:").startswith(f"{without.url.rstrip('/')}/")
        )

    def decode(
        self, files: Sequence[InputFile], task: Task, lot_bytes: int, tell: Teller
    ) -> list[Lot]:
        """Read files into staged tables, about so many bytes a task."""
        fit = [each.url for each in files if each.size <= LARGEST_BY_SPARK]
        with (
            _watched(self._spark, files, tell) as progress,
            # A batch of several would be as large as they are together.
            having(self._spark, {_ROWS_A_BATCH: "1", _BYTES_A_TASK: str(lot_bytes)}),
        ):
            task = replace(task, progress=progress)
            done: list[Lot] = []
            if fit:
                contents = self._binary(fit).select("path", "content")
                told = contents.mapInArrow(partial(decode_contents, task=task), TOLD)
                done = accounts(told, files)
        problems = [
            Problem(
                kind=ProblemKind.UNREADABLE,
                file=each.url,
                offset=None,
                connection=None,
                detail=f"{each.size:,} bytes, which is more than Spark hands over in one value",
            )
            for each in files
            if each.size > LARGEST_BY_SPARK
        ]
        return [
            *done,
            *(
                [lot_of(quarantine(task, problems), {each.url: each for each in files})]
                if problems
                else []
            ),
        ]

    def _binary(self, urls: Sequence[str]) -> DataFrame:
        reader = self._spark.read.format("binaryFile").option(_DIRECTORY, "true")
        return reader.load([*urls])


class Progress:
    """How far tasks are, counted where they run and summed where they were started."""

    def __init__(self, spark: SparkSession) -> None:
        self.files = spark.sparkContext.accumulator(0)
        self.size = spark.sparkContext.accumulator(0)

    def __call__(self, files: int, size: int) -> None:
        """Take that more is done."""
        self.files.add(files)
        self.size.add(size)

    def so_far(self) -> Done:
        """Return what tasks have told that are over."""
        return Done(self.files.value, self.size.value)


def keep_apart(urls: Iterable[str], out: Place) -> None:
    """Let nobody write where the input lies, which would hide it; PlaceError.

    A folder to write to may lie in a folder that is read: what is below it is left out there.
    """
    ours = _whole(out.url)
    for url in urls:
        if _whole(url).startswith(ours):
            raise PlaceError(
                f"{url}: lies in {out.url}, where tables and report are to go: name another place"
            )


def _whole(url: str) -> str:
    """Return a name by which places can be compared, with a slash in the end."""
    if "://" in url and not url.startswith("file:"):
        return f"{hadoops(url).rstrip('/')}/"
    return f"{os.path.realpath(place(url).path).rstrip('/')}/"


def cores(spark: SparkSession) -> int:
    """Return how many tasks run at once, as far as the session knows; 2 where it does not."""
    context = getattr(spark, "sparkContext", None)
    return 2 if context is None else max(1, int(context.defaultParallelism))


def accounts(told: DataFrame, files: Sequence[InputFile]) -> list[Lot]:
    """Run a query whose rows are accounts; returns the lots that they are of."""
    known = {each.url: each for each in files}
    found = [Account.from_json(row.told) for row in told.collect()]
    return [lot_of(account, known) for account in found if account.inputs]


def lot_of(account: Account, known: Mapping[str, InputFile]) -> Lot:
    """Return what is kept of a task's account."""
    return Lot(
        inputs=tuple(known[name] for name in account.inputs),
        requests=account.requests,
        problems=account.problems,
        connections=account.connections,
        loose=account.loose,
        rows=account.rows,
        quarantined=account.quarantined,
    )


@contextmanager
def _watched(
    spark: SparkSession, files: Sequence[InputFile], tell: Teller
) -> Iterator[Progress | None]:
    # Spark Connect has no accumulators: what is read there is told when it is over.
    progress = None if getattr(spark, "sparkContext", None) is None else Progress(spark)
    whole = Done(len(files), sum(each.size for each in files))
    with tell.reading("reading", whole, lambda: None if progress is None else progress.so_far()):
        yield progress
