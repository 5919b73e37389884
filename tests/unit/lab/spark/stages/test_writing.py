"""Parquet files written by workers: their contents, limits and errors."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import dataset, fs, parquet

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.locations import Location, location
from kafkalite.lab.spark.stages import writing
from kafkalite.lab.spark.stages.writing import TableWriter

if TYPE_CHECKING:
    from pathlib import Path

OFFSET_COMMIT = 8
MIDNIGHT = datetime(2026, 11, 22, tzinfo=UTC)
HEARTBEAT = 12


class Upload(io.BytesIO):
    """A stream whose close fails."""

    def close(self) -> None:
        if not self.closed:
            super().close()
            raise OSError("the upload could not be completed")


class Store(fs.LocalFileSystem):  # type: ignore[misc]  # pyarrow has no types
    """A store in which no file can be completed."""

    def open_output_stream(self, *_: object) -> pa.NativeFile:
        return pa.PythonFile(Upload(), mode="w")


def heartbeats(*times: datetime) -> pa.RecordBatch:
    rows = [
        {
            "ts": time,
            "connection": number,
            "client": "c:1",
            "broker": "b:2",
            "api_key": HEARTBEAT,
            "api_version": 4,
            "correlation_id": number,
            "request_bytes": 10,
            "file": "f",
            "offset": number,
            "request": {"group_id": f"g{number}"},
        }
        for number, time in enumerate(times)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=tables.requests(HEARTBEAT))


def test_requests_are_written_by_api_and_day(tmp_path: Path) -> None:
    before, after = MIDNIGHT - timedelta(microseconds=1), MIDNIGHT
    with TableWriter(location(str(tmp_path)), "task7") as written:
        written.write_requests(HEARTBEAT, heartbeats(before, after, before))
        written.write_requests(HEARTBEAT, heartbeats(after))
    assert sorted(written.written) == [
        "requests/api=Heartbeat/date=2026-11-21/task7-0-plain.parquet",
        "requests/api=Heartbeat/date=2026-11-22/task7-1-plain.parquet",
    ]
    assert written.rows == 4
    first, second = (parquet.ParquetFile(tmp_path / name).read() for name in written.written)
    assert first.schema.equals(tables.requests(HEARTBEAT))
    assert first["ts"].to_pylist() == [before, before]
    assert second["ts"].to_pylist() == [after, after]
    assert second["request"].to_pylist()[0]["group_id"] == "g1"


def test_integers_that_rarely_repeat_are_delta_encoded(tmp_path: Path) -> None:
    offsets = [2**63 - 1, -(2**63), None, 0]
    rows = [
        {
            **{name: row[name] for name in row if name != "request"},
            "connection": offset or 7,
            "request": {"topics": [{"partitions": [{"committed_offset": offset}, None]}, None]},
        }
        for row, offset in zip(heartbeats(*[MIDNIGHT] * 4).to_pylist(), offsets, strict=True)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=tables.requests(OFFSET_COMMIT))
    with TableWriter(location(str(tmp_path)), "x") as written:
        written.write_requests(OFFSET_COMMIT, batch)
    found = parquet.ParquetFile(tmp_path / written.written[0])
    assert found.read().to_batches() == [batch]
    group = found.metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    delta = {
        column.path_in_schema for column in columns if "DELTA_BINARY_PACKED" in column.encodings
    }
    assert delta == set(writing.delta_encoded_columns(batch.schema))
    assert {"ts", "offset", "correlation_id", "latency_us"} < delta
    assert "request.topics.list.element.partitions.list.element.committed_offset" in delta
    assert not {"connection", "client", "api_version"} & delta


def test_buffered_rows_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 3)
    with TableWriter(location(str(tmp_path)), "x") as written:
        for _ in range(5):
            written.write_requests(HEARTBEAT, heartbeats(MIDNIGHT, MIDNIGHT))
    [name] = written.written
    groups = parquet.ParquetFile(tmp_path / name).metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [4, 4, 2]


def test_open_files_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "OPEN_FILES", 2)
    days = [MIDNIGHT + timedelta(days=number % 3) for number in range(9)]
    with TableWriter(location(str(tmp_path)), "x") as written:
        for day in days:
            written.write_requests(HEARTBEAT, heartbeats(day))
    assert len(written.written) == 9
    found = dataset.dataset([str(tmp_path / name) for name in written.written]).to_table()
    assert sorted(found["ts"].to_pylist()) == sorted(days)


def test_error_of_closing_a_file_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "OPEN_FILES", 1)
    written = TableWriter(Location(Store(), str(tmp_path)), "x")
    written.write_requests(HEARTBEAT, heartbeats(MIDNIGHT))
    with pytest.raises(OSError, match="could not be completed"):  # closes the first file
        written.write_requests(HEARTBEAT, heartbeats(MIDNIGHT + timedelta(days=1)))
    with pytest.raises(OSError, match="could not be completed"), written:
        written.write_requests(HEARTBEAT, heartbeats(MIDNIGHT))


def test_empty_table_writes_no_file(tmp_path: Path) -> None:
    with TableWriter(location(str(tmp_path)), "x") as written:
        written.write_requests(HEARTBEAT, heartbeats())
        written.write("problems", pa.RecordBatch.from_pylist([], schema=tables.PROBLEMS))
    assert (written.written, written.rows) == ([], 0)
    assert [*tmp_path.iterdir()] == []
