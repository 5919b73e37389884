"""Partition epochs by connection: one row for each, with the time of the first response."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.requests import Requests
from kafkalite.lab.spark.state.partition_epochs import partition_epochs
from kafkalite.lab.spark.state.topics import topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START: Final = datetime(2026, 11, 22, tzinfo=UTC)
START_US: Final = int(START.timestamp()) * 1_000_000
ID: Final = bytes(range(16))
METADATA, FETCH, OFFSET_FETCH = 3, 1, 9


def answered(api_key: int, at_us: int, response: dict[str, Any]) -> dict[str, Any]:
    return {
        "ts": START,
        "response_ts": START + timedelta(microseconds=at_us),
        "latency_us": at_us,
        "connection": 1,
        "client": "10.0.0.1:4711",
        "broker": "10.0.0.2:9092",
        "node_id": 1,
        "api_key": api_key,
        "api_version": 13,
        "correlation_id": at_us,
        "client_id": "c",
        "request_bytes": 100,
        "file": "a.pcapng",
        "offset": at_us,
        "request": {},
        "response": response,
    }


def rows_of(api_key: int, *rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), tables.requests(api_key))


def partitions(*epochs: int) -> list[dict[str, Any]]:
    return [
        {"partition_index": index, "incarnation_epoch": epoch} for index, epoch in enumerate(epochs)
    ]


def test_epochs_of_all_apis_are_found_once_for_each_connection(spark: SparkSession) -> None:
    topic = {"topic_id": ID, "partitions": partitions(7)}
    requests = Requests.of_tables(
        spark,
        {
            "Metadata": rows_of(
                METADATA,
                answered(METADATA, 3, {"topics": [{"name": "t", **topic}]}),
                answered(METADATA, 9, {"topics": [{"name": "u", "partitions": partitions(-1)}]}),
            ),
            "Fetch": rows_of(FETCH, answered(FETCH, 2, {"responses": [topic]})),
            "OffsetFetch": rows_of(
                OFFSET_FETCH,
                answered(OFFSET_FETCH, 4, {"groups": [{"topics": [topic]}]}),
                answered(
                    OFFSET_FETCH, 5, {"topics": [{"name": "t", "partitions": partitions(-1, 8)}]}
                ),
            ),
        },
    )
    found = partition_epochs(requests, topics(requests)).collect()
    assert sorted(tuple(row) for row in found) == [
        ("10.0.0.1", "c", 1, "t", 0, 7, START_US + 2),
        ("10.0.0.1", "c", 1, "t", 1, 8, START_US + 5),
    ]
