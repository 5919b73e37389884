"""A bucket's loose ends, as Spark hands them over → the requests that they are together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from kafkalite.capture.reading import exchanges, read
from kafkalite.columnar.options import EVERYTHING
from kafkalite.spark.places import place
from kafkalite.spark.stages.decoding import LOOSE_TABLES, Account, Task, decode
from kafkalite.spark.stages.stitching import BUCKET, SCHEMAS, TABLE, stitch_bucket
from tests.captures.cut import cut

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.capture.model import Problem


def bucket(folder: Path, names: list[str]) -> pa.Table:
    """Return loose ends as Spark's shuffle gives them: each row with the struct of its table."""
    parts = []
    for table in LOOSE_TABLES:
        mine = [name for name in names if f"/{table}/" in name]
        for name in mine:
            rows = parquet.ParquetFile(folder / name).read().cast(SCHEMAS[table])
            structs = rows.to_struct_array().combine_chunks()
            columns = {TABLE: pa.array([str(table)] * len(rows)), str(table): structs}
            columns[BUCKET] = pa.array([3] * len(rows), pa.int32())
            parts.append(pa.table(columns))
    return pa.concat_tables(parts, promote_options="default")


def test_what_several_files_have_of_connections_becomes_requests(tmp_path: Path) -> None:
    paths = cut(tmp_path / "in")
    task = Task(staged=place(str(tmp_path / "out")), name="000001", options=EVERYTHING)
    alone = decode(task, 0, 0, [(str(path), None) for path in paths])
    assert {name.split("/")[2] for name in alone.loose} == {str(each) for each in LOOSE_TABLES}
    rows = stitch_bucket(bucket(tmp_path / "out", [*alone.loose]), task)
    account = Account.from_json(rows["told"][0].as_py())
    problems: list[Problem] = []
    found = [*exchanges(read([*map(str, paths)], problems.append), problems=problems.append)]
    assert account.rows > 0
    assert alone.rows + account.rows == len(found)
    assert alone.frames + account.frames == len(found) + sum(
        each.response is not None for each in found
    )
    assert all("000001-stitched-00003-" in name for name in account.requests)
    [names] = account.connections
    renamed = parquet.ParquetFile(tmp_path / "out" / names).read()
    assert len(set(renamed["id"].to_pylist())) == len({each.connection for each in found})


def test_tables_that_no_file_has_are_empty(tmp_path: Path) -> None:
    task = Task(staged=place(str(tmp_path)), name="x", options=EVERYTHING)
    table = str(LOOSE_TABLES[0])
    nothing = pa.array([], SCHEMAS[LOOSE_TABLES[0]].empty_table().to_struct_array().type)
    rows = pa.table({BUCKET: [1], TABLE: ["other"], table: pa.nulls(1, nothing.type)})
    account = Account.from_json(stitch_bucket(rows, task)["told"][0].as_py())
    assert account == Account()
