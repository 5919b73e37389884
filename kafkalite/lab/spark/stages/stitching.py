"""Joins the incomplete frames of some pairs of endpoints, from all files, and writes the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.columnar import tables
from kafkalite.lab.columnar.exchanges.stitching import stitch
from kafkalite.lab.columnar.options import Table
from kafkalite.lab.spark.stages.decoding import (
    CONNECTIONS,
    Task,
    TaskDecoder,
    TaskReport,
    attempt_id,
    report_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMAS: Final[Mapping[Table, pa.Schema]] = {
    Table.CONNECTIONS: tables.CONNECTIONS,
    Table.FRAGMENTS: tables.FRAGMENTS,
    Table.UNPAIRED: tables.UNPAIRED,
}
"""Tables of incomplete data → their columns."""

TABLE: Final = "table"
BUCKET: Final = "bucket"

CONNECTION_IDS: Final = pa.schema(
    [
        pa.field("connection", pa.int64(), nullable=False),  # number in the requests of one file
        pa.field("id", pa.int64(), nullable=False),  # number over all files
    ]
)
"""Connections that have another number in one file, because it lacks their beginning."""


def stitch_bucket(rows: pa.Table, task: Task) -> pa.Table:
    """Join the rows of one bucket; the column `table` names the struct column that a row uses."""
    bucket = rows[BUCKET][0].as_py()
    incomplete = {table: _rows_of(rows, table) for table in SCHEMAS}
    return pa.Table.from_batches(
        [report_rows([stitch_incomplete(incomplete, task, bucket, attempt_id()).to_json()])]
    )


def stitch_incomplete(
    incomplete: Mapping[Table, pa.Table], task: Task, bucket: int, attempt: int
) -> TaskReport:
    """Join incomplete data; `incomplete` must have all such data of a connection, or none."""
    decoder = TaskDecoder(task, f"stitched-{bucket:05}", attempt)
    with decoder.tables:
        stitched = stitch(*(incomplete[table] for table in SCHEMAS))
        for batch in stitched.pairs.to_batches():
            decoder.pairs(batch)
        for batch in stitched.problems.to_batches():
            decoder.problems(batch)
        for batch in connection_id_rows(stitched.renamed):
            decoder.tables.write(CONNECTIONS, batch)
    return decoder.report()


def _rows_of(rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows of one of the tables, with its columns."""
    schema = SCHEMAS[table]
    if str(table) not in rows.schema.names:
        return schema.empty_table()
    structs = rows.filter(pc.equal(rows[TABLE], str(table)))[str(table)].combine_chunks()
    columns = [pc.struct_field(structs, [number]) for number in range(structs.type.num_fields)]
    return pa.Table.from_arrays(columns, names=[field.name for field in structs.type]).cast(schema)


def connection_id_rows(renamed: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `CONNECTION_IDS` if there are any."""
    if renamed:
        columns = [pa.array(renamed.keys(), pa.int64()), pa.array(renamed.values(), pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, schema=CONNECTION_IDS)
