"""Types that describe the pipeline's tables: columns, their Spark types and their meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalite.lab.spark.dataframes import ddl_schema, empty_frame
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.local.data_types import parse_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its type in Spark SQL, and its meaning."""

    name: str
    type: str
    about: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table that the pipeline writes."""

    name: str
    about: str
    """The meaning of one row."""
    columns: tuple[Column, ...]
    times: tuple[str, ...] = ()
    """Columns with times; a row is about the latest of them. It may be null for what goes on."""

    @property
    def schema(self) -> StructType:
        """The table's schema, with the meaning of columns as comments."""
        return ddl_schema((each.name, each.type, each.about) for each in self.columns)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The table's columns as a schema of Arrow."""
        return pa.schema([(each.name, parse_type(each.type)) for each in self.columns])

    def shape(self, frame: DataFrame) -> DataFrame:
        """Select the table's columns from `frame`, in the table's order and types."""
        return frame.select(
            *(
                f.col(column.name)
                .cast(column.type)
                .alias(column.name, metadata={"comment": column.about})
                for column in self.columns
            )
        )

    def since(self, frame: DataFrame, since_us: int | None) -> DataFrame:
        """Select the rows that are about this time or a later one; all if there is no time."""
        if since_us is None or not self.times:
            return frame
        latest = (
            f.coalesce(*map(f.unix_micros, self.times))
            if len(self.times) == 1
            else f.greatest(*map(f.unix_micros, self.times))
        )
        return frame.where(f.coalesce(latest, f.lit(since_us)) >= since_us)

    def empty(self, spark: SparkSession) -> DataFrame:
        """Return the table without rows."""
        return empty_table(spark, self.schema)


def empty_table(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty table that Spark recognizes as empty when it plans a query.

    Spark removes it from joins and unions. An empty table that Python creates would need a job.
    """
    local = empty_frame(spark, schema)
    if local is not None:
        return local
    empty = (f.lit(None).cast(column.dataType).alias(column.name) for column in schema)
    return spark.range(1).select(*empty).where(f.lit(False))


def in_memory_table(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return a table with these rows in a single partition.

    PySpark cannot create tables with list columns and no rows, so these are made by `empty_table`.
    """
    if not rows.num_rows:
        return empty_table(spark, schema)
    return spark.createDataFrame(rows, schema).coalesce(1)


def table(
    name: str, about: str, *columns: tuple[str, str, str], times: tuple[str, ...] = ()
) -> Table:
    """Build a table of (name, type, about) triples."""
    return Table(name, about, tuple(Column(*column) for column in columns), times)
