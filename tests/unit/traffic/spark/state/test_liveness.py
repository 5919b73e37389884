"""Membership requests: requests that could not be decoded are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.traffic.columnar import tables
from kafkalite.traffic.spark.requests import Requests, api_key
from kafkalite.traffic.spark.state.liveness import membership_requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_ENVELOPE = {
    **dict.fromkeys(("connection", "offset", "ts", "api_version", "correlation_id"), 0),
    "file": "a.pcapng",
    "client": "host:1",
    "broker": "broker:9092",
    "request_bytes": 0,
}


def one_of(api: str, request: dict[str, object] | None) -> pa.Table:
    key = api_key(api)
    answer = {"error_code": 0, "member_id": "m"}
    row = {**_ENVELOPE, "api_key": key, "response_ts": 7, "request": request, "response": answer}
    return pa.Table.from_pylist([row], tables.requests(key))


@pytest.mark.parametrize("api", ["JoinGroup", "ConsumerGroupHeartbeat"])
def test_undecodable_request_makes_no_member(spark: SparkSession, api: str) -> None:
    def found(request: dict[str, object] | None) -> list[tuple[str, str]]:
        rows = membership_requests(Requests.of_tables(spark, {api: one_of(api, request)}))
        return [(row.group_id, row.member_id) for row in rows.collect()]

    assert found({"group_id": "g", "member_id": ""}) == [("g", "m")]
    assert found(None) == []
