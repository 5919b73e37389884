"""Heartbeats that repeat the one before are left out, and the same ones wherever that is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import functions as f

from kafkalite.columnar import tables
from kafkalite.spark import requests as requests_module
from kafkalite.spark.places import place
from kafkalite.spark.requests import Requests
from kafkalite.spark.state.heartbeats import (
    ALIKE,
    HEARTBEATS,
    PLAIN,
    beats,
    heartbeat_runs,
    heartbeats,
)
from kafkalite.spark.state.repeats import once

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

TIMEOUT_MS: Final = 45_000
CONSUMERS, STREAMS = 68, 88
SECOND: Final = 1_000_000

Beat = tuple[int, str, int, int | None, bool]
"""(second, member, connection, epoch it is told or None for no answer, whether it is assigned)."""


def table_of(beats: Sequence[Beat], key: int = CONSUMERS) -> pa.Table:
    rows = []
    for position, (second, member, connection, epoch, is_assigned) in enumerate(beats):
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
                "answered": None if epoch is None else second * SECOND + 7,
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


PLAIN_ONES: Final = [(second, "m", 1, 5, False) for second in range(3, 60, 3)]
STORY: Final[list[Beat]] = [
    (0, "m", 1, 5, True),
    *PLAIN_ONES,
    (60, "m", 1, None, False),
    (62, "m", 2, 5, False),
    (65, "m", 2, 6, True),
    (68, "m", 2, 6, False),
    (170, "m", 2, 6, False),
    (173, "m", 2, 6, False),
    *((second, "n", 3, 5, False) for second in range(1, 90, 2)),
]


def written(
    spark: SparkSession, folder: Path, files: Sequence[Sequence[Beat]], key: int = CONSUMERS
) -> Requests:
    api = "ConsumerGroupHeartbeat" if key == CONSUMERS else "StreamsGroupHeartbeat"
    day = folder / f"requests/api={api}/date=1970-01-01"
    day.mkdir(parents=True)
    for number, each in enumerate(files):
        parquet.write_table(table_of(each, key), day / f"{number}.parquet", row_group_size=16)

    def derive(every: Requests, _: str) -> DataFrame:
        return heartbeat_runs(every, TIMEOUT_MS)

    return Requests.read(spark, place(str(folder)), derive)


def said(frame: DataFrame) -> list[Row]:
    return frame.orderBy("member_id", "start_us", "position").collect()


def of_all(requests: Requests) -> list[Row]:
    """Return what is left when all are looked at together, by Spark."""
    return said(once(heartbeats(requests), f.expr(PLAIN), ALIKE, f.lit(TIMEOUT_MS * 1000)))


@pytest.mark.parametrize("key", [CONSUMERS, STREAMS])
@pytest.mark.parametrize("is_few", [True, False])
def test_what_is_left_does_not_depend_on_where_it_is_read(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: int,
    *,
    is_few: bool,
) -> None:
    if not is_few:
        monkeypatch.setattr(requests_module, "HERE_BYTES", 0)
    halves = [STORY[:11], STORY[11:]]
    requests = written(spark, tmp_path, halves, key)
    assert requests.are_few is is_few
    found = said(beats(requests, TIMEOUT_MS))
    assert found == of_all(requests)
    assert len(found) < len(STORY) / 4
    assert [(row.start_us // SECOND, row.lasts_us // SECOND) for row in found[:3]] == [
        (0, 0),
        (3, 57),
        (60, 60),
    ]


def test_a_heartbeat_between_those_that_another_task_read_parts_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "HERE_BYTES", 0)
    monkeypatch.setattr(requests_module, "_TASK_BYTES", 0)
    between: list[Beat] = [(20, "m", 9, None, False)]
    requests = written(spark, tmp_path, [STORY, between])
    found = said(beats(requests, TIMEOUT_MS))
    assert found == of_all(requests)
    assert [row.start_us // SECOND for row in found if row.member_id == "m"][:4] == [0, 3, 20, 21]


def test_no_heartbeats_are_a_table_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    requests = Requests.read(spark, place(str(tmp_path)), lambda *_: HEARTBEATS.empty(spark))
    assert said(beats(requests, TIMEOUT_MS)) == []
