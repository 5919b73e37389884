"""State of a stream between batches: tables in one folder per batch, and the findings.

A batch reads the folder of the batch before and writes its own. Its metadata file is written last
and marks it as complete, so a repeated batch starts from the same state. Findings are in one folder
per batch too, so a repeated batch replaces its findings.

Small tables are held in this process, as rows that Spark knows when it plans a query: Spark removes
empty tables from the plan, and each query is a single task.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from kafkalite.lab.spark.locations import LocationError, find
from kafkalite.lab.spark.tuning import DRIVER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.state.tables import Table

STATE: Final = "_kafkalite/state"
FOREVER: Final = 2**62

_METADATA: Final = "note.json"
_BATCH: Final = "batch"
_FILE: Final = "part.parquet"


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """Metadata of a batch: time range so far, the batch whose folder has each table, and counts."""

    first_us: int = FOREVER
    last_us: int = -FOREVER
    tables: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


class StoredTables:
    """Tables of state and findings below one location."""

    def __init__(self, spark: SparkSession, out: Location, finding_tables: Iterable[Table]) -> None:
        """Use `out`; `finding_tables` are the tables of findings, to which each batch adds rows."""
        self._spark = spark
        self._out = out
        self._finding_tables = tuple(finding_tables)
        self._has_begun = False

    def begin(self, number: int, *, are_few: bool = False) -> BatchState:
        """Begin a batch with the state before it; `are_few` means that it has few requests.

        State and findings of this batch from an earlier attempt, and of later batches, are deleted.
        """
        numbers = _numbers(self._out)
        previous_batch = self._previous_metadata(number, numbers)
        for old_number in numbers:
            if old_number >= number:
                (self._out / f"{STATE}/{old_number}").delete()
        for table in self._finding_tables:
            for name in self._batches(table, number):
                (self._out / table.name / name).delete()
        self._has_begun = True
        return BatchState(self._spark, self._out, number, previous_batch, are_few=are_few)

    def findings(self, table: Table) -> DataFrame:
        """Return the findings of all batches in a table."""
        return _read(self._spark, table, self._out / table.name)

    def _previous_metadata(self, number: int, numbers: Iterable[int]) -> BatchMetadata:
        for earlier in sorted((earlier for earlier in numbers if earlier < number), reverse=True):
            metadata = self._out / f"{STATE}/{earlier}/{_METADATA}"
            try:
                text = metadata.read_text()
                if text is not None:
                    return BatchMetadata(**json.loads(text))
            except (ValueError, TypeError) as error:
                raise LocationError(
                    f"{metadata.url}: invalid metadata of a batch: {error}"
                ) from error
        return BatchMetadata()

    def _batches(self, table: Table, number: int) -> set[str]:
        """Return the folder of this batch; at a run's first batch, those of later ones too."""
        if self._has_begun:
            return {f"{_BATCH}={number}"}
        names = {path.split("/")[0] for path in (self._out / table.name).walk()}
        numbered = {name: name.removeprefix(f"{_BATCH}=") for name in names}
        return {
            name
            for name, suffix in numbered.items()
            if suffix.isdecimal() and int(suffix) >= number
        }


class BatchState:
    """State of one batch, and of the batch before it."""

    def __init__(
        self,
        spark: SparkSession,
        out: Location,
        number: int,
        previous_batch: BatchMetadata,
        *,
        are_few: bool,
    ) -> None:
        """Begin with the tables and counts of the batch before."""
        self.spark = spark
        self.previous_batch = previous_batch
        self.counts = Counter(previous_batch.counts)
        self._number = number
        self._out = out
        self._tables = dict(previous_batch.tables)
        self.is_small = are_few and self._stored_bytes() <= DRIVER_BYTES

    def has(self, table: Table) -> bool:
        """Whether this batch or an earlier one stored a table."""
        return table.name in self._tables

    def previous(self, table: Table) -> DataFrame:
        """Return a table as stored by the batch before."""
        number = self.previous_batch.tables.get(table.name)
        if number is None:
            return table.empty(self.spark)
        return self._read(table, self._folder(number, table))

    def store(self, table: Table, frame: DataFrame) -> DataFrame:
        """Store a table, and return it as stored."""
        self._tables[table.name] = self._number
        return self._write(table, frame, self._folder(self._number, table))

    def add_findings(self, table: Table, frame: DataFrame) -> DataFrame | None:
        """Add findings to a table and return them; None if there are none."""
        folder = self._out / f"{table.name}/{_BATCH}={self._number}"
        written = self._write(table, frame, folder)
        if not any(map(_row_count, _files(folder))):
            folder.delete()
            return None
        return written

    def store_rows(self, table: Table, rows: pa.Table) -> None:
        """Store a table from rows in this process."""
        self._tables[table.name] = self._number
        with (self._folder(self._number, table) / _FILE).create() as stream:
            parquet.write_table(rows, stream)

    def previous_rows(self, table: Table) -> list[pa.Table]:
        """Return the rows of a table that `store_rows` of an earlier batch stored."""
        number = self.previous_batch.tables.get(table.name)
        return [] if number is None else [*map(_read_rows, _files(self._folder(number, table)))]

    def compute(self, frame: DataFrame) -> DataFrame:
        """Compute a table once, so that queries of it do not compute it again."""
        if not self.is_small:
            return frame.localCheckpoint()
        return self._in_memory(frame.toArrow(), frame.schema)

    def match_partitions(self, frame: DataFrame) -> DataFrame:
        """Return a table of new requests with as many partitions as stored tables have."""
        return frame.coalesce(1) if self.is_small else frame

    def replace_rows(self, table: Table, rows: pa.Table) -> None:
        """Replace a table's rows."""
        draft = self._out / f"_kafkalite/{table.name}.parquet"
        with draft.create() as stream:
            parquet.write_table(rows, stream)
        draft.move_to(self._out / f"{table.name}/{table.name}.parquet")

    def end(self, first_us: int, last_us: int) -> None:
        """Mark the batch as complete, and delete folders that no batch needs any more."""
        metadata = BatchMetadata(first_us, last_us, self._tables, dict(self.counts))
        file = self._out / f"{STATE}/{self._number}/{_METADATA}"
        file.write_text(json.dumps(asdict(metadata)))
        needed = {self._number, self._number - 1}
        needed |= {*self._tables.values(), *self.previous_batch.tables.values()}
        for old_number in _numbers(self._out) - needed:
            (self._out / f"{STATE}/{old_number}").delete()

    def _write(self, table: Table, frame: DataFrame, folder: Location) -> DataFrame:
        """Write a table and return it as written."""
        shaped = table.shape(frame)
        if not self.is_small:
            shaped.write.mode("overwrite").parquet(folder.url)
            return _read(self.spark, table, folder)
        rows = shaped.toArrow()
        with (folder / _FILE).create() as stream:
            parquet.write_table(rows, stream)
        return self._in_memory(rows, table.schema)

    def _read(self, table: Table, folder: Location) -> DataFrame:
        if not self.is_small:
            return _read(self.spark, table, folder)
        rows = [_read_rows(file) for file in _files(folder)]
        return (
            self._in_memory(pa.concat_tables(rows), table.schema)
            if rows
            else table.empty(self.spark)
        )

    def _in_memory(self, rows: pa.Table, schema: StructType) -> DataFrame:
        # A single partition: grouping and sorting need no shuffle.
        return self.spark.createDataFrame(rows, schema).coalesce(1)

    def _stored_bytes(self) -> int:
        tables = self.previous_batch.tables.items()
        folders = (self._out / f"{STATE}/{number}/{name}" for name, number in tables)
        return sum(file.size for file in find(folder.url for folder in folders))

    def _folder(self, number: int, table: Table) -> Location:
        return self._out / f"{STATE}/{number}/{table.name}"


def _read(spark: SparkSession, table: Table, folder: Location) -> DataFrame:
    if not any(folder.walk()):
        return table.empty(spark)
    names = [column.name for column in table.columns]
    return spark.read.schema(table.schema).parquet(folder.url).select(*names)


def _numbers(out: Location) -> set[int]:
    names = {path.split("/")[0] for path in (out / STATE).walk()}
    return {int(name) for name in names if name.isdecimal()}


def _files(folder: Location) -> list[Location]:
    return [folder / name for name in folder.walk() if name.endswith(".parquet")]


def _read_rows(file: Location) -> pa.Table:
    with file.files.open_input_file(file.path) as stream:
        return parquet.read_table(stream)


def _row_count(file: Location) -> int:
    with file.files.open_input_file(file.path) as stream:
        return int(parquet.read_metadata(stream).num_rows)
