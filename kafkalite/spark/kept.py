"""What a stream keeps from batch to batch: tables in a folder a batch, and what it has found.

A batch reads what the one before it kept, and writes a folder of its own; its note, written last,
says that it is whole. Done again, it begins where it began. What was found is a folder a batch,
too: of the same batch there is only one, and none of a batch that is to be done again.

What is small is in this process meanwhile, as rows that Spark knows while it plans: what they make
empty is left out, and each query is a single task.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet

from kafkalite.spark.places import PlaceError, find
from kafkalite.spark.sizing import HERE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalite.spark.places import Place
    from kafkalite.spark.state.tables import Table

STATE: Final = "_kafkalite/state"
FOREVER: Final = 2**62

_NOTE: Final = "note.json"
_BATCH: Final = "batch"
_FILE: Final = "part.parquet"


@dataclass(frozen=True, slots=True)
class Known:
    """What is noted of the capture so far, which batch's folder has each table, and counts."""

    first_us: int = FOREVER
    last_us: int = -FOREVER
    tables: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


class Kept:
    """Tables below one place."""

    def __init__(self, spark: SparkSession, out: Place, found: Iterable[Table]) -> None:
        """Keep them in `out`; `found` are the tables that each batch adds to."""
        self._spark = spark
        self._out = out
        self._found = tuple(found)
        self._has_begun = False

    def begin(self, number: int, *, are_few: bool = False) -> Draft:
        """Begin a batch, with what the last one before it knew; `are_few` are its requests.

        What it left when it was done before is deleted, and whatever came after it.
        """
        numbers = _numbers(self._out)
        before = self._before(number, numbers)
        for each in numbers:
            if each >= number:
                (self._out / f"{STATE}/{each}").delete()
        for made in self._found:
            for name in self._batches(made, number):
                (self._out / made.name / name).delete()
        self._has_begun = True
        return Draft(self._spark, self._out, number, before, are_few=are_few)

    def found(self, table: Table) -> DataFrame:
        """Return all that batches added to a table."""
        return _read(self._spark, table, self._out / table.name)

    def _before(self, number: int, numbers: Iterable[int]) -> Known:
        for each in sorted((each for each in numbers if each < number), reverse=True):
            note = self._out / f"{STATE}/{each}/{_NOTE}"
            try:
                told = note.read_text()
                if told is not None:
                    return Known(**json.loads(told))
            except (ValueError, TypeError) as error:
                raise PlaceError(f"{note.url}: not a note of a batch: {error}") from error
        return Known()

    def _batches(self, table: Table, number: int) -> set[str]:
        """Return the folders of this batch and later ones; only at first there may be some."""
        if self._has_begun:
            return {f"{_BATCH}={number}"}
        names = {each.split("/")[0] for each in (self._out / table.name).walk()}
        numbered = {each: each.removeprefix(f"{_BATCH}=") for each in names}
        return {each for each, told in numbered.items() if told.isdecimal() and int(told) >= number}


class Draft:
    """What one batch keeps, beside what the one before it did."""

    def __init__(
        self, spark: SparkSession, out: Place, number: int, before: Known, *, are_few: bool
    ) -> None:
        """Begin with the tables and counts of the batch before; `are_few` are new requests."""
        self.spark = spark
        self.before = before
        self.counts = Counter(before.counts)
        self._number = number
        self._out = out
        self._tables = dict(before.tables)
        self.is_small = are_few and self._known_bytes() <= HERE_BYTES

    def has(self, table: Table) -> bool:
        """Whether this batch or one before it kept a table."""
        return table.name in self._tables

    def known(self, table: Table) -> DataFrame:
        """Return a table as the batch before kept it."""
        number = self.before.tables.get(table.name)
        if number is None:
            return table.empty(self.spark)
        return self._read(table, self._folder(number, table))

    def keep(self, table: Table, frame: DataFrame) -> DataFrame:
        """Keep a table, and return it as it is kept."""
        self._tables[table.name] = self._number
        return self._written(table, frame, self._folder(self._number, table))

    def add(self, table: Table, frame: DataFrame) -> DataFrame | None:
        """Add what the batch found to a table, and return it; None for nothing."""
        folder = self._out / f"{table.name}/{_BATCH}={self._number}"
        written = self._written(table, frame, folder)
        if not any(map(_rows, _files(folder))):
            folder.delete()
            return None
        return written

    def made(self, frame: DataFrame) -> DataFrame:
        """Return what is made here and now, and not again by each query that asks for it."""
        if not self.is_small:
            return frame.localCheckpoint()
        return self._at_hand(frame.toArrow(), frame.schema)

    def new(self, frame: DataFrame) -> DataFrame:
        """Return what is made of new requests such that it suits what is known."""
        return frame.coalesce(1) if self.is_small else frame

    def put(self, table: Table, rows: pa.Table) -> None:
        """Put these rows in the place of a table's."""
        draft = self._out / f"_kafkalite/{table.name}.parquet"
        with draft.create() as stream:
            parquet.write_table(rows, stream)
        draft.move_to(self._out / f"{table.name}/{table.name}.parquet")

    def end(self, first_us: int, last_us: int) -> None:
        """Note that the batch is whole, and forget what neither it nor the one before it needs."""
        known = Known(first_us, last_us, self._tables, dict(self.counts))
        note = self._out / f"{STATE}/{self._number}/{_NOTE}"
        note.write_text(json.dumps(asdict(known)))
        needed = {self._number, self._number - 1}
        needed |= {*self._tables.values(), *self.before.tables.values()}
        for each in _numbers(self._out) - needed:
            (self._out / f"{STATE}/{each}").delete()

    def _written(self, table: Table, frame: DataFrame, folder: Place) -> DataFrame:
        """Write a table, and return it as it was written."""
        shaped = table.shape(frame)
        if not self.is_small:
            shaped.write.mode("overwrite").parquet(folder.url)
            return _read(self.spark, table, folder)
        rows = shaped.toArrow()
        with (folder / _FILE).create() as stream:
            parquet.write_table(rows, stream)
        return self._at_hand(rows, table.schema)

    def _read(self, table: Table, folder: Place) -> DataFrame:
        if not self.is_small:
            return _read(self.spark, table, folder)
        rows = [_rows_of(each) for each in _files(folder)]
        return (
            self._at_hand(pa.concat_tables(rows), table.schema) if rows else table.empty(self.spark)
        )

    def _at_hand(self, rows: pa.Table, schema: StructType) -> DataFrame:
        # In a single part: who groups or orders the rows need not bring them together.
        return self.spark.createDataFrame(rows, schema).coalesce(1)

    def _known_bytes(self) -> int:
        of = self.before.tables.items()
        folders = (self._out / f"{STATE}/{number}/{name}" for name, number in of)
        return sum(each.size for each in find(folder.url for folder in folders))

    def _folder(self, number: int, table: Table) -> Place:
        return self._out / f"{STATE}/{number}/{table.name}"


def _read(spark: SparkSession, table: Table, folder: Place) -> DataFrame:
    if not any(folder.walk()):
        return table.empty(spark)
    names = [each.name for each in table.columns]
    return spark.read.schema(table.schema).parquet(folder.url).select(*names)


def _numbers(out: Place) -> set[int]:
    told = {each.split("/")[0] for each in (out / STATE).walk()}
    return {int(each) for each in told if each.isdecimal()}


def _files(folder: Place) -> list[Place]:
    return [folder / name for name in folder.walk() if name.endswith(".parquet")]


def _rows_of(file: Place) -> pa.Table:
    with file.files.open_input_file(file.path) as stream:
        return parquet.read_table(stream)


def _rows(file: Place) -> int:
    with file.files.open_input_file(file.path) as stream:
        return int(parquet.read_metadata(stream).num_rows)
