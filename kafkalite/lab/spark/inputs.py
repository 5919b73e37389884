"""Two readers of input files: workers open them by name, or Spark reads them for the workers.

The first is faster, and reads huge files in parts, so it has no limit of file size. The second is
for locations that only Hadoop's file systems can open, with the cluster's credentials.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.lab.spark.access_checks import check_access
from kafkalite.lab.spark.dataframes import is_local
from kafkalite.lab.spark.locations import InputFile, LocationError, find, hadoop_url, location
from kafkalite.lab.spark.manifest import InputSplit, split_inputs
from kafkalite.lab.spark.progress import Amount
from kafkalite.lab.spark.stages.decoding import (
    TaskReport,
    decode,
    decode_contents,
    decode_splits,
    quarantine,
)
from kafkalite.lab.spark.stages.file_splitting import (
    PARTS_COLUMNS,
    find_parts,
    is_huge,
    load_parts,
    part_bytes,
)
from kafkalite.lab.spark.tuning import (
    TASKS_PER_CORE,
    cores,
    fits_in_driver,
    temporary_settings,
)
from kafkalite.ports.texts import count_text
from kafkalite.ports.units import MICROSECONDS_PER_SECOND, NANOSECONDS_PER_MICROSECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.lab.columnar.files.file_parts import FilePart
    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.progress import ProgressReporter
    from kafkalite.lab.spark.stages.decoding import Task

REPORT_COLUMNS: Final = "report string"

MAX_SPARK_FILE_BYTES: Final = 2**31 - 1
"""Limit of the size of a file that Spark reads: it passes each file as one value."""

_RECURSIVE: Final = "recursiveFileLookup"
_ROWS_PER_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES_PER_TASK: Final = "spark.sql.files.maxPartitionBytes"


class WorkerFiles:
    """Reads files that workers open by name."""

    def __init__(self, spark: SparkSession, urls: Sequence[str]) -> None:
        self._spark = spark
        self._urls = urls

    def find(self, excluded: Location) -> list[InputFile]:
        """List the files; raises LocationError for a location that does not exist."""
        return find(self._urls, excluded)

    def decode(
        self, files: Sequence[InputFile], task: Task, split_bytes: int, reporter: ProgressReporter
    ) -> list[InputSplit]:
        """Decode files into staged tables, with about `split_bytes` per task.

        Small inputs are decoded in this process.
        """
        size = sum(file.size for file in files)
        if size <= split_bytes and fits_in_driver(self._spark, size):
            with _report_progress(self._spark, files, reporter) as progress:
                if is_local(self._spark):
                    task = replace(task, progress=progress)
                report = decode(task, 0, 0, ((file.url, None) for file in files))
                return [to_split(report, {file.url: file for file in files})]
        tasks = TASKS_PER_CORE * cores(self._spark)
        parts = self._parts(files, part_bytes(size, tasks, split_bytes), reporter)
        splits = split_inputs(files, parts, tasks, split_bytes)
        with _report_progress(self._spark, files, reporter) as progress:
            task = replace(task, progress=progress)
            reports = self._indexes(splits).mapInArrow(
                partial(decode_splits, task=task, splits=splits), REPORT_COLUMNS
            )
            return read_reports(reports, files)

    def _parts(
        self, files: Sequence[InputFile], size_bytes: int, reporter: ProgressReporter
    ) -> dict[str, list[FilePart]]:
        """Find the parts of huge files, with one task per file."""
        huge = [file for file in files if is_huge(file, size_bytes)]
        if not huge:
            return {}
        reporter.step(f"looking for split points in {count_text(len(huge), 'large file')}")
        find_in_task = partial(find_parts, files=huge, size_bytes=size_bytes)
        rows = self._indexes(huge).mapInArrow(find_in_task, PARTS_COLUMNS).collect()
        return {row.file: load_parts(row.parts) for row in rows}

    def _indexes(self, work: Sequence[object]) -> DataFrame:
        """Return the indexes of `work` as a table with one task per index."""
        return self._spark.range(0, len(work), 1, numPartitions=len(work))


class SparkFiles:
    """Reads files through Spark."""

    def __init__(self, spark: SparkSession, urls: Sequence[str]) -> None:
        self._spark = spark
        self._urls = [*map(hadoop_url, urls)]

    def find(self, excluded: Location) -> list[InputFile]:
        """List the files; raises LocationError for a location that does not exist."""
        from pyspark.errors import AnalysisException  # noqa: PLC0415 - only needed here

        for url in self._urls:
            check_access(self._spark, url)
        try:
            rows = (
                self._read_binary(self._urls).select("path", "length", "modificationTime").collect()
            )
        except AnalysisException as error:
            raise LocationError(str(error).splitlines()[0]) from error
        return sorted(
            InputFile(
                url=row.path,
                size=row.length,
                modified_ns=int(row.modificationTime.timestamp() * MICROSECONDS_PER_SECOND)
                * NANOSECONDS_PER_MICROSECOND,
            )
            for row in rows
            if not row.path.removeprefix("file:").startswith(f"{excluded.url.rstrip('/')}/")
        )

    def decode(
        self, files: Sequence[InputFile], task: Task, split_bytes: int, reporter: ProgressReporter
    ) -> list[InputSplit]:
        """Decode files into staged tables, with about `split_bytes` per task."""
        readable = [file.url for file in files if file.size <= MAX_SPARK_FILE_BYTES]
        with (
            _report_progress(self._spark, files, reporter) as progress,
            # A batch of several files would exceed Spark's limit of the size of a value.
            temporary_settings(
                self._spark, {_ROWS_PER_BATCH: "1", _BYTES_PER_TASK: str(split_bytes)}
            ),
        ):
            task = replace(task, progress=progress)
            splits: list[InputSplit] = []
            if readable:
                contents = self._read_binary(readable).select("path", "content")
                reports = contents.mapInArrow(partial(decode_contents, task=task), REPORT_COLUMNS)
                splits = read_reports(reports, files)
        problems = [
            Problem(
                kind=ProblemKind.UNREADABLE,
                file=file.url,
                offset=None,
                connection=None,
                detail=f"{file.size:,} bytes exceed Spark's limit of {MAX_SPARK_FILE_BYTES:,}",
            )
            for file in files
            if file.size > MAX_SPARK_FILE_BYTES
        ]
        return [
            *splits,
            *(
                [to_split(quarantine(task, problems), {file.url: file for file in files})]
                if problems
                else []
            ),
        ]

    def _read_binary(self, urls: Sequence[str]) -> DataFrame:
        reader = self._spark.read.format("binaryFile").option(_RECURSIVE, "true")
        return reader.load([*urls])


class Progress:
    """Counts finished files and bytes in tasks, summed up in the driver."""

    def __init__(self, spark: SparkSession) -> None:
        self.files = spark.sparkContext.accumulator(0)
        self.size = spark.sparkContext.accumulator(0)

    def __call__(self, files: int, size: int) -> None:
        """Add finished files and bytes."""
        self.files.add(files)
        self.size.add(size)

    def current(self) -> Amount:
        """Return the sum of the reports of finished tasks."""
        return Amount(self.files.value, self.size.value)


@dataclass(slots=True)
class LocalProgress:
    """Counts finished files and bytes in this process."""

    files: int = 0
    size: int = 0

    def __call__(self, files: int, size: int) -> None:
        """Add finished files and bytes."""
        self.files += files
        self.size += size

    def current(self) -> Amount:
        """Return the sum."""
        return Amount(self.files, self.size)


def check_output_folder(urls: Iterable[str], out: Location) -> None:
    """Raise LocationError if an input is inside `out`, where output files would mix with it.

    `out` may be inside an input folder: output files are skipped.
    """
    output = _canonical_folder(out.url)
    for url in urls:
        if _canonical_folder(url).startswith(output):
            raise LocationError(
                f"{url}: is inside {out.url}, the output folder; choose another --out"
            )


def _canonical_folder(url: str) -> str:
    """Return a canonical location that ends with a slash, for comparison."""
    if "://" in url and not url.startswith("file:"):
        return f"{hadoop_url(url).rstrip('/')}/"
    return f"{os.path.realpath(location(url).path).rstrip('/')}/"


def read_reports(reports: DataFrame, files: Sequence[InputFile]) -> list[InputSplit]:
    """Run a query that returns tasks' reports; returns one split per report."""
    by_url = {file.url: file for file in files}
    task_reports = [TaskReport.from_json(row.report) for row in reports.collect()]
    return [to_split(report, by_url) for report in task_reports if report.inputs]


def to_split(report: TaskReport, by_url: Mapping[str, InputFile]) -> InputSplit:
    """Return the manifest's entry for a task's report."""
    return InputSplit(
        inputs=tuple(by_url[name] for name in report.inputs),
        requests=report.requests,
        problems=report.problems,
        connections=report.connections,
        incomplete=report.incomplete,
        rows=report.rows,
        quarantined=report.quarantined,
        skipped=report.skipped,
    )


@contextmanager
def _report_progress(
    spark: SparkSession, files: Sequence[InputFile], reporter: ProgressReporter
) -> Iterator[Progress | LocalProgress | None]:
    progress: Progress | LocalProgress | None = None
    if is_local(spark):
        progress = LocalProgress()
    elif getattr(spark, "sparkContext", None) is not None:
        # Spark Connect has no accumulators, so there is no progress until the end.
        progress = Progress(spark)
    total = Amount(len(files), sum(file.size for file in files))
    with reporter.reading(
        "reading", total, lambda: None if progress is None else progress.current()
    ):
        yield progress
