"""Errors of normal use: of a topic that is being created, a first join, a transaction's end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.audits.health import (
    error_counts,
    errors_before_creation,
    rebalances,
)
from kafkalite.lab.spark.requests import Requests
from kafkalite.lab.spark.state.errors import errors
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.lab.spark.audits.member_requests import Row, join, leave, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 22, tzinfo=UTC)
METADATA, JOIN_GROUP, SYNC_GROUP, ADD_PARTITIONS, END_TXN = 3, 11, 14, 24, 26
UNKNOWN, NOT_AVAILABLE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE


def answered(api_key: int, at_s: int, response: dict[str, Any]) -> dict[str, Any]:
    return {
        "ts": START + timedelta(seconds=at_s),
        "response_ts": START + timedelta(seconds=at_s, milliseconds=1),
        "latency_us": 1_000,
        "connection": 1,
        "client": "10.0.0.1:4711",
        "broker": "10.0.0.2:9092",
        "node_id": 1,
        "api_key": api_key,
        "api_version": 9,
        "correlation_id": at_s,
        "client_id": "c",
        "request_bytes": 100,
        "response_bytes": 100,
        "file": "a.pcapng",
        "offset": at_s,
        "request": {},
        "response": response,
    }


def added_to(topic: str, error: int) -> dict[str, Any]:
    """Return the result of adding a partition of a topic to a transaction."""
    partition = {"partition_index": 0, "partition_error_code": error}
    return {"name": topic, "results_by_partition": [partition]}


def metadata(at_s: int, **topics: int) -> dict[str, Any]:
    """Return a response with an error code by topic; LEADER_NOT_AVAILABLE is one of a partition."""
    rows = [
        {
            "name": name,
            "error_code": 0 if error == NOT_AVAILABLE else int(error),
            "partitions": [{"error_code": int(error), "partition_index": 0}]
            if error != UNKNOWN
            else [],
        }
        for name, error in topics.items()
    ]
    return answered(METADATA, at_s, {"topics": rows})


def test_errors_before_a_topic_is_created_are_expected(spark: SparkSession) -> None:
    rows = [
        metadata(0, created=UNKNOWN, missing=UNKNOWN, intact=0, slow=UNKNOWN),
        metadata(1, created=NOT_AVAILABLE, intact=NOT_AVAILABLE),
        metadata(2, created=0),
        metadata(90, slow=0, created=NOT_AVAILABLE),
    ]
    join = answered(JOIN_GROUP, 3, {"error_code": int(ErrorCode.MEMBER_ID_REQUIRED)})
    sync = answered(SYNC_GROUP, 3, {"error_code": int(ErrorCode.REBALANCE_IN_PROGRESS)})
    concurrent = int(ErrorCode.CONCURRENT_TRANSACTIONS)
    ended = answered(END_TXN, 3, {"error_code": concurrent})
    added = [
        answered(ADD_PARTITIONS, 3, {"results_by_topic_v3_and_below": [added_to("t", concurrent)]})
    ]
    by_api = {
        "EndTxn": pa.Table.from_pylist([ended], schema=tables.requests(END_TXN)),
        "AddPartitionsToTxn": pa.Table.from_pylist(added, schema=tables.requests(ADD_PARTITIONS)),
        "Metadata": pa.Table.from_pylist(rows, schema=tables.requests(METADATA)),
        "JoinGroup": pa.Table.from_pylist([join], schema=tables.requests(JOIN_GROUP)),
        "SyncGroup": pa.Table.from_pylist([sync], schema=tables.requests(SYNC_GROUP)),
    }
    requests = Requests.of_tables(spark, by_api)
    found = error_counts(errors(requests), errors_before_creation(requests)).collect()
    assert {(row.api, row["name"]): (row.occurrences, row.expected) for row in found} == {
        ("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"): (3, 1),
        ("Metadata", "LEADER_NOT_AVAILABLE"): (3, 1),
        ("JoinGroup", "MEMBER_ID_REQUIRED"): (1, 1),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"): (1, 1),
        ("EndTxn", "CONCURRENT_TRANSACTIONS"): (1, 1),
        ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"): (1, 1),
    }


def restarts(*members: str) -> list[Row]:
    """Return the requests of a cooperative group whose members restart one after another."""
    rows, generation = [], count(1)
    for number, member in enumerate(members):
        at_s = 4 * number
        rows += [
            leave(member, at_s),
            join("other", at_s + 1, next(generation)),
            join("other", at_s + 1.5, next(generation)),
            join(member, at_s + 2, next(generation), request_member_id=""),
            join("other", at_s + 2.5, next(generation)),
        ]
    return rows


def test_rolling_restart_is_no_rebalance_storm(spark: SparkSession) -> None:
    membership_requests = table_of(
        spark,
        {
            "restarted": restarts("a", "b", "c"),
            "flapping": restarts("a", "a", "a"),
            "unexplained": [join("a", at_s, at_s) for at_s in range(1, 6)],
        },
    )
    found = {row.group_id: row for row in rebalances(membership_requests, 5).collect()}
    assert {name: (row.rebalances, row.is_storm) for name, row in found.items()} == {
        "restarted": (12, False),
        "flapping": (12, True),
        "unexplained": (5, True),
    }
