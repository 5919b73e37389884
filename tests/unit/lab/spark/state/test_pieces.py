"""Pieces of requests: those that do not change a history are dropped."""

from __future__ import annotations

import marshal
from typing import Any

import pyarrow as pa

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.state.pieces import PIECES, piece_reductions
from kafkalite.protocol.api_keys import ApiKey

ID = bytes(range(16))


def pieces(api: ApiKey, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pieces of requests that are a second apart."""
    envelope = {
        "latency_us": None, "connection": 7, "client": "10.0.0.1:30000", "broker": "node:9092",
        "api_key": int(api), "api_version": 0, "correlation_id": 1, "client_id": "reader",
        "request_bytes": 0, "file": "a.pcapng", "offset": 0,
    }  # fmt: skip
    requests = pa.Table.from_pylist(
        [
            {**envelope, "ts": number * 1_000_000, "response_ts": number * 1_000_000 + 10, **row}
            for number, row in enumerate(rows)
        ],
        tables.requests(int(api)),
    )
    (projection,) = (
        each for each in piece_reductions() if each.api_key == int(api) and not each.is_of_all_apis
    )
    made = projection.reduce_requests(requests)
    assert made.schema == PIECES
    found: list[dict[str, Any]] = made.to_pylist()
    return found


def test_of_repeated_heartbeats_the_first_and_the_last_remain() -> None:
    heartbeat = {
        "request": {"group_id": "shop", "member_id": "m"},
        "response": {"error_code": 0},
    }
    found = pieces(ApiKey.HEARTBEAT, [heartbeat] * 5)
    assert [each["start_us"] for each in found] == [0, 4_000_000]


def test_names_of_topics_remain_once() -> None:
    response = {"topics": [{"name": "orders", "topic_id": ID}]}
    found = pieces(ApiKey.METADATA, [{"request": {}, "response": response}] * 3)
    (row,) = found
    assert marshal.loads(row["payload"])[1] == response  # noqa: S302 - written here


def test_a_request_that_cannot_be_decoded_has_a_piece() -> None:
    (row,) = pieces(ApiKey.PRODUCE, [{"request": None, "response": None}])
    assert marshal.loads(row["payload"]) == (None, None)  # noqa: S302 - written here
