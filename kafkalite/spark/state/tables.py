"""What a table of the pipeline is: its columns, their Spark types, and what each says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its type as Spark's SQL writes it, and what it says."""

    name: str
    type: str
    about: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table that the pipeline writes."""

    name: str
    about: str
    """What one row is."""
    columns: tuple[Column, ...]

    @property
    def schema(self) -> StructType:
        """The table's schema; what its columns say are their comments."""
        schema = StructType.fromDDL(", ".join(map(_ddl, self.columns)))
        assert isinstance(schema, StructType)
        return schema

    def shape(self, frame: DataFrame) -> DataFrame:
        """Return the columns of `frame` that the table has, in its order and of its types."""
        return frame.select(
            *(
                f.col(each.name).cast(each.type).alias(each.name, metadata={"comment": each.about})
                for each in self.columns
            )
        )

    def empty(self, spark: SparkSession) -> DataFrame:
        """Return the table without rows."""
        return nothing(spark, self.schema)


def nothing(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return no rows with these columns, such that Spark knows it while it plans.

    What it joins or unions with that is then left out of the plan; rows made here by Python, even
    none, would be a job of their own.
    """
    empty = (f.lit(None).cast(each.dataType).alias(each.name) for each in schema)
    return spark.range(1).select(*empty).where(f.lit(False))


def a_few(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return rows that are at hand, in a single part.

    PySpark makes no table of lists without rows: where there are none, it is `nothing`.
    """
    if not rows.num_rows:
        return nothing(spark, schema)
    return spark.createDataFrame(rows, schema).coalesce(1)


def _ddl(column: Column) -> str:
    about = column.about.replace("'", "\\'")
    return f"{column.name} {column.type} COMMENT '{about}'"


def table(name: str, about: str, *columns: tuple[str, str, str]) -> Table:
    """Build a table of (name, type, about) triples."""
    return Table(name, about, tuple(Column(*column) for column in columns))
