"""What a stream keeps from batch to batch: tables in a folder a batch, and what it has found.

A batch reads what the one before it kept, and writes a folder of its own; its note, written last,
says that it is whole. Done again, it begins where it began. What was found is a folder a batch,
too: of the same batch there is only one, and none of a batch that is to be done again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.spark.places import Place
    from kafkalite.spark.state.tables import Table

STATE: Final = "_kafkalite/state"
FOREVER: Final = 2**62

_NOTE: Final = "note.json"


@dataclass(frozen=True, slots=True)
class Known:
    """What is noted of the capture so far, which batch's folder has each table, and counts."""

    first_us: int = FOREVER
    last_us: int = -FOREVER
    tables: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class Kept:
    """Tables below one place."""

    def __init__(self, spark: SparkSession, out: Place, found: Iterable[Table]) -> None:
        """Keep them in `out`; `found` are the tables that each batch adds to."""
        self.spark = spark
        self._out = out
        self._found = tuple(found)

    def before(self, number: int) -> Known:
        """Return what the last batch before this one knew."""
        for each in sorted(self._numbers(), reverse=True):
            told = (self._out / f"{STATE}/{each}/{_NOTE}").read_text() if each < number else None
            if told is not None:
                return Known(**json.loads(told))
        return Known()

    def take_back(self, number: int) -> None:
        """Delete what this batch left when it was done before, and whatever came after it."""
        for each in self._numbers():
            if each >= number:
                (self._out / f"{STATE}/{each}").delete()
        for made in self._found:
            folder = self._out / made.name
            for name in {each.split("/")[0] for each in folder.walk()}:
                if int(name.rpartition("=")[2]) >= number:
                    (folder / name).delete()

    def note(self, number: int, known: Known, before: Known) -> None:
        """Note that a batch is whole, and forget what neither it nor the one before it needs."""
        (self._out / f"{STATE}/{number}/{_NOTE}").write_text(json.dumps(asdict(known)))
        needed = {number, number - 1, *known.tables.values(), *before.tables.values()}
        for each in self._numbers() - needed:
            (self._out / f"{STATE}/{each}").delete()

    def known(self, table: Table, known: Known) -> DataFrame:
        """Return a table as it was kept."""
        number = known.tables.get(table.name)
        if number is None:
            return table.empty(self.spark)
        return self._read(table, self._out / f"{STATE}/{number}/{table.name}")

    def keep(self, table: Table, frame: DataFrame, number: int, known: Known) -> DataFrame:
        """Keep a table, and return it as it is kept."""
        folder = self._out / f"{STATE}/{number}/{table.name}"
        table.shape(frame).write.mode("overwrite").parquet(folder.url)
        known.tables[table.name] = number
        return self._read(table, folder)

    def add(self, table: Table, frame: DataFrame, number: int) -> DataFrame | None:
        """Add what a batch found to a table, and return it; None for nothing."""
        folder = self._out / f"{table.name}/batch={number}"
        table.shape(frame).write.mode("overwrite").parquet(folder.url)
        if not any(map(_rows, _files(folder))):
            folder.delete()
            return None
        return self._read(table, folder)

    def found(self, table: Table) -> DataFrame:
        """Return all that batches added to a table."""
        return self._read(table, self._out / table.name)

    def replace(self, table: Table, frame: DataFrame) -> None:
        """Put these rows in the place of a table's."""
        draft = self._out / f"_kafkalite/{table.name}.parquet"
        with draft.create() as stream:
            parquet.write_table(table.shape(frame).toArrow(), stream)
        draft.move_to(self._out / f"{table.name}/{table.name}.parquet")

    def _read(self, table: Table, folder: Place) -> DataFrame:
        if not any(folder.walk()):
            return table.empty(self.spark)
        names = [each.name for each in table.columns]
        return self.spark.read.schema(table.schema).parquet(folder.url).select(*names)

    def _numbers(self) -> set[int]:
        return {int(each.split("/")[0]) for each in (self._out / STATE).walk()}


def _files(folder: Place) -> list[Place]:
    return [folder / name for name in folder.walk() if name.endswith(".parquet")]


def _rows(file: Place) -> int:
    with file.files.open_input_file(file.path) as stream:
        return int(parquet.read_metadata(stream).num_rows)
