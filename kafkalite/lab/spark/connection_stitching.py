"""Joins parts of connections that span several files.

Only the incomplete data at the ends of files is shuffled, never whole connections. A task receives
all such data of some pairs of endpoints. A connection has little of it, however large the capture.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import to_schema
from kafkalite.lab.spark.inputs import REPORT_COLUMNS
from kafkalite.lab.spark.manifest import InputSplit
from kafkalite.lab.spark.stages.decoding import INCOMPLETE, INCOMPLETE_TABLES, TaskReport
from kafkalite.lab.spark.stages.stitching import (
    BUCKET,
    SCHEMAS,
    TABLE,
    stitch_bucket,
    stitch_incomplete,
)
from kafkalite.lab.spark.tuning import cores, fits_in_driver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, SparkSession

    from kafkalite.lab.columnar.options import Table
    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.progress import ProgressReporter
    from kafkalite.lab.spark.stages.decoding import Task

_BUCKETS_PER_CORE: Final = 4
_BUCKET_BYTES: Final = 32 << 20


def stitch(  # noqa: PLR0917 - called once
    spark: SparkSession,
    splits: Sequence[InputSplit],
    new: Sequence[InputSplit],
    out: Location,
    task: Task,
    reporter: ProgressReporter,
) -> InputSplit:
    """Join the incomplete frames and exchanges of `splits`, and write them to the staging folder.

    The files of the splits in `new` are still staged, those of the other splits are in `out`.
    Returns a split with the paths of the written files.
    """
    staged_paths = {split.incomplete for split in new}
    incomplete_files = [
        (task.staged if split.incomplete in staged_paths else out) / path
        for split in splits
        for path in split.incomplete
    ]
    if not incomplete_files:
        return InputSplit(inputs=())
    reporter.step(step_text(splits))
    size = sum(file.files.get_file_info(file.path).size for file in incomplete_files)
    if fits_in_driver(spark, size):
        return _to_split([stitch_incomplete(read_incomplete_frames(incomplete_files), task, 0, 0)])
    buckets = max(_BUCKETS_PER_CORE * cores(spark), size // _BUCKET_BYTES)
    tables = []
    for table in INCOMPLETE_TABLES:
        urls = [file.url for file in incomplete_files if f"{INCOMPLETE}/{table}/" in file.path]
        if urls:
            rows = spark.read.schema(to_schema(SCHEMAS[table])).parquet(*urls)
            tables.append(
                rows.select(
                    f.lit(str(table)).alias(TABLE),
                    _bucket(buckets).alias(BUCKET),
                    f.struct(*rows.columns).alias(str(table)),
                )
            )
    all_rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), tables)

    def stitch_rows(bucket: pa.Table) -> pa.Table:
        return stitch_bucket(bucket, task)

    report_rows = all_rows.groupBy(BUCKET).applyInArrow(stitch_rows, REPORT_COLUMNS)
    return _to_split([TaskReport.from_json(row.report) for row in report_rows.collect()])


def step_text(splits: Sequence[InputSplit]) -> str:
    """Return the description of the step that users see."""
    files = {file.url for split in splits for file in split.inputs}
    across = f" across {len(files):,} files" if len(files) > 1 else ""
    return f"joining connections{across}"


def read_incomplete_frames(incomplete_files: Sequence[Location]) -> dict[Table, pa.Table]:
    """Read the tables of incomplete frames from files."""
    incomplete = {}
    for table, schema in SCHEMAS.items():
        tables = [schema.empty_table()]
        for file in incomplete_files:
            if f"{INCOMPLETE}/{table}/" in file.path:
                with file.files.open_input_file(file.path) as stream:
                    tables.append(parquet.read_table(stream, schema=schema))
        incomplete[table] = pa.concat_tables(tables)
    return incomplete


def _bucket(buckets: int) -> Column:
    """Return the bucket of a connection; it does not depend on which endpoint is the client."""
    endpoints = f.sort_array(f.array("client", "broker"))
    return f.pmod(f.xxhash64(endpoints), f.lit(buckets)).cast("int")


def _to_split(reports: Sequence[TaskReport]) -> InputSplit:
    return InputSplit(
        inputs=(),
        requests=tuple(name for report in reports for name in report.requests),
        problems=tuple(name for report in reports for name in report.problems),
        connections=tuple(name for report in reports for name in report.connections),
        rows=sum(report.rows for report in reports),
    )
