"""The session of the local engine: reading and writing Parquet files."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.lab.spark.dataframes import LocalEngineError
from kafkalite.lab.spark.local import functions as f
from kafkalite.lab.spark.local.session import LocalSession

if TYPE_CHECKING:
    from pathlib import Path

AT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("ts", AT),
        ("request", pa.struct([("group_id", pa.string()), ("epoch", pa.int32())])),
        ("date", pa.date32()),
    ]
)


@pytest.fixture
def session() -> LocalSession:
    return LocalSession()


def write(folder: Path, name: str, request: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({"ts": pa.array([1], AT), "request": [request]})
    parquet.write_table(table.cast(_stored(request)), folder / f"{name}.parquet")


def _stored(request: dict[str, object]) -> pa.Schema:
    types = {"group_id": pa.string(), "epoch": pa.int32()}
    return pa.schema(
        [("ts", AT), ("request", pa.struct([(name, types[name]) for name in request]))]
    )


def test_written_table_is_read_back_with_comments(session: LocalSession, tmp_path: Path) -> None:
    frame = session.range(3).select(
        f.col("id").cast("int").alias("n", metadata={"comment": "a number"}),
        f.timestamp_micros("id").alias("at"),
    )
    file = tmp_path / "table" / "rows.parquet"
    frame.write.parquet(str(file))
    schema = json.loads(
        parquet.read_schema(file).metadata[b"org.apache.spark.sql.parquet.row.metadata"]
    )
    assert schema["fields"][0] == {
        "name": "n",
        "type": "integer",
        "nullable": True,
        "metadata": {"comment": "a number"},
    }
    read = session.read.schema(frame.schema).parquet(str(tmp_path / "table"))
    assert read.toArrow().cast(parquet.read_schema(file)).equals(parquet.read_table(file))


def test_columns_and_fields_that_files_lack_are_null(session: LocalSession, tmp_path: Path) -> None:
    write(tmp_path / "date=1970-01-01", "old", {"group_id": "g"})
    write(tmp_path / "date=1970-01-01", "new", {"group_id": "h", "epoch": 5})
    rows = session.read.schema(SCHEMA).parquet(str(tmp_path))
    found = rows.select("request.group_id", "request.epoch", f.col("date").cast("string"))
    assert sorted(tuple(row) for row in found.collect()) == [
        ("g", None, "1970-01-01"),
        ("h", 5, "1970-01-01"),
    ]


def test_files_with_all_columns_are_read_by_duckdb(session: LocalSession, tmp_path: Path) -> None:
    write(tmp_path, "it's", {"group_id": "h", "epoch": 5})
    rows = session.read.schema(SCHEMA).parquet(str(tmp_path))
    selected = rows.select(f.unix_micros("ts").alias("us"), f.col("date").cast("string"))
    assert [tuple(row) for row in selected.collect()] == [(1, "1970-01-01")]


def test_folder_without_rows_is_an_empty_table(session: LocalSession, tmp_path: Path) -> None:
    assert session.read.schema(SCHEMA).parquet(str(tmp_path)).is_empty


def test_error_of_duckdb_is_one_line(session: LocalSession) -> None:
    frame = session.range(1).select(f.lit("x").cast("int").alias("n"))
    with pytest.raises(LocalEngineError, match="Could not convert") as error:
        frame.collect()
    assert "\n" not in str(error.value)


def test_running_query_is_interrupted_by_another_thread(session: LocalSession) -> None:
    with ThreadPoolExecutor(1) as pool:
        endless = pool.submit(session.range(1 << 60).where("id < 0").collect)
        while not endless.done():
            session.interruptAll()
        with pytest.raises(LocalEngineError, match=r"(?i)interrupted"):
            endless.result()


def test_query_of_too_many_rows_fails(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2, 3]})
    parquet.write_table(rows, tmp_path / "rows.parquet")
    session = LocalSession(max_rows=5)
    read = session.read_parquet([str(tmp_path)], rows.schema)
    assert read.count() == 3
    with pytest.raises(LocalEngineError, match="6 rows"):
        read.unionByName(session.createDataFrame(rows)).toArrow()
