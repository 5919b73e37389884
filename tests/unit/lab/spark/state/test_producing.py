"""Produce requests with a transactional id: their producers and errors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafkalite.lab.spark.stages.projection import type_at
from kafkalite.lab.spark.state.producing import transactional_writes
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

FENCED, REFUSED = int(ErrorCode.INVALID_PRODUCER_EPOCH), int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def written(*records: bytes | None) -> list[Any]:
    return [{"partition_data": [{"records": each} for each in records]}]


def answer(*topics: list[int]) -> list[Any]:
    return [{"partition_responses": [{"error_code": code} for code in codes]} for codes in topics]


def test_only_writes_of_transactions_remain_with_producer_and_first_error() -> None:
    producer = bytes(43) + (-2).to_bytes(8, signed=True) + (300).to_bytes(2) + b"more"
    key = int(ApiKey.PRODUCE)
    rows: list[tuple[str | None, list[Any] | None, list[Any] | None, int | None]] = [
        (None, written(producer), answer([0]), 7),
        ("t", written(producer, b"another"), answer([0], [0, FENCED, REFUSED]), 7),
        ("t", written(producer[:52]), answer([0, 0]), 7),
        ("t", written(None, producer), None, None),
        ("", [], None, 7),
        ("t", None, answer([REFUSED]), 7),
    ]
    table = pa.table(
        {
            "start_us": pa.array(range(len(rows)), pa.int64()),
            "transactional_id": pa.array([row[0] for row in rows], pa.string()),
            "written": pa.array([row[1] for row in rows], type_at(key, "request.topic_data")),
            "answers": pa.array([row[2] for row in rows], type_at(key, "response.responses")),
            "end_us": pa.array([row[3] for row in rows], pa.int64()),
        }
    )
    found = [
        (row["start_us"], row["producer_id"], row["producer_epoch"], row["error"])
        for row in transactional_writes(table).to_pylist()
    ]
    assert found == [
        (1, -2, 300, FENCED),
        (2, -2, None, 0),
        (3, None, None, None),
        (4, None, None, 0),
        (5, None, None, REFUSED),
    ]
