"""Sums over all requests: the same however the requests are divided among tasks."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from kafkalite.lab.spark.state.request_sums import (
    BY_CLIENT,
    BY_CONNECTION,
    BY_TIME,
    percentiles,
    sum_requests,
)
from kafkalite.lab.spark.state.time_range import read_time_ranges
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BUCKET: Final = 1_000
LONG_POLL: Final = int(ApiKey.FETCH)


class Request(NamedTuple):
    api_key: int
    host: str
    client_id: str | None
    connection: int
    start_us: int
    latency_us: int | None


REQUESTS: Final = st.builds(
    Request,
    st.sampled_from([LONG_POLL, int(ApiKey.METADATA)]),
    st.sampled_from(["10.0.0.1", "::1"]),
    st.sampled_from(["a", None]),
    st.integers(0, 2),
    st.integers(0, 3 * BUCKET),
    st.sampled_from([None, 0, 9_999, 10_009, 10_000, 1_234_567]),
)


def table_of(requests: list[Request]) -> pa.Table:
    def column(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([getattr(request, name) for request in requests], kind)

    ends = [
        None if request.latency_us is None else request.start_us + request.latency_us
        for request in requests
    ]
    return pa.table(
        {
            "start_us": column("start_us", pa.int64()),
            "end_us": pa.array(ends, pa.int64()),
            "connection": column("connection", pa.int64()),
            "api_key": column("api_key", pa.int16()),
            "client": pa.array([f"{each.host}:4711" for each in requests], pa.string()),
            "client_id": column("client_id", pa.string()),
            "latency_us": column("latency_us", pa.int64()),
            "request_bytes": pa.array([7] * len(requests), pa.int32()),
            "response_bytes": pa.array([None if e is None else 9 for e in ends], pa.int32()),
        }
    )


def rounded(latency_us: int | None) -> int | None:
    """Return a latency with four significant digits."""
    digits = str(latency_us)
    return None if latency_us is None else int(digits[:4] + "0" * (len(digits) - 4))


@given(st.lists(REQUESTS, max_size=20), st.integers(0, 20))
def test_sums_of_parts_are_those_of_the_whole(requests: list[Request], at: int) -> None:
    parts = [
        row
        for part in (requests[:at], requests[at:])
        for row in sum_requests(table_of(part), BUCKET).to_pylist()
    ]
    by_time, by_client = Counter[Any](), Counter[Any]()
    for row in parts:
        client = (row["host"], row["client_id"], row["latency_us"])
        at_time = (row["api_key"], row["bucket_us"], row["latency_us"])
        if row["kind"] == BY_TIME:
            by_time[at_time] += row["requests"]
            assert row["bytes_in"] == 7 * row["requests"]
            assert (row["bytes_out"] or 0) == 9 * (row["requests"] - row["unanswered"])
        elif row["kind"] == BY_CLIENT:
            by_client[client] += row["requests"]
    assert by_time == Counter(
        (each.api_key, each.start_us // BUCKET * BUCKET, rounded(each.latency_us))
        for each in requests
    )
    assert by_client == Counter(
        (
            each.host,
            each.client_id,
            None if each.api_key == LONG_POLL else rounded(each.latency_us),
        )
        for each in requests
    )
    connections = {
        (row["host"], row["client_id"], row["connection"])
        for row in parts
        if row["kind"] == BY_CONNECTION
    }
    assert connections == {(each.host, each.client_id, each.connection) for each in requests}
    longest = [row["max_latency_us"] for row in parts if row["max_latency_us"] is not None]
    assert max(longest, default=None) == max(
        (each.latency_us for each in requests if each.latency_us is not None), default=None
    )


@pytest.mark.spark
def test_percentiles_are_latencies_at_a_rank(spark: SparkSession) -> None:
    counts = {None: 5, 10: 90, 20: 8, 5_000: 1, 70_000: 1}
    rows = [("x", latency, count) for latency, count in counts.items()] + [("x", 10, 0)]
    sums = spark.createDataFrame(
        [*rows, ("none", None, 3)], "name string, latency_us bigint, requests bigint"
    )
    fractions = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
    found = {row.name: row for row in percentiles(sums, ("name",), fractions).collect()}
    latencies = sorted(
        latency for latency, count in counts.items() if latency is not None for _ in range(count)
    )
    assert [found["x"][name] * 1000 for name in fractions] == [
        latencies[ceil(fraction * len(latencies)) - 1] for fraction in fractions.values()
    ]
    assert found["none"].p50 is None


@pytest.mark.parametrize("has_statistics", [True, False])
def test_time_range_is_that_of_requests_and_responses(
    tmp_path: Path, *, has_statistics: bool
) -> None:
    start = datetime(2026, 11, 22, tzinfo=UTC)
    times = [start + timedelta(microseconds=number) for number in range(5)]
    kind = pa.timestamp("us", tz="UTC")
    files = {
        "answered": ([times[1], times[2]], [times[4], None]),
        "unanswered": ([times[0]], [None]),
        "empty": ([], []),
    }
    for name, (sent, answered) in files.items():
        parquet.write_table(
            pa.table({"ts": pa.array(sent, kind), "response_ts": pa.array(answered, kind)}),
            tmp_path / name,
            write_statistics=has_statistics,
        )
    first = int(start.timestamp()) * 1_000_000
    assert read_time_ranges(str(tmp_path / name) for name in files).to_pylist() == [
        {"first_us": first + 1, "last_us": first + 4},
        {"first_us": first, "last_us": first},
    ]
