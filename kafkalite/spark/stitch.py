"""What is left over at the ends of files, put together: connections that go on from file to file.

Only ends are shuffled, never whole connections: a task has all the ends of some pairs of
endpoints, and those of one connection are few, however much of a capture it is.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from kafkalite.spark.inputs import TOLD, cores
from kafkalite.spark.manifest import Lot
from kafkalite.spark.sizing import HERE_BYTES, is_one_process
from kafkalite.spark.stages.decoding import LOOSE, LOOSE_TABLES, Account
from kafkalite.spark.stages.stitching import BUCKET, SCHEMAS, TABLE, stitch_bucket, stitch_ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, SparkSession

    from kafkalite.columnar.options import Table
    from kafkalite.spark.places import Place
    from kafkalite.spark.stages.decoding import Task
    from kafkalite.spark.telling import Teller

_BUCKETS_PER_CORE: Final = 4
_BUCKET_BYTES: Final = 32 << 20


def stitch(  # noqa: PLR0917 - once called
    spark: SparkSession,
    lots: Sequence[Lot],
    new: Sequence[Lot],
    out: Place,
    task: Task,
    tell: Teller,
) -> Lot:
    """Put together what `lots` left over; writes below `staged`, and returns what it wrote.

    What the `new` ones of them left over is staged itself.
    """
    fresh = {lot.loose for lot in new}
    loose = [
        (task.staged if lot.loose in fresh else out) / each for lot in lots for each in lot.loose
    ]
    if not loose:
        return Lot(inputs=())
    tell.step(f"joining what goes on from file to file: {len(loose):,} files of loose ends")
    size = sum(each.files.get_file_info(each.path).size for each in loose)
    if size <= HERE_BYTES and is_one_process(spark):
        return _lot([stitch_ends(read_loose(loose), task, 0, 0)])
    buckets = max(_BUCKETS_PER_CORE * cores(spark), size // _BUCKET_BYTES)
    parts = []
    for table in LOOSE_TABLES:
        urls = [each.url for each in loose if f"{LOOSE}/{table}/" in each.path]
        if urls:
            read = spark.read.schema(from_arrow_schema(SCHEMAS[table])).parquet(*urls)
            parts.append(
                read.select(
                    f.lit(str(table)).alias(TABLE),
                    _bucket(buckets).alias(BUCKET),
                    f.struct(*read.columns).alias(str(table)),
                )
            )
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)

    def joined(bucket: pa.Table) -> pa.Table:
        return stitch_bucket(bucket, task)

    done = rows.groupBy(BUCKET).applyInArrow(joined, TOLD)
    return _lot([Account.from_json(row.told) for row in done.collect()])


def read_loose(loose: Sequence[Place]) -> dict[Table, pa.Table]:
    """Return the loose ends in some files."""
    ends = {}
    for table, schema in SCHEMAS.items():
        tables = [schema.empty_table()]
        for each in loose:
            if f"{LOOSE}/{table}/" in each.path:
                with each.files.open_input_file(each.path) as stream:
                    tables.append(parquet.read_table(stream, schema=schema))
        ends[table] = pa.concat_tables(tables)
    return ends


def _bucket(buckets: int) -> Column:
    """Return where a connection goes, whichever of its ends a file took for the client."""
    ends = f.sort_array(f.array("client", "broker"))
    return f.pmod(f.xxhash64(ends), f.lit(buckets)).cast("int")


def _lot(accounts: Sequence[Account]) -> Lot:
    return Lot(
        inputs=(),
        requests=tuple(name for each in accounts for name in each.requests),
        problems=tuple(name for each in accounts for name in each.problems),
        connections=tuple(name for each in accounts for name in each.connections),
        rows=sum(each.rows for each in accounts),
    )
