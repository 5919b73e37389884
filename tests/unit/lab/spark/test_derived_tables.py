"""Small tables that are read back as in-memory rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.spark.derived_tables import (
    choose_bucket_ms,
    load_into_memory,
    write_once,
)
from kafkalite.lab.spark.locations import location

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = "group_id string, at timestamp, names array<string>"


@pytest.mark.parametrize(
    ("duration_ms", "bucket_ms"),
    [(0, 1), (60, 1), (5_000, 100), (9_999, 100), (60_000, 1_000), (400_000, 5_000)],
)
def test_short_capture_has_short_buckets(duration_ms: int, bucket_ms: int) -> None:
    assert choose_bucket_ms(10_000, duration_ms) == bucket_ms


def test_bucket_is_not_longer_than_configured() -> None:
    assert choose_bucket_ms(10_000, 86_400_000) == 10_000
    assert choose_bucket_ms(30, 1_000) == 20
    assert choose_bucket_ms(3, 150) == 3


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
