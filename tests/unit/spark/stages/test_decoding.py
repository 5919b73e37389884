"""A task's lot: what captures say ends up in tables, and no file makes the task fail."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.capture.reading import exchanges, read
from kafkalite.columnar.options import EVERYTHING, Table
from kafkalite.columnar.reading import read_file
from kafkalite.protocol import codec
from kafkalite.spark.manifest import Piece
from kafkalite.spark.places import InputFile, place
from kafkalite.spark.stages import decoding, writing
from kafkalite.spark.stages.decoding import (
    Account,
    Task,
    decode,
    decode_contents,
    decode_lots,
    quarantine,
)
from kafkalite.spark.stages.parting import parts_in
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def task(folder: Path) -> Task:
    return Task(staged=place(str(folder)), name="000001", options=EVERYTHING)


def rows(folder: Path, names: tuple[str, ...]) -> list[dict[str, object]]:
    return [row for name in names for row in parquet.ParquetFile(folder / name).read().to_pylist()]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("captures")
    made = write(folder, 300_000, connections=7, file_bytes=150_000)
    assert len(made.files) > 1
    return [str(path) for path in made.files]


def test_a_lot_becomes_the_requests_that_scalar_reading_finds(
    captures: list[str], tmp_path: Path
) -> None:
    account = decode(task(tmp_path), 5, 9, [(name, None) for name in captures])
    found = rows(tmp_path, account.requests)
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
    assert account.inputs == tuple(captures)
    assert account.rows == len(found)
    assert account.problems == ()
    answered = [row for row in found if row["answered"] is not None]
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
    assert all(name.split("/")[-1].startswith("000001-00005-9-") for name in account.requests)


def test_files_that_spark_has_read_give_the_same(captures: list[str], tmp_path: Path) -> None:
    by_name = decode(task(tmp_path / "a"), 0, 0, [(name, None) for name in captures])
    contents = pa.RecordBatch.from_pydict(
        {
            "path": captures,
            "content": [place(name).files.open_input_file(name).read() for name in captures],
        }
    )
    [told] = decode_contents([contents], task(tmp_path / "b"))
    by_spark = Account.from_json(told["told"][0].as_py())
    assert by_spark == by_name
    assert rows(tmp_path / "a", by_name.requests) == rows(tmp_path / "b", by_spark.requests)


def test_a_task_reads_the_lots_whose_numbers_it_gets(captures: list[str], tmp_path: Path) -> None:
    lots = [[Piece(InputFile(url=name, size=1, modified_ns=1))] for name in captures]
    seen: list[tuple[int, int]] = []
    watched = Task(
        staged=place(str(tmp_path)),
        name="x",
        options=EVERYTHING,
        progress=lambda files, size: seen.append((files, size)),
    )
    numbers = pa.RecordBatch.from_pydict({"id": [1, 0]})
    accounts = [
        Account.from_json(batch["told"][0].as_py())
        for batch in decode_lots([numbers], watched, lots)
    ]
    assert [each.inputs for each in accounts] == [(captures[1],), (captures[0],)]
    assert seen == [(1, place(name).files.get_file_info(name).size) for name in captures[1::-1]]


def test_parts_of_a_file_are_read_one_by_one_and_it_counts_once(
    captures: list[str], tmp_path: Path
) -> None:
    parts = parts_in(captures[0], 1)
    assert len(parts) > 1
    size = place(captures[0]).files.get_file_info(captures[0]).size
    seen: list[tuple[int, int]] = []
    watched = Task(
        staged=place(str(tmp_path)),
        name="x",
        options=EVERYTHING,
        progress=lambda files, size: seen.append((files, size)),
    )
    account = decode(watched, 0, 0, [(captures[0], part) for part in parts])
    assert (sum(files for files, _ in seen), sum(done for _, done in seen)) == (1, size)
    found = rows(tmp_path, account.requests)
    assert {row["file"] for row in found} == {captures[0]}
    assert len({row["offset"] for row in found}) == len(found)


def test_a_file_that_is_no_capture_or_not_there_is_quarantined_and_the_rest_goes_on(
    captures: list[str], tmp_path: Path
) -> None:
    junk = tmp_path / "junk"
    junk.write_bytes(b"these are no packets" * 50)
    gone = str(tmp_path / "gone")
    files = [(str(junk), None), (gone, None), (captures[0], None)]
    account = decode(task(tmp_path), 0, 0, files)
    assert account.rows > 0
    assert account.quarantined == (str(junk), gone)
    told = {row["file"]: row["kind"] for row in rows(tmp_path, account.problems)}
    assert told[str(junk)] == ProblemKind.NOT_A_CAPTURE
    assert told[gone] == ProblemKind.UNREADABLE


def test_what_breaks_in_a_reader_is_its_files_problem(
    captures: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(*arguments: object) -> Iterator[tuple[Table, pa.RecordBatch]]:
        yield from list(read_file(*arguments))[:1]  # type: ignore[arg-type]
        raise IndexError("beyond\nall")

    monkeypatch.setattr(decoding, "read_file", breaking)
    account = decode(task(tmp_path), 0, 0, [(captures[0], None)])
    assert account.rows > 0
    assert account.quarantined == (captures[0],)
    [problem] = rows(tmp_path, account.problems)
    assert problem["detail"] == "not read to its end: IndexError: beyond all"


def test_what_cannot_be_written_is_no_fault_of_a_file(captures: list[str], tmp_path: Path) -> None:
    (tmp_path / "requests").write_text("in the way")
    with pytest.raises(OSError, match="requests"):
        decode(task(tmp_path), 0, 0, [(captures[0], None)])


def test_nor_is_what_breaks_while_the_file_is_read(
    captures: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(_: object) -> None:
        monkeypatch.undo()  # those after it are closed as they should be
        raise OSError("the upload could not be completed")

    monkeypatch.setattr(writing, "OPEN_FILES", 1)
    monkeypatch.setattr(writing._File, "close", breaking)
    with pytest.raises(OSError, match="could not be completed"):
        decode(task(tmp_path), 0, 0, [(captures[0], None)])


def test_files_that_no_task_reads_are_told(tmp_path: Path) -> None:
    problem = Problem(
        kind=ProblemKind.UNREADABLE, file="f", offset=None, connection=None, detail="too large"
    )
    account = quarantine(task(tmp_path), [problem])
    assert (account.inputs, account.quarantined) == (("f",), ("f",))
    assert [row["detail"] for row in rows(tmp_path, account.problems)] == ["too large"]


def test_an_account_travels() -> None:
    account = Account(inputs=("a",), requests=("r",), rows=3, frames=5, quarantined=("a",))
    assert Account.from_json(account.to_json()) == account
