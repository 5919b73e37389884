"""Computes state and audit tables once and writes them; later queries read the files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from kafkalite.lab.spark.audits import AUDITS, STATES, TABLES
from kafkalite.lab.spark.audits.proofs import EVIDENCE, Places, find_requests, places_in, times_in
from kafkalite.lab.spark.dataframes import is_local
from kafkalite.lab.spark.inputs import REPORT_COLUMNS
from kafkalite.lab.spark.memory import HEAP_SETTING, audits_at_once
from kafkalite.lab.spark.stages.decoding import attempt_id, report_rows
from kafkalite.lab.spark.stages.writing import write_batches
from kafkalite.lab.spark.state.buckets import choose_bucket_ms
from kafkalite.lab.spark.state.tables import in_memory_table
from kafkalite.lab.spark.state.time_range import TIME_RANGE
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.units import MICROSECONDS_PER_MILLISECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalite.lab.spark.audits import AuditOptions
    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.progress import ProgressReporter
    from kafkalite.lab.spark.requests import Requests

STATE: Final = "state"
AUDIT: Final = "audits"
FOLDERS: Final = (
    *(f"{STATE}/{name}" for name in STATES),
    *(f"{AUDIT}/{name}" for name in TABLES),
)
"""Paths of all state and audit tables below the output folder."""

_LOCAL_AUDITS_AT_ONCE: Final = 2
"""While DuckDB computes one audit, Python writes the queries of another."""
_IN_MEMORY_BYTES: Final = 16 << 20
"""Size of a file of a state table that DuckDB keeps in memory; it reads larger ones again."""
_TIME: Final = pa.timestamp("us", tz="UTC")
_HEAP: Final = (HEAP_SETTING, "1g")
"""The setting with the size of Java's heap in this process, and Spark's default."""


class DerivedTables:
    """Computes the state and audit tables of one run, and writes them below a staging folder.

    Tables of audits are in the folder `unproven` until their proofs are known. It is deleted at the
    end, and by the next run if this one is killed.
    """

    def __init__(
        self,
        staged: Location,
        unproven: Location,
        options: AuditOptions,
        reporter: ProgressReporter,
    ) -> None:
        self._staged = staged
        self._unproven_folder = unproven
        self._options = options
        self._reporter = reporter
        self.files: dict[str, tuple[str, ...]] = {}
        """The written tables, and the paths of their files below `staged`."""
        self._unproven: dict[str, list[str]] = {}
        """The tables without their proofs, and the names of their files."""

    def state(self, requests: Requests, name: str) -> DataFrame:
        """Compute and write a state table; return the written table."""
        self._reporter.step(f"state: {name}")
        computed = STATES[name].compute(requests, self._options)
        files = self._write(f"{STATE}/{name}", computed)
        is_small = (
            sum(each.files.get_file_info(each.path).size for each in files) <= _IN_MEMORY_BYTES
            if is_local(requests.spark)
            else requests.are_few
        )
        if is_small:
            return load_into_memory(requests.spark, files, computed.schema)
        return requests.spark.read.schema(computed.schema).parquet(*(each.url for each in files))

    def audit(self, requests: Requests, names: Iterable[str]) -> None:
        """Compute and write the tables of audits, in parallel: planning a query uses one core."""
        for row in requests.state(TIME_RANGE.name).where("first_us is not null").collect():
            duration_ms = (row.last_us - row.first_us) // MICROSECONDS_PER_MILLISECOND
            bucket_ms = choose_bucket_ms(self._options.bucket_ms, duration_ms)
            self._options = replace(self._options, bucket_ms=bucket_ms)
        workers = (
            _LOCAL_AUDITS_AT_ONCE
            if is_local(requests.spark)
            else audits_at_once(str(requests.spark.conf.get(*_HEAP)))
        )
        with ThreadPoolExecutor(workers) as pool:
            futures = [
                # The context has the engine in use.
                pool.submit(copy_context().run, self._audit, requests, name)
                for name in names
            ]
            for future in futures:
                future.result()
        self._add_proofs(requests)

    def _audit(self, requests: Requests, name: str) -> None:
        audit = AUDITS[name]
        self._reporter.step(f"audit: {name}: {audit.summary}")
        for table, frame in audit.compute(requests, self._options).items():
            within = TABLES[table].since(frame, self._options.since_us)
            if table in EVIDENCE:
                self._unproven[table] = _write_files(self._unproven_folder / table, within, table)
            else:
                self._write(f"{AUDIT}/{table}", within)

    def _add_proofs(self, requests: Requests) -> None:
        """Write the tables again, with the requests that prove their rows."""
        tables = {
            name: [_read(self._unproven_folder / name / file) for file in files]
            for name, files in self._unproven.items()
        }
        times = [times_in(name, rows) for name, parts in tables.items() for rows in parts]
        named = np.unique(np.concatenate([np.zeros(0, np.int64), *times]))
        found = Places(())
        if len(named):
            self._reporter.step("proofs of findings")
            has_groups = any(
                rows.num_rows and each.group
                for name, parts in tables.items()
                for each in EVIDENCE[name]
                for rows in parts
            )
            found = places_in(find_requests(requests, named, has_groups=has_groups), named)
        for name, parts in tables.items():
            folder = f"{AUDIT}/{name}"
            self.files[folder] = tuple(f"{folder}/{file}" for file in self._unproven[name])
            for file, rows in zip(self._unproven[name], parts, strict=True):
                with (self._staged / folder / file).create() as stream:
                    parquet.write_table(found.add_to(name, rows), stream)
        if tables:
            self._unproven_folder.delete()

    def _write(self, folder: str, frame: DataFrame) -> list[Location]:
        """Write a table that is part of the output; returns its files."""
        names = _write_files(self._staged / folder, frame, folder)
        self.files[folder] = tuple(f"{folder}/{name}" for name in names)
        return [self._staged / folder / name for name in names]


def _write_files(where: Location, frame: DataFrame, description: str) -> list[str]:
    """Write a table below a folder; returns the names of its files."""
    if is_local(frame.sparkSession):
        name = f"{SystemEntropy().uuid4_text()}.parquet"
        frame.write.parquet((where / name).url)
        return [name]
    context = getattr(frame.sparkSession, "sparkContext", None)
    if context is not None:  # Spark Connect has none
        context.setJobDescription(description)
    if where.is_object:
        return write_once(frame, where, SystemEntropy().uuid4_text())
    frame.write.parquet(where.url)
    return [name for name in where.walk() if name.endswith(".parquet")]


def _read(file: Location) -> pa.Table:
    """Read a table that Spark or DuckDB has written; times are as in all tables."""
    with file.files.open_input_file(file.path) as stream:
        rows = parquet.read_table(stream)
    fields = [
        field.with_type(_TIME) if pa.types.is_timestamp(field.type) else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def write_once(frame: DataFrame, where: Location, name: str) -> list[str]:
    """Write a table to files with the prefix `name` in an object store; returns their names.

    Spark's own writer creates temporary objects and moves them, which copies them.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = f"{name}-{attempt_id()}.parquet"
        if write_batches(batches, where / file):
            yield report_rows([file])

    written = [row.report for row in frame.mapInArrow(write, REPORT_COLUMNS).collect()]
    if not written:
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - with Spark only

        written = [f"{name}.parquet"]
        schema = to_arrow_schema(frame.schema, timezone="UTC")
        with (where / written[0]).create() as stream:
            parquet.write_table(schema.empty_table(), stream)
    return sorted(written)


def load_into_memory(
    spark: SparkSession, files: Iterable[Location], schema: StructType
) -> DataFrame:
    """Return a small written table as in-memory rows, which Spark knows when it plans a query.

    Spark removes empty tables from the plan, and does not read the files again for each query.
    """
    parts = []
    for file in files:
        with file.files.open_input_file(file.path) as stream:
            parts.append(parquet.read_table(stream))
    return in_memory_table(spark, pa.concat_tables(parts), schema)
