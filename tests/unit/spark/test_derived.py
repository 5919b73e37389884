"""A small table that was written is at hand again, with what it is while others are planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.spark.derived import at_hand
from kafkalite.spark.places import place

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "group_id string, at timestamp, names array<string>"


@pytest.mark.parametrize("rows", [[], [("g", None, ["a", None]), (None, None, None)]])
def test_what_was_written_is_there_again(
    spark: SparkSession, tmp_path: Path, rows: list[tuple[object, ...]]
) -> None:
    where = place(str(tmp_path / "table"))
    made = spark.createDataFrame(rows, SCHEMA)
    made.write.parquet(where.url)
    told = at_hand(spark, where, made.schema)
    assert told.schema == made.schema
    assert sorted(map(str, told.collect())) == sorted(map(str, made.collect()))
    assert told.rdd.getNumPartitions() <= 1
