"""The offsets audit: results for events at the same time do not depend on the order of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.lab.spark.audits.offsets import EXPIRY_CANDIDATES, expirations, lag
from kafkalite.lab.spark.state.accepted_offsets import ACCEPTED_OFFSETS
from kafkalite.lab.spark.state.high_watermarks import HIGH_WATERMARKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND: Final = 1_000_000
INTERVAL: Final = "group_id string, protocol string, from_us bigint, until_us bigint"


def test_lag_uses_the_highest_of_offsets_committed_at_the_same_time(spark: SparkSession) -> None:
    rows = [("g", "t", 0, offset, 0, SECOND, -1, False) for offset in (10, 30, 20)]
    watermarks = spark.createDataFrame([("t", 0, 0, 50)], HIGH_WATERMARKS.schema)
    for ordered_rows in (rows, rows[::-1]):
        found = lag(
            spark.createDataFrame(ordered_rows, ACCEPTED_OFFSETS.schema).coalesce(1),
            watermarks,
            SECOND * 60,
        )
        assert [(row.committed_offset, row.lag) for row in found.collect()] == [(30, 20)]


def test_offset_of_an_empty_group_expires_because_the_group_is_empty(
    spark: SparkSession,
) -> None:
    retention_ms = 60_000
    commits = spark.createDataFrame(
        [("g", "t", 0, 7, SECOND, None, -1, False)], EXPIRY_CANDIDATES.schema
    )
    empty = spark.createDataFrame([("g", "consumer", 2 * SECOND, None)], INTERVAL)
    unsubscribed = spark.createDataFrame(
        [("g", "consumer", 3 * SECOND, None, "t")], f"{INTERVAL}, topic string"
    )
    (row,) = expirations(commits, empty, unsubscribed, retention_ms).collect()
    assert (row.due_us, row.empty_us, row.unsubscribed_us) == (61 * SECOND, 2 * SECOND, None)
