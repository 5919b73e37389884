"""Offset resets: how far a log had reached by the time of a fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.lab.spark.audits.resets import resets
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND: Final = 1_000_000
REFUSED: Final = (
    "host string, client_id string, client string, broker string, position bigint, end_us bigint,"
    " api string, topic string, partition int, error smallint, epoch int, fetch_offset bigint"
)
LISTED: Final = (
    "host string, client_id string, topic string, partition int, asked_us bigint, answered_us"
    " bigint,"
    " of bigint, offset bigint"
)
HIGH_WATERMARKS: Final = "topic string, partition int, at_us bigint, high_watermark bigint"
LOG_STARTS: Final = "topic string, partition int, at_us bigint, log_start bigint"


@pytest.mark.parametrize(
    ("seen_us", "log_start", "cause", "log_end_offset"),
    [
        (5 * SECOND - 1, 0, "broker behind", 120),
        (5 * SECOND + 1, 0, "beyond the end", 50),
        (5 * SECOND - 1, 100, "deleted", 120),
    ],
)
def test_high_watermarks_after_the_fetch_do_not_count(
    spark: SparkSession, seen_us: int, log_start: int, cause: str, log_end_offset: int
) -> None:
    code = int(ErrorCode.OFFSET_OUT_OF_RANGE)
    client = ("host", "me", "host:1", "broker:9092")
    row = (*client, 7, 5 * SECOND, "Fetch", "t", 0, code, None, 99)
    watermarks = [("t", 0, 4 * SECOND, 50), ("t", 0, seen_us, 120), ("t", 1, SECOND, 999)]
    found = resets(
        spark.createDataFrame([row], REFUSED),
        spark.createDataFrame([], LISTED),
        spark.createDataFrame(watermarks, HIGH_WATERMARKS),
        spark.createDataFrame([("t", 0, 4 * SECOND, log_start)], LOG_STARTS),
        SECOND,
    ).collect()
    assert [(row.cause, row.log_end_offset) for row in found] == [(cause, log_end_offset)]
