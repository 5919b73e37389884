"""Requests by API: with rows, without rows, and state tables derived from them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark import requests as requests_module
from kafkalite.lab.spark.locations import Location, location
from kafkalite.lab.spark.requests import Requests, api_key
from kafkalite.lab.spark.stages.projection import Projection
from kafkalite.lab.spark.stages.stitching import CONNECTION_IDS
from kafkalite.lab.spark.tuning import TASKS_PER_CORE

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

OFFSET_COMMIT = 8
LATE = datetime(2026, 11, 22, 23, 59, 59, 999_999, tzinfo=UTC)


def commits(*groups: str) -> pa.Table:
    rows = [
        {
            "ts": LATE,
            "response_ts": None,
            "latency_us": None,
            "connection": 1,
            "client": "10.0.0.1:4711",
            "broker": "10.0.0.2:9092",
            "node_id": 1,
            "api_key": OFFSET_COMMIT,
            "api_version": 9,
            "correlation_id": number,
            "client_id": "c",
            "request_bytes": 100,
            "response_bytes": None,
            "file": "a.pcapng",
            "offset": number,
            "request": {"group_id": group, "topics": [{"name": "t", "partitions": []}]},
            "response": None,
        }
        for number, group in enumerate(groups)
    ]
    return pa.Table.from_pylist(rows, schema=tables.requests(OFFSET_COMMIT))


def test_api_key_is_found_by_name_or_key() -> None:
    assert api_key("OffsetCommit") == api_key(OFFSET_COMMIT) == OFFSET_COMMIT
    with pytest.raises(KeyError):
        api_key("OffsetComit")
    with pytest.raises(KeyError):
        api_key(32_000)


@pytest.mark.spark
def test_arrow_tables_become_spark_tables(spark: SparkSession) -> None:
    requests = Requests.of_tables(spark, {"OffsetCommit": commits("g", "h")})
    found = requests.of("OffsetCommit")
    assert found.columns == [*tables.requests(OFFSET_COMMIT).names, "date"]
    rows = found.select("request.group_id", "request.topics.name", "date").collect()
    assert sorted(rows) == [("g", ["t"], date(2026, 11, 22)), ("h", ["t"], date(2026, 11, 22))]


@pytest.mark.spark
def test_api_without_requests_is_an_empty_table_with_its_columns(spark: SparkSession) -> None:
    requests = Requests.of_tables(spark, {"OffsetCommit": commits("g")})
    heartbeats = requests.of("ConsumerGroupHeartbeat")
    assert heartbeats.count() == 0
    assert heartbeats.select("request.member_epoch", "date").columns == ["member_epoch", "date"]
    assert Requests(spark, {}).envelopes().count() == 0
    assert Requests(spark, {}).problems().columns == tables.PROBLEMS.names


@pytest.mark.spark
def test_envelopes_contain_all_apis(spark: SparkSession) -> None:
    commit = commits("g")
    metadata = pa.Table.from_pylist(
        [{**row, "api_key": 3, "request": None} for row in commit.to_pylist()],
        schema=tables.requests(3),
    )
    requests = Requests.of_tables(spark, {"OffsetCommit": commit, "Metadata": metadata})
    found = requests.envelopes()
    assert found.columns == [*tables.ENVELOPE.names, "date"]
    assert sorted(row.api_key for row in found.collect()) == [3, OFFSET_COMMIT]


@pytest.mark.spark
def test_output_of_a_run_is_read_with_its_dates(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "requests" / "api=OffsetCommit" / "date=2026-11-22"
    folder.mkdir(parents=True)
    parquet.write_table(commits("g", "h"), folder / "part-1.parquet")
    requests = Requests.read(spark, location(str(tmp_path)))
    assert {(row.api_key, row.date) for row in requests.envelopes().collect()} == {
        (OFFSET_COMMIT, date(2026, 11, 22))
    }
    assert requests.of("OffsetCommit").count() == 2
    assert requests.problems().count() == 0


@pytest.mark.spark
def test_uncommitted_files_in_an_object_store_are_not_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Location, "is_object", True)
    requests = "requests/api={}/date=2026-11-22/{}.parquet"
    committed = {requests.format("OffsetCommit", 1), "problems/1.parquet", "connections/1.parquet"}
    others = {
        *(requests.format(api, 2) for api in ("OffsetCommit", "Metadata")),
        *("problems/2.parquet", "connections/2.parquet"),
    }
    for name in sorted(committed | others):
        is_committed = name in committed
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        table = {
            "requests": commits("committed" if is_committed else "other"),
            "problems": pa.Table.from_pylist(
                [{"kind": "k", "file": "a", "detail": name, "count": 1}], tables.PROBLEMS
            ),
            "connections": pa.table([[1], [7 if is_committed else 8]], schema=CONNECTION_IDS),
        }[name.partition("/")[0]]
        parquet.write_table(table, tmp_path / name)
    found = Requests.read(spark, location(str(tmp_path)), committed=committed)
    assert found.apis() == (OFFSET_COMMIT,)
    assert [row.connection for row in found.envelopes().collect()] == [7]
    assert [row.detail for row in found.problems().collect()] == ["problems/1.parquet"]
    rows = found.of("OffsetCommit").select("request.group_id", "connection").collect()
    assert rows == [("committed", 7)]
    reduced = Projection(
        api_key=OFFSET_COMMIT,
        fields={"group_id": "request.group_id"},
        reduce_rows=lambda rows: rows.select(["group_id"]),
        schema=pa.schema({"group_id": pa.string()}),
    )
    assert found.project(reduced).collect() == [("committed",)]


@pytest.mark.spark
@pytest.mark.parametrize("is_few", [True, False])
def test_table_of_few_requests_has_one_partition(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_few: bool
) -> None:
    if not is_few:
        monkeypatch.setattr(requests_module, "DRIVER_BYTES", 0)
    folder = tmp_path / "requests" / "api=OffsetCommit" / "date=2026-11-22"
    folder.mkdir(parents=True)
    for number in range(3):
        parquet.write_table(commits("g", "h"), folder / f"part-{number}.parquet")
    found = Requests.read(spark, location(str(tmp_path))).of("OffsetCommit")
    assert (found.rdd.getNumPartitions() == 1) is is_few
    assert found.count() == 6


@pytest.mark.spark
def test_small_files_with_many_requests_are_read_by_several_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "requests" / "api=OffsetCommit" / "date=2026-11-22"
    folder.mkdir(parents=True)
    tasks = TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    for number in range(2 * tasks):
        parquet.write_table(commits("g", "h"), folder / f"part-{number:02}.parquet")
    assert Requests.read(spark, location(str(tmp_path))).are_few
    monkeypatch.setattr(requests_module, "_FEW_ROWS", 4 * tasks - 1)
    monkeypatch.setattr(requests_module, "_TASK_ROWS", (1, 1 << 18))
    many = Requests.read(spark, location(str(tmp_path)))
    assert not many.are_few
    projection = Projection(
        api_key=OFFSET_COMMIT,
        fields={"group_id": "request.group_id"},
        reduce_rows=lambda rows: rows.select(["group_id"]),
        schema=pa.schema({"group_id": pa.string()}),
    )
    assert many.project(projection).rdd.getNumPartitions() == tasks
    assert (
        many.parquet_bytes_per_task
        == sum(path.stat().st_size for path in folder.iterdir()) // tasks
    )


@pytest.mark.parametrize(
    ("rows", "core_count", "tasks"),
    [
        (0, 2, 1),
        (1 << 14, 2, 1),
        (1 << 20, 2, 8),
        (1 << 20, 16, 64),
        (1 << 24, 2, 64),
        (1 << 30, 16, 1 << 12),
    ],
)
def test_tasks_keep_all_cores_busy_and_have_a_limit_of_requests(
    rows: int, core_count: int, tasks: int
) -> None:
    assert requests_module._task_count(rows, core_count) == tasks


@pytest.mark.spark
@pytest.mark.parametrize("is_few", [True, False])
@pytest.mark.parametrize("has_rows", [True, False])
def test_projection_works_without_connections_and_without_rows(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_few: bool,
    has_rows: bool,
) -> None:
    if not is_few:
        monkeypatch.setattr(requests_module, "DRIVER_BYTES", 0)
    folder = tmp_path / "requests" / "api=OffsetCommit" / "date=2026-11-22"
    folder.mkdir(parents=True)
    parquet.write_table(commits("g", "h"), folder / "part-1.parquet")
    connections = tmp_path / "connections"
    connections.mkdir()
    numbers = {name: [1] for name in CONNECTION_IDS.names}
    parquet.write_table(pa.table(numbers, schema=CONNECTION_IDS), connections / "part-1.parquet")
    projection = Projection(
        api_key=OFFSET_COMMIT,
        fields={"group_id": "request.group_id", "request_topics": "request.topics"},
        reduce_rows=lambda rows: rows.select(["group_id", "request_topics"]).filter(
            pa.array([has_rows] * 2)
        ),
        schema=pa.schema(
            {
                "group_id": pa.string(),
                "request_topics": tables.requests(8).field("request").type["topics"].type,
            }
        ),
    )
    found = Requests.read(spark, location(str(tmp_path))).project(projection)
    assert found.columns == ["group_id", "request_topics"]
    assert sorted(row.group_id for row in found.collect()) == (["g", "h"] if has_rows else [])


@pytest.mark.spark
def test_state_table_is_derived_once(spark: SparkSession) -> None:
    derived = []

    def derive(requests: Requests, name: str) -> DataFrame:
        derived.append(name)
        return requests.of("OffsetCommit").select("request.group_id")

    requests = Requests.of_tables(spark, {"OffsetCommit": commits("g")}, derive)
    assert requests.state("groups") is requests.state("groups")
    assert derived == ["groups"]
