"""Requests that tasks reduce while they write them, or when they read them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.stages import writing
from kafkalite.lab.spark.stages.projection import Projection
from kafkalite.lab.spark.stages.reducing import Reductions, reduce_files, writers_of
from kafkalite.lab.spark.stages.writing import TableWriter
from tests.unit.lab.spark.stages.test_writing import HEARTBEAT, MIDNIGHT, heartbeats

if TYPE_CHECKING:
    from pathlib import Path

API_VERSIONS = 18


def in_group(rows: pa.Table) -> pa.Table:
    """Return the requests, and how many were reduced together."""
    return rows.append_column("together", pa.array([rows.num_rows] * rows.num_rows, pa.int64()))


def projection(name: str, api_key: int, *, is_of_all_apis: bool = False) -> Projection:
    fields = {"host": "client"} if is_of_all_apis else {"group": "request.group_id"}
    columns = [("start_us", pa.int64()), *((each, pa.string()) for each in fields)]
    return Projection(
        name=name,
        api_key=api_key,
        fields=fields,
        reduce_rows=in_group,
        schema=pa.schema([*columns, ("together", pa.int64())]),
        is_of_all_apis=is_of_all_apis,
    )


PROJECTIONS = (
    projection("groups", HEARTBEAT),
    projection("hosts", API_VERSIONS, is_of_all_apis=True),
    projection("others", 8),
)


def rows(reductions: Reductions, written: list[str]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: sorted(
            (row for file in files for row in parquet.read_table(file.path).to_pylist()),
            key=lambda row: row["start_us"],
        )
        for (name, _), files in reductions.files(writers_of(written)).items()
    }


@pytest.mark.parametrize("group_rows", [1, 2, 100])
def test_written_requests_are_reduced_by_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int
) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", group_rows)
    reductions = Reductions(location(str(tmp_path / "reduced")), PROJECTIONS)
    times = [MIDNIGHT + timedelta(seconds=number) for number in range(3)]
    with TableWriter(location(str(tmp_path)), "task", reductions) as written:
        for time in times:
            written.write_requests(HEARTBEAT, heartbeats(time))
    reduced = rows(reductions, written.written)
    groups = [min(group_rows, 3 - start) for start in range(0, 3, group_rows)]
    assert [row["together"] for row in reduced["groups"]] == [n for n in groups for _ in range(n)]
    assert [row["group"] for row in reduced["groups"]] == ["g0"] * 3
    assert [row["start_us"] for row in reduced["groups"]] == [
        int(time.timestamp()) * 1_000_000 for time in times
    ]
    assert [row["host"] for row in reduced["hosts"]] == ["c:1"] * 3
    assert reduced["others"] == []


def test_reduced_files_have_the_same_rows(tmp_path: Path) -> None:
    writing_, reading = (Reductions(location(str(tmp_path / each)), PROJECTIONS) for each in "wr")
    with TableWriter(location(str(tmp_path)), "task", writing_) as written:
        written.write_requests(HEARTBEAT, heartbeats(MIDNIGHT, MIDNIGHT + timedelta(days=1)))
    reduce_files(
        reading, "again-0", [(HEARTBEAT, str(tmp_path / path)) for path in written.written]
    )
    again = rows(reading, ["again-0-0.parquet"])
    assert again == rows(writing_, written.written)
    assert len(again["groups"]) == 2


def test_files_of_failed_attempts_do_not_count(tmp_path: Path) -> None:
    reductions = Reductions(location(str(tmp_path / "reduced")), PROJECTIONS)
    for attempt in ("task-1", "task-2"):
        with TableWriter(location(str(tmp_path)), attempt, reductions) as written:
            written.write_requests(HEARTBEAT, heartbeats(MIDNIGHT))
    assert len(rows(reductions, written.written)["groups"]) == 1
    assert writers_of(["requests/api=A/date=D/000001.ab-00003-17-2-plain.parquet"]) == {
        "000001.ab-00003-17"
    }
