"""Recreated topics and requests with outdated partition epochs, by rows of their sources."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.audits.partition_epochs import outdated_requests, recreated_topics
from kafkalite.lab.spark.requests import Requests
from kafkalite.lab.spark.state.metadata_views import VIEWS
from kafkalite.lab.spark.state.partition_epochs import PARTITION_EPOCHS
from kafkalite.lab.spark.state.topics import TOPICS
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

START: Final = datetime(2026, 11, 22, tzinfo=UTC)
START_US: Final = int(START.timestamp()) * 1_000_000
FETCH, OFFSET_COMMIT = 1, 8
REFUSED: Final = int(ErrorCode.INVALID_PARTITION_EPOCH)


def recreated(
    spark: SparkSession, *rows: tuple[int, str, int | None], partition: int = 0
) -> list[tuple[Any, ...]]:
    """Return the recreated topics from views: (time, topic id, partition epoch)."""
    views = [
        {
            **dict.fromkeys(VIEWS.schema.names),
            "at_us": START_US + at_us,
            "position": at_us,
            "topic": "t",
            "topic_id": topic_id,
            "partition": partition,
            "partition_epoch": epoch,
        }
        for at_us, topic_id, epoch in rows
    ]
    found = recreated_topics(spark.createDataFrame(views, VIEWS.schema)).collect()
    return [
        (row.previous_topic_id, row.topic_id, row.previous_partition_epoch, row.partition_epoch)
        for row in sorted(found, key=lambda row: row.first_seen_at)
    ]


def test_topics_are_distinguished_by_partition_epochs_else_by_ids(spark: SparkSession) -> None:
    by_epoch = recreated(spark, (0, "", 1), (1, "", 1), (2, "", 3), (3, "", 1), (4, "", 7))
    assert by_epoch == [("", "", 1, 3), ("", "", 3, 7)]
    # As recorded from Kafka: the second topic is new, and a stale broker returns the first again.
    assert recreated(spark, (0, "A", None), (1, "B", None), (2, "A", None)) == [
        ("A", "B", None, None)
    ]
    assert recreated(spark, (0, "A", 1), (1, "A", None), (2, "", 1), (3, "B", 3)) == [
        ("A", "B", 1, 3)
    ]
    assert recreated(spark, (0, "A", 1), (1, "A", 1)) == []


def test_a_topic_that_was_seen_late_is_not_newer(spark: SparkSession) -> None:
    assert recreated(spark, (0, "B", 3), (1, "A", 1)) == [("A", "B", 1, 3)]


def exchange(at_s: int, request: dict[str, Any], response: dict[str, Any] | None) -> dict[str, Any]:
    at = START + timedelta(seconds=at_s)
    return {
        "ts": at,
        "response_ts": response and at + timedelta(milliseconds=1),
        "latency_us": response and 1_000,
        "connection": 1,
        "client": "10.0.0.1:4711",
        "broker": "10.0.0.2:9092",
        "node_id": 1,
        "api_version": 9,
        "correlation_id": at_s,
        "client_id": "c",
        "request_bytes": 100,
        "file": "a.pcapng",
        "offset": at_s,
        "request": request,
        "response": response,
    }


def commit(at_s: int, epoch: int, code: int | None, leader_epoch: int = -1) -> dict[str, Any]:
    sent = {
        "partition_index": 0,
        "incarnation_epoch": epoch,
        "committed_leader_epoch": leader_epoch,
    }
    answer = {"partition_index": 0, "error_code": code}
    return exchange(
        at_s,
        {"group_id": "g", "topics": [{"name": "t", "partitions": [sent]}]},
        None if code is None else {"topics": [{"name": "t", "partitions": [answer]}]},
    )


def fetch(at_s: int, *rows: tuple[int, int | None], error: int = 0, topics: int = 1) -> Any:  # noqa: ANN401 - a row
    """Return a Fetch of t-0 and the answer: (epoch, None), or (epoch, code)."""
    sent = [{"partition": 0, "incarnation_epoch": epoch} for epoch, _ in rows]
    answers = [
        {"partition_index": 0, "error_code": code, "incarnation_epoch": 9}
        for _, code in rows
        if code is not None
    ]
    return exchange(
        at_s,
        {"topics": [{"topic": "t", "partitions": sent}] * topics},
        {"error_code": error, "responses": [{"topic": "t", "partitions": answers}]},
    )


def outdated(
    spark: SparkSession, rows: dict[str, list[Any]], *received: tuple[int, int]
) -> list[Row]:
    """Return the outdated requests; `received` are the client's epochs of t-0 by seconds."""
    by_api = {}
    for api, exchanges in rows.items():
        key = {"Fetch": FETCH, "OffsetCommit": OFFSET_COMMIT}[api]
        for each in exchanges:
            each["api_key"] = key
        by_api[api] = pa.Table.from_pylist(exchanges, tables.requests(key))
    epochs = [
        ("10.0.0.1", "c", 1, "t", 0, epoch, START_US + at_s * 1_000_000) for at_s, epoch in received
    ]
    requests = Requests.of_tables(spark, by_api)
    found = outdated_requests(
        requests, TOPICS.empty(spark), spark.createDataFrame(epochs, PARTITION_EPOCHS.schema)
    )
    return sorted(found.collect(), key=lambda row: row.at)


def test_commits_are_outdated_by_what_was_received_before(spark: SparkSession) -> None:
    rows = outdated(
        spark,
        {
            "OffsetCommit": [
                commit(1, 3, 0),  # the epoch is not outdated yet
                commit(3, 3, 0, leader_epoch=4),
                commit(4, 3, REFUSED),
                commit(5, 3, None),
                commit(6, 3, int(ErrorCode.UNKNOWN_MEMBER_ID)),
                commit(7, 5, 0),
                commit(8, -1, 0),
                commit(9, 5, int(ErrorCode.INVALID_LEADER_EPOCH), leader_epoch=1),
            ]
        },
        (0, 3), (2, 5),
    )  # fmt: skip
    assert [(row.sent_partition_epoch, row.sent_leader_epoch, row.error) for row in rows] == [
        (3, 4, "NONE"),
        (3, None, "INVALID_PARTITION_EPOCH"),
        (3, None, None),
        (3, None, "UNKNOWN_MEMBER_ID"),
        (5, 1, "INVALID_LEADER_EPOCH"),
    ]
    assert {row.known_partition_epoch for row in rows} == {5}
    assert {row.group_id for row in rows} == {"g"}


def test_fetches_are_outdated_by_the_epoch_in_their_response(spark: SparkSession) -> None:
    rows = outdated(
        spark,
        {
            "Fetch": [
                fetch(1, (3, REFUSED)),
                fetch(2, (3, 0)),  # a broker that did not check
                fetch(3, (9, 0)),
                fetch(4, (0, REFUSED), topics=0),  # the fetch session had the epoch
            ]
        },
    )
    assert [(row.sent_partition_epoch, row.current_partition_epoch, row.error) for row in rows] == [
        (3, 9, "INVALID_PARTITION_EPOCH"),
        (3, 9, "NONE"),
        (None, 9, "INVALID_PARTITION_EPOCH"),
    ]
    assert {row.known_partition_epoch for row in rows} == {None}


def test_a_refused_fetch_session_is_no_acceptance(spark: SparkSession) -> None:
    error = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    (row,) = outdated(spark, {"Fetch": [fetch(1, (3, None), error=error)]}, (0, 5))
    assert row.error == "FETCH_SESSION_ID_NOT_FOUND"
