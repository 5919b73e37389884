"""A task's work on loose ends: those of some pairs of endpoints, from all files → staged tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.columnar import tables
from kafkalite.columnar.options import Table
from kafkalite.columnar.stitching import stitch
from kafkalite.spark.stages.decoding import CONNECTIONS, Account, Lot, Task, attempt, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMAS: Final[Mapping[Table, pa.Schema]] = {
    Table.CONNECTIONS: tables.CONNECTIONS,
    Table.FRAGMENTS: tables.FRAGMENTS,
    Table.UNPAIRED: tables.UNPAIRED,
}
"""The tables of loose ends."""

TABLE: Final = "table"
BUCKET: Final = "bucket"

NAMES: Final = pa.schema(
    [
        pa.field("connection", pa.int64(), nullable=False),  # as requests have it
        pa.field("id", pa.int64(), nullable=False),  # what it is, over all files
    ]
)
"""Connections whose number in one file is not theirs: the file does not say how they began."""


def stitch_bucket(rows: pa.Table, task: Task) -> pa.Table:
    """Put together the rows of one bucket: `table` says which of the structs each row has."""
    bucket = rows[BUCKET][0].as_py()
    ends = {table: _rows_of(rows, table) for table in SCHEMAS}
    return pa.Table.from_batches([told([stitch_ends(ends, task, bucket, attempt()).to_json()])])


def stitch_ends(
    ends: Mapping[Table, pa.Table], task: Task, bucket: int, attempt_at: int
) -> Account:
    """Put together loose ends, those of a connection all or none."""
    done = Lot(task, f"stitched-{bucket:05}", attempt_at)
    with done.tables:
        found = stitch(*(ends[table] for table in SCHEMAS))
        for batch in found.pairs.to_batches():
            done.pairs(batch)
        for batch in found.problems.to_batches():
            done.problems(batch)
        for batch in names(found.renamed):
            done.tables.write(CONNECTIONS, batch)
    return done.account()


def _rows_of(rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows of one of the tables, with its columns."""
    schema = SCHEMAS[table]
    if str(table) not in rows.schema.names:
        return schema.empty_table()
    mine = rows.filter(pc.equal(rows[TABLE], str(table)))[str(table)].combine_chunks()
    flat = [pc.struct_field(mine, [number]) for number in range(mine.type.num_fields)]
    return pa.Table.from_arrays(flat, names=[each.name for each in mine.type]).cast(schema)


def names(renamed: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `NAMES`, where there are any."""
    if renamed:
        columns = [pa.array(renamed.keys(), pa.int64()), pa.array(renamed.values(), pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, schema=NAMES)
