"""Following a capture: requests and frames that span batches."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.lab.columnar.growing_files import GrowingFile
from kafkalite.lab.columnar.options import DEFAULT_OPTIONS, Options
from kafkalite.lab.spark.follow import stream
from kafkalite.lab.spark.follow.stream import BatchDecoder, FollowedCapture, follow
from kafkalite.lab.spark.inputs import WorkerFiles
from kafkalite.lab.spark.locations import LocationError, location
from kafkalite.lab.spark.output_journal import locked
from kafkalite.lab.spark.sources.folder_stream import FileRange
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafkalite.lab.spark.locations import InputFile
    from kafkalite.lab.spark.manifest import InputSplit
    from kafkalite.lab.spark.requests import Requests
    from kafkalite.lab.spark.stages.decoding import Task

pytestmark = pytest.mark.spark

Exchange = tuple[int, int, bool]


class Batches:
    """Decodes batches of one capture, each with a new decoder as after a restart."""

    def __init__(self, spark: SparkSession, out: Path, *, is_restarted: bool = True) -> None:
        self._spark = spark
        self._out = out
        self._continued = None if is_restarted else self._batch_decoder()
        self.found: dict[int, list[Exchange]] = {}
        self.pending: dict[int, dict[int, int]] = {}

    def decode(self, number: int, *pieces: FileRange) -> None:
        (self._continued or self._batch_decoder()).decode(self._spark, pieces, number)

    def finish(self) -> None:
        (self._continued or self._batch_decoder()).finish()

    def all(self) -> list[Exchange]:
        return sorted(row for rows in self.found.values() for row in rows)

    def _batch_decoder(self) -> BatchDecoder:
        def each(
            requests: Requests,
            number: int,
            pending_us: Mapping[int, int],
            is_last: bool,  # noqa: ARG001, FBT001
        ) -> None:
            rows = (
                requests.envelopes().select("connection", "correlation_id", "response_ts").collect()
            )
            self.found[number] = [(row[0], row[1], row[2] is not None) for row in rows]
            self.pending[number] = dict(pending_us)

        return BatchDecoder(
            self._spark, FollowedCapture(inputs=(), out=location(str(self._out))), each
        )


@pytest.fixture
def capture(tmp_path: Path) -> tuple[Path, ...]:
    made = write(tmp_path / "captures", 60_000, connections=3, file_bytes=40_000)
    assert len(made.files) > 1
    return made.files[:2]


@pytest.mark.parametrize("is_in_tasks", [False, True])
def test_request_is_passed_on_with_its_response_from_a_later_batch(
    spark: SparkSession,
    tmp_path: Path,
    capture: tuple[Path, ...],
    monkeypatch: pytest.MonkeyPatch,
    is_in_tasks: bool,  # noqa: FBT001
) -> None:
    if is_in_tasks:
        monkeypatch.setattr(stream, "DRIVER_BYTES", 0)
        monkeypatch.setattr(stream, "is_one_process", lambda _: False)
    sizes = [path.stat().st_size for path in capture]
    first, second = map(str, capture)
    at_once = Batches(spark, tmp_path / "at-once")
    at_once.decode(0, FileRange(first, 0, None, sizes[0]), FileRange(second, 0, None, sizes[1]))
    at_once.finish()

    cut = sizes[0] // 2 + 7
    followed = Batches(spark, tmp_path / "followed", is_restarted=not is_in_tasks)
    followed.decode(0, FileRange(first, 0, cut, cut))
    followed.decode(
        1, FileRange(first, cut, None, sizes[0] - cut), FileRange(second, 0, 9_000, 9_000)
    )
    followed.decode(
        1, FileRange(first, cut, None, sizes[0] - cut), FileRange(second, 0, 9_000, 9_000)
    )
    followed.decode(2, FileRange(second, 9_000, None, sizes[1] - 9_000))
    followed.finish()
    assert len(followed.all()) > 100
    assert followed.all() == at_once.all()
    assert all(followed.found[number] for number in range(3))


def test_files_of_failed_tasks_are_not_passed_on(
    spark: SparkSession,
    tmp_path: Path,
    capture: tuple[Path, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode = WorkerFiles.decode

    def decode_twice(
        source: WorkerFiles,
        files: Sequence[InputFile],
        task: Task,
        *more: Any,  # noqa: ANN401
    ) -> list[InputSplit]:
        decode(source, files, replace(task, name="failed"), *more)
        return decode(source, files, task, *more)

    range_ = FileRange(str(capture[0]), 0, None, capture[0].stat().st_size)
    expected, followed = Batches(spark, tmp_path / "expected"), Batches(spark, tmp_path / "out")
    expected.decode(0, range_)
    monkeypatch.setattr(WorkerFiles, "decode", decode_twice)
    followed.decode(0, range_)
    assert len(followed.all()) > 100
    assert followed.all() == expected.all()


def test_tables_of_a_batch_are_in_a_new_folder_after_a_restart(
    spark: SparkSession,
    tmp_path: Path,
    capture: tuple[Path, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks of a run that was killed may still write to theirs."""
    decode, staged = WorkerFiles.decode, []

    def decode_in(source: WorkerFiles, files: Sequence[InputFile], task: Task, *more: Any) -> Any:  # noqa: ANN401
        staged.append(task.staged.url)
        return decode(source, files, task, *more)

    monkeypatch.setattr(WorkerFiles, "decode", decode_in)
    followed = Batches(spark, tmp_path / "out")
    for _ in range(2):
        followed.decode(0, FileRange(str(capture[0]), 0, None, capture[0].stat().st_size))
    first, second = staged
    assert first != second


def test_tables_of_interrupted_batches_are_deleted(tmp_path: Path) -> None:
    out = location(str(tmp_path))
    (out / "_kafkalite/batch-7.0badcafe/requests/api=Fetch/0.parquet").write_text("")
    with pytest.raises(AttributeError):  # without a session, it fails when it uses Spark
        follow(cast("SparkSession", None), FollowedCapture(inputs=["in"], out=out), lambda *_: None)
    assert set(out.walk()) == {"_kafkalite/followed.json", "_kafkalite/lock"}


def test_stopped_stream_ends_within_a_batch_which_the_next_run_repeats(
    spark: SparkSession, tmp_path: Path, capture: tuple[Path, ...]
) -> None:
    found: dict[int, list[tuple[int, int]]] = {}
    followed = FollowedCapture(
        inputs=[str(capture[0].parent)], out=location(str(tmp_path / "followed"))
    )

    def on_batch(requests: Requests, number: int, *_: object) -> None:
        rows = requests.envelopes().select("connection", "correlation_id").collect()
        found[number] = sorted(map(tuple, rows))

    is_stopped = False

    def on_endless_batch(*batch: Any) -> None:  # noqa: ANN401
        nonlocal is_stopped
        on_batch(*batch)
        is_stopped = True
        spark.range(1 << 60).where("id < 0").count()

    follow(spark, followed, on_endless_batch, should_stop=lambda: is_stopped)
    assert [*found] == [0]
    interrupted = found.pop(0)
    follow(spark, followed, on_batch, available_now=True)
    assert found[0] == interrupted
    assert [*found] == [0, 1]  # the last one has the requests that wait for a response


def test_requests_without_responses_are_passed_on_at_the_end(
    spark: SparkSession, tmp_path: Path, capture: tuple[Path, ...]
) -> None:
    path, data = str(capture[0]), capture[0].read_bytes()
    cut = next(
        size for size in range(2_000, len(data), 50) if _open(path, data[:size], tmp_path / "grown")
    )
    followed = Batches(spark, tmp_path / "followed")
    grown = tmp_path / "grown"
    followed.decode(0, FileRange(str(grown), 0, cut, cut))
    assert followed.pending[0]
    followed.finish()
    assert [answered for *_, answered in followed.found[1]].count(False) >= 1


def _open(path: str, data: bytes, grown: Path) -> bool:
    grown.write_bytes(data)
    file = GrowingFile(path, DEFAULT_OPTIONS)
    for _ in file.read(BytesIO(data), len(data)):
        pass
    return bool(file.first_open_request_ns())


def test_file_that_became_shorter_is_reported(
    spark: SparkSession, tmp_path: Path, capture: tuple[Path, ...]
) -> None:
    path, size = capture[0], capture[0].stat().st_size
    batch_decoder = BatchDecoder(
        spark, FollowedCapture(inputs=(), out=location(str(tmp_path / "followed"))), lambda *_: None
    )
    torn = size // 2 + 7
    batch_decoder.decode(spark, [FileRange(str(path), 0, torn, torn)], 0)
    # A recorder with a full disk removes the block that it could not finish.
    whole = batch_decoder.growing[str(path)].position
    assert whole < torn
    os.truncate(path, whole)
    assert not batch_decoder.truncation_error()
    os.truncate(path, whole - 1)
    assert f"has {whole - 1:,} bytes, but {whole:,} were read" in batch_decoder.truncation_error()
    path.unlink()
    assert not batch_decoder.truncation_error()


def test_second_follower_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    out = location(str(tmp_path))
    no_session = cast("SparkSession", None)
    with locked(out), pytest.raises(LocationError, match="another run is writing there"):
        follow(no_session, FollowedCapture(inputs=[str(tmp_path)], out=out), lambda *_: None)


def test_other_input_or_options_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    out = location(str(tmp_path))
    no_session = cast("SparkSession", None)

    def refused(capture: FollowedCapture) -> str:
        with pytest.raises(LocationError) as error:
            follow(no_session, capture, lambda *_: None)
        return str(error.value)

    capture = FollowedCapture(inputs=[str(tmp_path / "in")], out=out)
    with pytest.raises(AttributeError):  # without a session, it fails when it uses Spark
        follow(no_session, capture, lambda *_: None)
    assert "another INPUT;" in refused(replace(capture, inputs=[str(tmp_path / "other")]))
    for option, changed in {
        "--client": Options(clients="a*"),
        "--api": Options(api_keys=frozenset({8})),
        "--from": Options(from_ns=1),
        "--until": Options(until_ns=1),
    }.items():
        assert f"another {option};" in refused(replace(capture, options=changed))
    description = out / "_kafkalite/followed.json"
    description.write_text("{")
    assert "followed.json" in refused(capture)
    description.delete()
    (out / "_kafkalite/checkpoint/metadata").write_text("{}")
    assert "another version of kafkalite;" in refused(capture)


def test_state_of_another_version_is_deleted_and_all_input_is_read_again(tmp_path: Path) -> None:
    out = location(str(tmp_path / "out"))
    no_session = cast("SparkSession", None)
    capture = FollowedCapture(inputs=[str(tmp_path / "in")], out=out)
    with pytest.raises(AttributeError):  # without a session, it fails when it uses Spark
        follow(no_session, capture, lambda *_: None)
    description = out / "_kafkalite/followed.json"
    current = description.read_text()
    assert current is not None
    description.write_text(json.dumps({**json.loads(current), "layout": 2}))
    state = ("_kafkalite/checkpoint/metadata", "_kafkalite/state/0/note.json", "ghosts/0")
    for name in (*state, "theirs/notes.txt"):
        (out / name).write_text("{}")
    with pytest.raises(AttributeError):
        follow(no_session, capture, lambda *_: None)
    assert description.read_text() == current
    remaining = {"_kafkalite/followed.json", "_kafkalite/lock", "theirs/notes.txt"}
    assert set(out.walk()) == remaining
