"""Merging of membership requests; silences between them remain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from pyspark.sql import functions as f

from kafkalite.lab.spark.state.liveness import JOIN, LEAVE, MEMBERSHIP_REQUESTS, STAY
from kafkalite.lab.spark.state.liveness_runs import merge_into_runs
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

SECOND: Final = 1_000_000
TIMEOUT_MS: Final = 45_000
BEGINNING: Final = 0

SentRequest = tuple[str, str, int]
"""(member, sign, second); answered a tenth of a second later."""


def table_of(spark: SparkSession, membership_requests: Sequence[SentRequest]) -> DataFrame:
    rows = []
    for position, (member, sign, second) in enumerate(membership_requests):
        row: dict[str, object] = dict.fromkeys(
            column.name for column in MEMBERSHIP_REQUESTS.columns
        )
        row |= {
            "start_us": second * SECOND,
            "end_us": second * SECOND + SECOND // 10,
            "connection": 1,
            "position": position,
            "group_id": "group",
            "member_id": member,
            "request_member_id": "" if sign == JOIN else member,
            "action": sign,
            "may_leave_ghost": False,
            "error": 0,
        }
        rows.append(tuple(row[column.name] for column in MEMBERSHIP_REQUESTS.columns))
    return spark.createDataFrame(rows, MEMBERSHIP_REQUESTS.schema)


def ordered(frame: DataFrame) -> list[Row]:
    return frame.orderBy("member_id", "start_us").collect()


def intervals(rows: Sequence[Row]) -> list[tuple[str, str, int, int]]:
    return [
        (row.member_id, row.action, row.start_us // SECOND, row.end_us // SECOND) for row in rows
    ]


FIRST_HEARTBEATS: Final = [("m", JOIN, 0), *(("m", STAY, second) for second in range(3, 90, 3))]
LATER_HEARTBEATS: Final = [("m", STAY, second) for second in range(200, 230, 3)]


def test_requests_without_a_silence_are_merged_into_one(spark: SparkSession) -> None:
    rows = ordered(merge_into_runs(table_of(spark, FIRST_HEARTBEATS), TIMEOUT_MS, BEGINNING))
    assert intervals(rows) == [("m", STAY, 0, 87)]
    assert rows[0].request_member_id == ""


def test_silence_longer_than_the_session_timeout_remains(
    spark: SparkSession,
) -> None:
    whole = ordered(
        merge_into_runs(table_of(spark, FIRST_HEARTBEATS + LATER_HEARTBEATS), TIMEOUT_MS, BEGINNING)
    )
    assert intervals(whole) == [("m", STAY, 0, 87), ("m", STAY, 200, 227)]
    known = merge_into_runs(table_of(spark, FIRST_HEARTBEATS), TIMEOUT_MS, BEGINNING)
    both = known.unionByName(table_of(spark, LATER_HEARTBEATS))
    assert intervals(ordered(merge_into_runs(both, TIMEOUT_MS, BEGINNING))) == intervals(whole)


def test_time_after_a_leave_is_not_a_silence(spark: SparkSession) -> None:
    membership_requests = [*FIRST_HEARTBEATS, ("m", LEAVE, 91), ("m", JOIN, 300)]
    rows = ordered(merge_into_runs(table_of(spark, membership_requests), TIMEOUT_MS, BEGINNING))
    assert intervals(rows) == [("m", STAY, 0, 300)]


def test_time_after_a_refused_leave_is_a_silence(spark: SparkSession) -> None:
    membership_requests = table_of(spark, [*FIRST_HEARTBEATS, ("m", LEAVE, 91), ("m", JOIN, 300)])
    refused = f.when(f.col("action") == LEAVE, int(ErrorCode.NOT_COORDINATOR)).otherwise(0)
    rows = ordered(
        merge_into_runs(membership_requests.withColumn("error", refused), TIMEOUT_MS, BEGINNING)
    )
    assert intervals(rows) == [("m", STAY, 0, 87), ("m", JOIN, 300, 300)]


def test_members_last_seen_before_the_start_and_older_silences_are_dropped(
    spark: SparkSession,
) -> None:
    membership_requests = [
        *FIRST_HEARTBEATS,
        *LATER_HEARTBEATS,
        ("gone", JOIN, 10),
        ("gone", STAY, 20),
    ]
    rows = ordered(merge_into_runs(table_of(spark, membership_requests), TIMEOUT_MS, 100 * SECOND))
    assert intervals(rows) == [("m", STAY, 0, 227)]
