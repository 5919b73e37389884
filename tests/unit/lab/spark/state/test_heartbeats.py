"""Heartbeats without repetitions: the result does not depend on where they are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import functions as f

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark import requests as requests_module
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.requests import Requests
from kafkalite.lab.spark.state.heartbeats import (
    EQUAL_COLUMNS,
    HEARTBEATS,
    IS_MERGEABLE,
    distinct_heartbeats,
    heartbeat_runs,
    heartbeats,
)
from kafkalite.lab.spark.state.repeated_heartbeats import collapse_repeats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

TIMEOUT_MS: Final = 45_000
CONSUMERS, STREAMS = 68, 88
SECOND: Final = 1_000_000

Heartbeat = tuple[int, str, int, int | None, bool]
"""(second, member, connection, epoch in the response or None, whether it has an assignment)."""


def table_of(rows_: Sequence[Heartbeat], key: int = CONSUMERS) -> pa.Table:
    rows = []
    for position, (second, member, connection, epoch, is_assigned) in enumerate(rows_):
        given = [{"topic_id": b"0" * 16, "partitions": [0, 3]}] if key == CONSUMERS else []
        assigned = (
            {"assignment": {"topic_partitions": given} if is_assigned else None}
            if key == CONSUMERS
            else {"active_tasks": given if is_assigned else None}
        )
        answer = {"error_code": 0, "member_id": "", "member_epoch": epoch, **assigned}
        rows.append(
            {
                **dict.fromkeys(("api_version", "correlation_id", "request_bytes"), 0),
                "ts": second * SECOND,
                "response_ts": None if epoch is None else second * SECOND + 7,
                "connection": connection,
                "client": f"host:{connection}",
                "broker": "broker:9092",
                "api_key": key,
                "file": "file",
                "offset": position,
                "request": {"group_id": "g", "member_id": member, "member_epoch": epoch or 1},
                "response": None if epoch is None else answer,
            }
        )
    return pa.Table.from_pylist(rows, schema=tables.requests(key))


UNCHANGED_HEARTBEATS: Final = [(second, "m", 1, 5, False) for second in range(3, 60, 3)]
HISTORY: Final[list[Heartbeat]] = [
    (0, "m", 1, 5, True),
    *UNCHANGED_HEARTBEATS,
    (60, "m", 1, None, False),
    (62, "m", 2, 5, False),
    (65, "m", 2, 6, True),
    (68, "m", 2, 6, False),
    (170, "m", 2, 6, False),
    (173, "m", 2, 6, False),
    *((second, "n", 3, 5, False) for second in range(1, 90, 2)),
]


def write_requests(
    spark: SparkSession, folder: Path, files: Sequence[Sequence[Heartbeat]], key: int = CONSUMERS
) -> Requests:
    api = "ConsumerGroupHeartbeat" if key == CONSUMERS else "StreamsGroupHeartbeat"
    day = folder / f"requests/api={api}/date=1970-01-01"
    day.mkdir(parents=True)
    for number, each in enumerate(files):
        parquet.write_table(table_of(each, key), day / f"{number}.parquet", row_group_size=16)

    def derive(requests: Requests, _: str) -> DataFrame:
        return heartbeat_runs(requests, TIMEOUT_MS)

    return Requests.read(spark, location(str(folder)), derive)


def ordered(frame: DataFrame) -> list[Row]:
    return frame.orderBy("member_id", "start_us", "position").collect()


def merge_at_once(requests: Requests) -> list[Row]:
    """Return the result of merging all heartbeats at once, by Spark."""
    return ordered(
        collapse_repeats(
            heartbeats(requests), f.expr(IS_MERGEABLE), EQUAL_COLUMNS, f.lit(TIMEOUT_MS * 1000)
        )
    )


@pytest.mark.parametrize("key", [CONSUMERS, STREAMS])
@pytest.mark.parametrize("is_few", [True, False])
def test_result_does_not_depend_on_where_heartbeats_are_merged(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: int,
    *,
    is_few: bool,
) -> None:
    if not is_few:
        monkeypatch.setattr(requests_module, "DRIVER_BYTES", 0)
    halves = [HISTORY[:11], HISTORY[11:]]
    requests = write_requests(spark, tmp_path, halves, key)
    assert requests.are_few is is_few
    found = ordered(distinct_heartbeats(requests, TIMEOUT_MS))
    assert found == merge_at_once(requests)
    assert len(found) < len(HISTORY) / 4
    assert [(row.start_us // SECOND, row.last_end_us // SECOND) for row in found[:3]] == [
        (0, 0),
        (3, 57),
        (60, 60),
    ]


def test_heartbeat_of_another_task_splits_a_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "DRIVER_BYTES", 0)
    monkeypatch.setattr(requests_module, "_TASK_BYTES", 0)
    between: list[Heartbeat] = [(20, "m", 9, None, False)]
    requests = write_requests(spark, tmp_path, [HISTORY, between])
    found = ordered(distinct_heartbeats(requests, TIMEOUT_MS))
    assert found == merge_at_once(requests)
    assert [row.start_us // SECOND for row in found if row.member_id == "m"][:4] == [0, 3, 20, 21]


@pytest.mark.parametrize("is_few", [True, False])
def test_run_continues_on_another_connection_and_has_the_last_client(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_few: bool
) -> None:
    if not is_few:
        monkeypatch.setattr(requests_module, "DRIVER_BYTES", 0)
        monkeypatch.setattr(requests_module, "_TASK_BYTES", 0)
    alternating: list[Heartbeat] = [
        (second, "m", 1 + second % 7, 5, False) for second in range(0, 60, 3)
    ]
    requests = write_requests(spark, tmp_path, [alternating[:11], alternating[11:]])
    found = ordered(distinct_heartbeats(requests, TIMEOUT_MS))
    assert found == merge_at_once(requests)
    assert [(row.start_us // SECOND, row.last_end_us // SECOND) for row in found] == [(0, 57)]
    assert (found[0].connection, found[0].client) == (1, f"host:{1 + 57 % 7}")


def test_capture_without_heartbeats_gives_an_empty_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    requests = Requests.read(spark, location(str(tmp_path)), lambda *_: HEARTBEATS.empty(spark))
    assert ordered(distinct_heartbeats(requests, TIMEOUT_MS)) == []
