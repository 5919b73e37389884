"""Rows of one capture file, as options select them."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import pyarrow as pa
import pytest

from kafkalite.capture.formats import pcapng, pcapng_reader
from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.locations import InputFile
from kafkalite.lab.spark.sources.folder_stream import FileState
from kafkalite.lab.spark.sources.options import OptionError
from kafkalite.lab.spark.sources.rows import CaptureReader, unanswered_pairs
from tests.perf.big_capture import write

OFFSET_COMMIT = 8


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = write(tmp_path_factory.mktemp("capture"), 200_000, connections=7)
    return str(made.files[0])


def rows_of(name: str, **options: str) -> list[dict[str, object]]:
    found = CaptureReader({name.rstrip("_"): text for name, text in options.items()})
    batches = [*found.read(name)]
    assert all(batch.schema.equals(found.schema) for batch in batches)
    # Java trusts the schema: it would read garbage for a null in such a column.
    assert not any(
        column.null_count
        for batch in batches
        for field, column in zip(batch.schema, batch.columns, strict=True)
        if not field.nullable
    )
    return [row for batch in batches for row in batch.to_pylist()]


def test_requests_of_one_api_are_typed(capture: str) -> None:
    found = rows_of(capture, api="OffsetCommit")
    assert found
    assert CaptureReader({"api": "8"}).schema == tables.requests(OFFSET_COMMIT)
    assert {row["api_key"] for row in found} == {OFFSET_COMMIT}
    assert all(row["request"] is not None for row in found)


def test_frames_are_requests_and_responses(capture: str) -> None:
    frames = rows_of(capture)
    envelopes = rows_of(capture, table="envelopes")
    answered = sum(row["response_ts"] is not None for row in envelopes)
    assert len(frames) == len(envelopes) + answered


def test_options_filter_rows(capture: str) -> None:
    every = rows_of(capture, api="OffsetCommit")
    version, connection = every[0]["api_version"], every[0]["connection"]
    some = rows_of(capture, api="OffsetCommit", connection=str(connection))
    assert some == [row for row in every if row["connection"] == connection]
    assert rows_of(capture, api="OffsetCommit", versions=f"{version}") == [
        row for row in every if row["api_version"] == version
    ]
    assert rows_of(capture, api="OffsetCommit", from_="2100-01-01T00:00:00Z") == []
    times = sorted(str(row["ts"]) for row in every)
    middle = times[len(times) // 2].split(".")[0]
    assert rows_of(capture, api="OffsetCommit", until=middle) == [
        row for row in every if str(row["ts"]) < middle
    ]


def test_columns_and_fields_can_be_selected(capture: str) -> None:
    found = rows_of(
        capture, api="OffsetCommit", fields="request.group_id", columns="request,connection"
    )
    assert list(found[0]) == ["request", "connection"]
    assert list(found[0]["request"]) == ["group_id"]  # type: ignore[call-overload]


def test_payload_can_be_omitted(capture: str) -> None:
    assert {row["payload"] for row in rows_of(capture, payload="false")} == {None}


@pytest.mark.parametrize("table", ["frames", "envelopes", "connections", "problems"])
def test_columns_that_are_not_nullable_have_values_in_a_truncated_capture(
    capture: str, tmp_path: Path, table: str
) -> None:
    whole = Path(capture).read_bytes()
    torn = tmp_path / "torn.pcapng"
    torn.write_bytes(whole[: len(whole) // 2 + 1])
    assert rows_of(str(torn), table=table)


@pytest.mark.parametrize(
    "options",
    [
        {"table": "requests"},
        {"table": "requests", "api": "8,9"},
        {"table": "tables"},
        {"api": "8", "columns": "nothing"},
        {"api": "8", "fields": "request.nothing"},
        {"api": "8", "fields": "nothing.topics"},
    ],
)
def test_invalid_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        CaptureReader(options)


def test_errors_of_files_are_only_in_the_table_of_problems(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert rows_of(gone) == []
    [problem] = rows_of(gone, table="problems")
    assert (problem["kind"], problem["file"]) == (ProblemKind.UNREADABLE, gone)


def test_unpaired_request_has_no_response() -> None:
    rows = [
        {
            "file": "f",
            "offset": 9,
            "ts": 7,
            "connection": 1,
            "client": "c",
            "broker": "b",
            "direction": direction,
            "api_key": 8,
            "api_version": 9,
            "correlation_id": 5,
            "payload": b"payload",
            "client_id": "me",
            "start": 3,
            "frame_number": 0,
        }
        for direction in (0, 1)
    ]
    [found] = unanswered_pairs(pa.RecordBatch.from_pylist(rows, schema=tables.UNPAIRED)).to_pylist()
    assert (found["request"], found["request_start"], found["request_bytes"]) == (b"payload", 3, 7)
    assert (found["client_id"], found["response_ts"], found["response"]) == ("me", None, None)


def test_file_that_ends_with_statistics_is_complete(tmp_path: Path) -> None:
    def file(data: bytes) -> InputFile:
        path = tmp_path / "file"
        path.write_bytes(data)
        return InputFile(url=str(path), size=len(data), modified_ns=0)

    packets = pcapng_reader.MAGIC + b"anything before" * 9 + b"x"
    assert (
        CaptureReader({}).file_state(file(packets + pcapng.statistics(0, 1))) is FileState.COMPLETE
    )
    assert (
        CaptureReader({}).file_state(file(packets + pcapng.statistics(0, 1)[:-1]))
        is FileState.DEFERRED
    )
    assert CaptureReader({}).file_state(file(packets)) is FileState.DEFERRED
    assert CaptureReader({}).file_state(file(gzip.compress(packets))) is FileState.DEFERRED


@pytest.mark.parametrize("content", [None, b"", b"\x0a", b"a note", b"\xff" * 40])
def test_file_that_is_no_capture_shows_nothing_about_the_one_before_it(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    listed = InputFile(url=str(path), size=0, modified_ns=0)
    assert CaptureReader({"open": "read"}).file_state(listed) is FileState.OTHER


def test_pieces_of_a_growing_file_have_the_rows_of_the_whole(capture: str) -> None:
    found = CaptureReader({"api": "OffsetCommit", "open": "read"})
    size = Path(capture).stat().st_size
    cuts = [0, size // 3, size // 2, None]
    pieces = [
        batch
        for start, stop in itertools.pairwise(cuts)
        for batch in found.read(capture, start or 0, stop)
    ]
    whole = pa.Table.from_batches(found.read(capture))
    order = [("connection", "ascending"), ("correlation_id", "ascending")]
    assert pa.Table.from_batches(pieces).sort_by(order).equals(whole.sort_by(order))


def test_file_may_grow_until_it_ends_with_statistics(capture: str, tmp_path: Path) -> None:
    data = Path(capture).read_bytes()
    part = tmp_path / "part.pcapng"
    part.write_bytes(data[: len(data) // 2])
    whole = tmp_path / "whole.pcapng"
    whole.write_bytes(data + pcapng.statistics(0, 1))
    open_, closed = (InputFile(url=str(each), size=0, modified_ns=0) for each in (part, whole))
    assert CaptureReader({"open": "read"}).file_state(open_) is FileState.GROWING
    assert CaptureReader({}).file_state(open_) is FileState.DEFERRED
    assert CaptureReader({"open": "read"}).file_state(closed) is FileState.COMPLETE
