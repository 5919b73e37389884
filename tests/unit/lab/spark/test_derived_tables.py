"""Small tables that are read back as in-memory rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.spark.derived_tables import load_into_memory, write_once
from kafkalite.lab.spark.locations import location

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = "group_id string, at timestamp, names array<string>"


@pytest.mark.spark
@pytest.mark.parametrize("is_object", [False, True])
@pytest.mark.parametrize("rows", [[], [("g", None, ["a", None]), (None, None, None)]])
def test_written_table_is_read_back_unchanged(
    spark: SparkSession,
    tmp_path: Path,
    rows: list[tuple[object, ...]],
    is_object: bool,  # noqa: FBT001
) -> None:
    where = location(str(tmp_path / "table"))
    made = spark.createDataFrame(rows, SCHEMA)
    if is_object:
        files = write_once(made, where, "name")
        assert all(name.startswith("name") for name in files)
        assert sorted(where.walk()) == files
    else:
        made.write.parquet(where.url)
        files = [name for name in where.walk() if name.endswith(".parquet")]
    read = load_into_memory(spark, [where / name for name in files], made.schema)
    assert read.schema == made.schema
    assert sorted(map(str, read.collect())) == sorted(map(str, made.collect()))
    assert read.rdd.getNumPartitions() <= 1
