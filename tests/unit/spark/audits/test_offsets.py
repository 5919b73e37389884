"""What is of one moment is told the same, in whichever order a task has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.spark.audits.offsets import LASTING, dues, lag
from kafkalite.spark.state.marks import MARKS
from kafkalite.spark.state.taken import TAKEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND: Final = 1_000_000
SPELL: Final = "group_id string, protocol string, from_us bigint, until_us bigint"


def test_of_two_offsets_of_one_moment_lag_is_told_of_the_further_one(spark: SparkSession) -> None:
    rows = [("g", "t", 0, offset, 0, SECOND, -1, False) for offset in (10, 30, 20)]
    marks = spark.createDataFrame([("t", 0, 0, 50)], MARKS.schema)
    for turned in (rows, rows[::-1]):
        told = lag(spark.createDataFrame(turned, TAKEN.schema).coalesce(1), marks, SECOND * 60)
        assert [(row.committed_offset, row.lag) for row in told.collect()] == [(30, 20)]


def test_what_an_empty_group_loses_it_does_not_lose_for_want_of_readers(
    spark: SparkSession,
) -> None:
    kept_ms = 60_000
    commits = spark.createDataFrame([("g", "t", 0, 7, SECOND, None, -1, False)], LASTING.schema)
    spells = spark.createDataFrame([("g", "consumer", 2 * SECOND, None)], SPELL)
    unread = spark.createDataFrame(
        [("g", "consumer", 3 * SECOND, None, "t")], f"{SPELL}, topic string"
    )
    (row,) = dues(commits, spells, unread, kept_ms).collect()
    assert (row.due_us, row.empty_us, row.unread_us) == (61 * SECOND, 2 * SECOND, None)
