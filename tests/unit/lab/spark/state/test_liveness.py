"""Membership requests: those that could not be decoded are dropped; repeated commits are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.requests import Requests, api_key
from kafkalite.lab.spark.stages.projection import type_at
from kafkalite.lab.spark.state.liveness import membership_requests, without_repeated_commits
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND: Final = 1_000_000

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


@pytest.mark.spark
@pytest.mark.parametrize("api", ["JoinGroup", "ConsumerGroupHeartbeat"])
def test_undecodable_request_makes_no_member(spark: SparkSession, api: str) -> None:
    def found(request: dict[str, object] | None) -> list[tuple[str, str]]:
        rows = membership_requests(Requests.of_tables(spark, {api: one_of(api, request)}))
        return [(row.group_id, row.member_id) for row in rows.collect()]

    assert found({"group_id": "g", "member_id": ""}) == [("g", "m")]
    assert found(None) == []


def commits_table(*commits: tuple[int, str, int, int | None]) -> pa.Table:
    """Return commits (second, member, generation, error of the first partition) as they are read.

    Without an error there is no response.
    """
    kind = type_at(api_key("OffsetCommit"), "response.topics")
    answers = [
        None if error is None else [{"partitions": [{"error_code": error}]}]
        for _, _, _, error in commits
    ]
    starts = [second * SECOND for second, _, _, _ in commits]
    ends = [
        None if error is None else start + 7
        for start, (_, _, _, error) in zip(starts, commits, strict=True)
    ]
    count = len(commits)
    return pa.table(
        {
            "start_us": pa.array(starts, pa.int64()),
            "end_us": pa.array(ends, pa.int64()),
            "connection": pa.array(range(count), pa.int64()),
            "position": pa.array(range(count), pa.int64()),
            "client": pa.array([f"host:{number}" for number in range(count)], pa.string()),
            "client_id": pa.array([None] * count, pa.string()),
            "group_id": pa.array(["g"] * count, pa.string()),
            "member_id": pa.array([member for _, member, _, _ in commits], pa.string()),
            "instance_id": pa.array([None] * count, pa.string()),
            "generation": pa.array([each for _, _, each, _ in commits], pa.int32()),
            "topics": pa.array(answers, kind),
        }
    )


def test_commit_repeats_the_previous_one_of_its_member_within_the_timeout() -> None:
    refused = int(ErrorCode.UNKNOWN_MEMBER_ID)
    table = commits_table(
        (0, "m", 1, 0),
        (5, "", -1, 0),
        (8, "m", 1, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        (16, "m", 1, 0),
        (30, "m", 1, 0),
        (32, "m", 2, 0),
        (34, "m", 2, refused),
        (36, "m", 2, None),
        (1, "n", 1, 0),
    )
    runs = without_repeated_commits(table, timeout_us=10 * SECOND)
    found = [
        (
            row["member_id"],
            row["start_us"] // SECOND,
            row["last_end_us"] // SECOND,
            row["error"],
            row["client"],
        )
        for row in runs.to_pylist()
    ]
    assert sorted(found, key=lambda run: run[:2]) == [
        ("m", 0, 16, 0, "host:3"),
        ("m", 30, 30, 0, "host:4"),
        ("m", 32, 32, 0, "host:5"),
        ("m", 34, 34, refused, "host:6"),
        ("m", 36, 36, None, "host:7"),
        ("n", 1, 1, 0, "host:8"),
    ]
