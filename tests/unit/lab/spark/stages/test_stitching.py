"""Joining of incomplete frames in one bucket, as Spark passes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.lab.columnar.options import DEFAULT_OPTIONS
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.stages.decoding import INCOMPLETE_TABLES, Task, TaskReport, decode
from kafkalite.lab.spark.stages.stitching import BUCKET, SCHEMAS, TABLE, stitch_bucket
from tests.captures.split_captures import split_capture

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.capture.model import Problem


def bucket(folder: Path, paths: list[str]) -> pa.Table:
    """Return incomplete frames as Spark's shuffle passes them: a struct column per table."""
    parts = []
    for table in INCOMPLETE_TABLES:
        mine = [name for name in paths if f"/{table}/" in name]
        for name in mine:
            rows = parquet.ParquetFile(folder / name).read().cast(SCHEMAS[table])
            structs = rows.to_struct_array().combine_chunks()
            columns = {TABLE: pa.array([str(table)] * len(rows)), str(table): structs}
            columns[BUCKET] = pa.array([3] * len(rows), pa.int32())
            parts.append(pa.table(columns))
    return pa.concat_tables(parts, promote_options="default")


def test_connections_that_span_files_are_joined_to_requests(tmp_path: Path) -> None:
    paths = split_capture(tmp_path / "in")
    task = Task(staged=location(str(tmp_path / "out")), name="000001", options=DEFAULT_OPTIONS)
    decoded = decode(task, 0, 0, [(str(path), None) for path in paths])
    assert {name.split("/")[2] for name in decoded.incomplete} == {
        str(table) for table in INCOMPLETE_TABLES
    }
    rows = stitch_bucket(bucket(tmp_path / "out", [*decoded.incomplete]), task)
    joined = TaskReport.from_json(rows["report"][0].as_py())
    problems: list[Problem] = []
    found = [*exchanges(read([*map(str, paths)], problems.append), problems=problems.append)]
    assert joined.rows > 0
    assert decoded.rows + joined.rows == len(found)
    assert decoded.frames + joined.frames == len(found) + sum(
        row.response is not None for row in found
    )
    assert all("000001-stitched-00003-" in name for name in joined.requests)
    [connections_path] = joined.connections
    renamed = parquet.ParquetFile(tmp_path / "out" / connections_path).read()
    assert len(set(renamed["id"].to_pylist())) == len({row.connection for row in found})


def test_missing_tables_are_empty(tmp_path: Path) -> None:
    task = Task(staged=location(str(tmp_path)), name="x", options=DEFAULT_OPTIONS)
    table = str(INCOMPLETE_TABLES[0])
    empty = pa.array([], SCHEMAS[INCOMPLETE_TABLES[0]].empty_table().to_struct_array().type)
    rows = pa.table({BUCKET: [1], TABLE: ["other"], table: pa.nulls(1, empty.type)})
    report = TaskReport.from_json(stitch_bucket(rows, task)["report"][0].as_py())
    assert report == TaskReport()
