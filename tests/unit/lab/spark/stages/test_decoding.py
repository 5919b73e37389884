"""Decoding of a split of capture files in a task; no file makes the task fail."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.lab.columnar.options import DEFAULT_OPTIONS, Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.lab.spark.locations import InputFile, location
from kafkalite.lab.spark.manifest import Piece
from kafkalite.lab.spark.stages import decoding, writing
from kafkalite.lab.spark.stages.decoding import (
    Task,
    TaskReport,
    decode,
    decode_contents,
    decode_splits,
    quarantine,
)
from kafkalite.lab.spark.stages.file_splitting import parts_in
from kafkalite.protocol import codec
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def task(folder: Path) -> Task:
    return Task(staged=location(str(folder)), name="000001", options=DEFAULT_OPTIONS)


def rows(folder: Path, names: tuple[str, ...]) -> list[dict[str, object]]:
    return [row for name in names for row in parquet.ParquetFile(folder / name).read().to_pylist()]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("captures")
    made = write(folder, 300_000, connections=7, file_bytes=150_000)
    assert len(made.files) > 1
    return [str(path) for path in made.files]


def test_split_is_decoded_to_the_requests_that_the_scalar_reader_finds(
    captures: list[str], tmp_path: Path
) -> None:
    report = decode(task(tmp_path), 5, 9, [(name, None) for name in captures])
    found = rows(tmp_path, report.requests)
    problems: list[Problem] = []
    expected = Counter(
        (
            codec.api_name(each.api_key),
            str(each.connection),
            each.correlation_id,
            each.sent_ns // 1_000,
        )
        for each in exchanges(read(captures, problems.append), problems=problems.append)
        if each.response is not None
    )
    assert report.inputs == tuple(captures)
    assert report.rows == len(found)
    assert report.problems == ()
    answered = [row for row in found if row["response_ts"] is not None]
    assert (
        Counter(
            (
                codec.api_name(int(str(row["api_key"]))),
                f"{row['client']} > {row['broker']}",
                row["correlation_id"],
                pa.scalar(row["ts"], pa.timestamp("us", tz="UTC")).value,
            )
            for row in answered
        )
        == expected
    )
    assert all(name.split("/")[-1].startswith("000001-00005-9-") for name in report.requests)


def test_files_read_by_spark_are_decoded_equally(captures: list[str], tmp_path: Path) -> None:
    by_name = decode(task(tmp_path / "a"), 0, 0, [(name, None) for name in captures])
    contents = pa.RecordBatch.from_pydict(
        {
            "path": captures,
            "content": [location(name).files.open_input_file(name).read() for name in captures],
        }
    )
    [batch] = decode_contents([contents], task(tmp_path / "b"))
    by_spark = TaskReport.from_json(batch["report"][0].as_py())
    assert by_spark == by_name
    assert rows(tmp_path / "a", by_name.requests) == rows(tmp_path / "b", by_spark.requests)


def test_task_decodes_the_splits_with_its_numbers(captures: list[str], tmp_path: Path) -> None:
    splits = [[Piece(InputFile(url=name, size=1, modified_ns=1))] for name in captures]
    seen: list[tuple[int, int]] = []
    watched = Task(
        staged=location(str(tmp_path)),
        name="x",
        options=DEFAULT_OPTIONS,
        progress=lambda files, size: seen.append((files, size)),
    )
    numbers = pa.RecordBatch.from_pydict({"id": [1, 0]})
    reports = [
        TaskReport.from_json(batch["report"][0].as_py())
        for batch in decode_splits([numbers], watched, splits)
    ]
    assert [report.inputs for report in reports] == [(captures[1],), (captures[0],)]
    assert seen == [(1, location(name).files.get_file_info(name).size) for name in captures[1::-1]]


def test_file_read_in_parts_counts_once(captures: list[str], tmp_path: Path) -> None:
    parts = parts_in(captures[0], 1)
    assert len(parts) > 1
    size = location(captures[0]).files.get_file_info(captures[0]).size
    seen: list[tuple[int, int]] = []
    watched = Task(
        staged=location(str(tmp_path)),
        name="x",
        options=DEFAULT_OPTIONS,
        progress=lambda files, size: seen.append((files, size)),
    )
    report = decode(watched, 0, 0, [(captures[0], part) for part in parts])
    assert (sum(files for files, _ in seen), sum(done for _, done in seen)) == (1, size)
    found = rows(tmp_path, report.requests)
    assert {row["file"] for row in found} == {captures[0]}
    assert len({row["offset"] for row in found}) == len(found)


def test_files_that_are_no_captures_or_missing_are_noted_and_others_decoded(
    captures: list[str], tmp_path: Path
) -> None:
    junk = tmp_path / "junk"
    junk.write_bytes(b"these are no packets" * 50)
    gone = str(tmp_path / "gone")
    files = [(str(junk), None), (gone, None), (captures[0], None)]
    report = decode(task(tmp_path), 0, 0, files)
    assert report.rows > 0
    assert (report.quarantined, report.skipped) == ((gone,), (str(junk),))
    kinds = {row["file"]: row["kind"] for row in rows(tmp_path, report.problems)}
    assert kinds[str(junk)] == ProblemKind.NOT_A_CAPTURE
    assert kinds[gone] == ProblemKind.UNREADABLE


def test_error_of_the_reader_is_a_problem_of_the_file(
    captures: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(*arguments: object) -> Iterator[tuple[Table, pa.RecordBatch]]:
        yield from list(read_file(*arguments))[:1]  # type: ignore[arg-type]
        raise IndexError("beyond\nall")

    monkeypatch.setattr(decoding, "read_file", breaking)
    report = decode(task(tmp_path), 0, 0, [(captures[0], None)])
    assert report.rows > 0
    assert report.quarantined == (captures[0],)
    [problem] = rows(tmp_path, report.problems)
    assert problem["detail"] == "not read to its end: IndexError: beyond all"


def test_error_of_creating_output_fails_the_task(captures: list[str], tmp_path: Path) -> None:
    (tmp_path / "requests").write_text("in the way")
    with pytest.raises(OSError, match="requests"):
        decode(task(tmp_path), 0, 0, [(captures[0], None)])


def test_error_of_writing_output_fails_the_task(
    captures: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(_: object) -> None:
        monkeypatch.undo()  # the other files must be closed
        raise OSError("the upload could not be completed")

    monkeypatch.setattr(writing, "OPEN_FILES", 1)
    monkeypatch.setattr(writing._File, "close", breaking)
    with pytest.raises(OSError, match="could not be completed"):
        decode(task(tmp_path), 0, 0, [(captures[0], None)])


def test_files_that_were_not_read_are_reported(tmp_path: Path) -> None:
    problem = Problem(
        kind=ProblemKind.UNREADABLE, file="f", offset=None, connection=None, detail="too large"
    )
    report = quarantine(task(tmp_path), [problem])
    assert (report.inputs, report.quarantined) == (("f",), ("f",))
    assert [row["detail"] for row in rows(tmp_path, report.problems)] == ["too large"]


def test_report_survives_json() -> None:
    report = TaskReport(inputs=("a",), requests=("r",), rows=3, frames=5, quarantined=("a",))
    assert TaskReport.from_json(report.to_json()) == report
