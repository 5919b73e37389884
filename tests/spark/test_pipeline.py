"""The pipeline end to end: the output always matches the current input."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.lab.columnar.options import Options
from kafkalite.lab.spark import compaction, manifest, pipeline
from kafkalite.lab.spark.follow.stream import FollowedCapture, follow
from kafkalite.lab.spark.inputs import WorkerFiles
from kafkalite.lab.spark.locations import LocationError, location
from kafkalite.lab.spark.manifest import part_to_json
from kafkalite.lab.spark.output_journal import Output
from kafkalite.lab.spark.pipeline import Job, NothingToAuditError, Outcome, audit
from kafkalite.lab.spark.progress import SilentReporter
from kafkalite.lab.spark.requests import Requests
from kafkalite.lab.spark.stages import file_splitting
from kafkalite.protocol import codec
from tests.captures.split_captures import split_capture
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafkalite.capture.model import Problem
    from kafkalite.lab.spark.locations import InputFile
    from kafkalite.lab.spark.manifest import InputSplit
    from kafkalite.lab.spark.stages.decoding import Task

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a capture of several files with connections that span them."""
    folder = tmp_path_factory.mktemp("captures")
    capture = write(folder, 400_000, connections=5, file_bytes=100_000)
    assert len(capture.files) >= 4
    return folder


def run_audit(spark: SparkSession, out: Path, *inputs: Path, **job_options: Any) -> Outcome:  # noqa: ANN401
    job = Job(inputs=tuple(map(str, inputs)), out=str(out), **{"audits": (), **job_options})
    return audit(spark, job)


def scalar_exchanges(*paths: Path) -> Counter[tuple[str, str, int, bool]]:
    problems: list[Problem] = []
    scalar = exchanges(read(list(map(str, paths)), problems.append), problems=problems.append)
    return Counter(
        (
            codec.api_name(each.api_key),
            str(each.connection),
            each.correlation_id,
            each.response is not None,
        )
        for each in scalar
    )


def envelopes_in(spark: SparkSession, out: Path) -> Counter[tuple[str, str, int, bool]]:
    rows = Requests.read(spark, location(str(out))).envelopes()
    return Counter(
        (
            codec.api_name(row.api_key),
            f"{row.client} > {row.broker}",
            row.correlation_id,
            row.response_ts is not None,
        )
        for row in rows.collect()
    )


def columns(spark: SparkSession, out: Path) -> Counter[tuple[Any, ...]]:
    """Return the rows of all envelopes and problems."""
    requests = Requests.read(spark, location(str(out)))
    rows = [*requests.envelopes().collect(), *requests.problems().collect()]
    return Counter(tuple(row) for row in rows)


def state(out: Path) -> dict[str, int]:
    """Return every output file with its time of modification."""
    return {
        str(path.relative_to(out)): path.stat().st_mtime_ns
        for path in out.rglob("*")
        if path.is_file() and "_kafkalite" not in path.parts
    }


def test_tables_contain_what_the_scalar_reader_finds(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    outcome = run_audit(spark, tmp_path / "out", captures, split_bytes=1)
    counted = envelopes_in(spark, tmp_path / "out")
    assert counted == scalar_exchanges(captures)
    assert outcome.requests == counted.total()
    assert (outcome.files_read, outcome.quarantined) == (len([*captures.iterdir()]), ())


def test_connections_and_frames_that_span_files_are_joined(
    spark: SparkSession, tmp_path: Path
) -> None:
    paths = split_capture(tmp_path / "in", files=5)
    out = tmp_path / "out"
    # The last file is read in the first run, before the others.
    run_audit(spark, out, paths[-1], split_bytes=1)
    assert run_audit(spark, out, tmp_path / "in", split_bytes=1).files_read == len(paths) - 1
    assert envelopes_in(spark, out) == scalar_exchanges(*paths)
    numbers = Requests.read(spark, location(str(out))).envelopes().select("connection", "client")
    assert numbers.distinct().count() == numbers.select("client").distinct().count()


def test_result_does_not_depend_on_how_files_are_split(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    run_audit(spark, tmp_path / "a", captures, split_bytes=1)
    run_audit(spark, tmp_path / "b", captures, split_bytes=1 << 30, read_with_spark=True)
    assert envelopes_in(spark, tmp_path / "a") == envelopes_in(spark, tmp_path / "b")


def test_huge_file_read_in_parts_gives_the_same_result(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_splitting, "MIN_PART_BYTES", 100_000)
    # Without our pcapng comments, as from tcpdump, parts do not know how connections began.
    capture = write(tmp_path / "in", 500_000, connections=5, notes=False)
    path, *more = capture.files
    assert path.stat().st_size > 400_000
    for other in more:
        other.unlink()
    outcome = run_audit(spark, tmp_path / "parts", tmp_path / "in", split_bytes=1)
    assert (outcome.files, outcome.files_read, outcome.quarantined) == (1, 1, ())
    written = [*(tmp_path / "parts" / "requests").rglob("*.parquet")]
    assert len({output_path.name.split("-")[1] for output_path in written}) > 2
    run_audit(spark, tmp_path / "whole", tmp_path / "in", split_bytes=1 << 30)
    assert columns(spark, tmp_path / "parts") == columns(spark, tmp_path / "whole")
    assert envelopes_in(spark, tmp_path / "parts") == scalar_exchanges(path)
    before = state(tmp_path / "parts")
    assert (
        run_audit(spark, tmp_path / "parts", tmp_path / "in", split_bytes=1 << 30).files_read == 0
    )
    assert state(tmp_path / "parts") == before
    path.write_bytes(path.read_bytes()[:-1000])
    assert (
        run_audit(spark, tmp_path / "parts", tmp_path / "in", split_bytes=1 << 30).files_read == 1
    )
    assert envelopes_in(spark, tmp_path / "parts") == scalar_exchanges(path)


def test_second_run_reads_only_new_files(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    growing, out = tmp_path / "in", tmp_path / "out"
    growing.mkdir()
    first, *others = sorted(captures.iterdir())
    shutil.copy2(first, growing)
    assert run_audit(spark, out, growing).files_read == 1
    before = state(out)
    assert run_audit(spark, out, growing).files_read == 0
    assert state(out) == before
    in_a_single_file(out)
    for path in others:
        shutil.copy2(path, growing)
    steps = Steps()
    job = Job(inputs=(str(growing),), out=str(out), audits=())
    assert audit(spark, job, steps).files_read == len(others)
    assert steps.lines[0] == "the manifest of an earlier version is converted"
    assert envelopes_in(spark, out) == scalar_exchanges(captures)


def test_output_of_changed_and_deleted_files_is_removed(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(captures, folder)
    paths = sorted(folder.iterdir())
    run_audit(spark, out, folder, split_bytes=1)
    paths[-1].unlink()
    assert run_audit(spark, out, folder, split_bytes=1).files_read == 0
    assert envelopes_in(spark, out) == scalar_exchanges(*paths[:-1])
    paths[-2].write_bytes(paths[-2].read_bytes()[:-1000])
    assert run_audit(spark, out, folder, split_bytes=1).files_read == 1
    assert envelopes_in(spark, out) == scalar_exchanges(*paths[:-1])


def test_output_of_many_small_splits_is_merged(
    spark: SparkSession, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    *earlier, last = sorted(captures.iterdir())
    for path in earlier:
        shutil.copy2(path, folder)
    run_audit(spark, out, folder, split_bytes=1)
    shutil.copy2(last, folder)
    with monkeypatch.context() as patched:
        patched.setattr(compaction, "MIN_SPLITS", len(earlier))
        assert run_audit(spark, out, folder).files_read == 1
    splits = Output(location(str(out)), ()).load().manifest.splits
    assert sorted(len(split.inputs) for split in splits) == [1, len(earlier)]
    assert envelopes_in(spark, out) == scalar_exchanges(captures)
    (folder / earlier[0].name).unlink()
    assert run_audit(spark, out, folder).files_read == len(earlier) - 1
    assert envelopes_in(spark, out) == scalar_exchanges(*earlier[1:], last)


def test_output_of_removed_files_stays_with_keep_removed_inputs(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(captures, folder)
    run_audit(spark, out, folder)
    before = envelopes_in(spark, out)
    for path in folder.iterdir():
        path.unlink()
    assert run_audit(spark, out, folder, keep_removed_inputs=True).files_read == 0
    assert envelopes_in(spark, out) == before


def with_decoder(out: Path, decoder: str) -> None:
    """Change the manifest to that of another version of the decoder."""
    stored = Output(location(str(out)), ()).load()
    for name, splits in stored.parts.items():
        others = [replace(split, decoder=decoder) for split in splits]
        (out / name).write_text(part_to_json(others))


def in_a_single_file(out: Path) -> None:
    """Store the manifest as an earlier version did."""
    stored = Output(location(str(out)), ()).load()
    fields = json.loads(stored.head())
    del fields["parts"], fields["derived"]
    lots = json.loads(part_to_json(stored.manifest.splits))
    (out / manifest.NAME).write_text(json.dumps({**fields, "form": 3, "lots": lots}))
    shutil.rmtree(out / manifest.PARTS)


class Steps(SilentReporter):
    """Collects the steps of runs."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, description: str) -> None:
        self.lines.append(description)


def test_upgrade_keeps_the_rows_of_removed_inputs_and_reads_the_others_again(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(captures, folder)
    first, *others = sorted(folder.iterdir())
    run_audit(spark, out, folder, split_bytes=1, keep_removed_inputs=True)
    before = envelopes_in(spark, out)
    first.unlink()
    with_decoder(out, "another")
    job = Job(inputs=(str(folder),), out=str(out), audits=(), keep_removed_inputs=True)
    steps = Steps()
    assert audit(spark, job, steps).files_read == len(others)
    assert envelopes_in(spark, out) == before
    assert steps.lines[0].endswith(" again: another version of the decoder wrote them")
    with pytest.raises(
        LocationError, match=f"{first.name}, which --keep-removed-inputs has retained"
    ):
        run_audit(spark, out, folder)
    assert envelopes_in(spark, out) == before


def test_unreadable_file_is_quarantined_and_others_are_read(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(captures, folder)
    (folder / "a.pcapng").write_bytes(b"no packets at all " * 100)
    (folder / "b.pcapng").symlink_to("nowhere")
    outcome = run_audit(spark, out, folder, folder / "a.pcapng")
    assert outcome.skipped == (str(folder / "a.pcapng"),)
    assert outcome.quarantined == ()
    assert envelopes_in(spark, out) == scalar_exchanges(captures)
    kinds = {
        row.file: row.kind for row in Requests.read(spark, location(str(out))).problems().collect()
    }
    assert kinds[str(folder / "a.pcapng")] == "not a capture"


def test_change_of_options_reads_all_files_again(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    run_audit(spark, tmp_path, captures)
    some = run_audit(spark, tmp_path, captures, options=Options(api_keys=frozenset({8})))
    assert some.files_read == len([*captures.iterdir()])
    assert {name for name, *_ in envelopes_in(spark, tmp_path)} == {"OffsetCommit"}


def test_error_for_an_input_without_captures_is_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(NothingToAuditError, match="no files"):
        run_audit(spark, tmp_path / "out", tmp_path / "in")
    (tmp_path / "in" / "notes.txt").write_text("no packets here, either\n" * 10)
    with pytest.raises(NothingToAuditError, match=r"notes\.txt: not a capture") as error:
        run_audit(spark, tmp_path / "out", tmp_path / "in")
    assert "\n" not in str(error.value)


def test_folder_with_tables_of_others_is_refused(
    spark: SparkSession, tmp_path: Path, captures: Path
) -> None:
    foreign_file = tmp_path / "requests" / "theirs.txt"
    foreign_file.parent.mkdir()
    foreign_file.write_text("precious")
    with pytest.raises(LocationError, match="no manifest of kafkalite"):
        run_audit(spark, tmp_path, captures)
    assert foreign_file.read_text() == "precious"


def test_audits_write_tables_and_a_report(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    outcome = run_audit(spark, tmp_path, captures, audits=("fencing",))
    assert outcome.report is not None
    assert location(outcome.report).exists()
    before = state(tmp_path)
    assert any(name.startswith("audits/") for name in before)
    run_audit(spark, tmp_path, captures, audits=("fencing",))
    assert state(tmp_path) == before


def test_audit_tables_stay_until_the_input_changes(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    growing, out = tmp_path / "in", tmp_path / "out"
    growing.mkdir()
    first, second, third, *_ = sorted(captures.iterdir())
    foreign_file = out / "audits" / "theirs" / "notes.txt"
    foreign_file.parent.mkdir(parents=True)
    foreign_file.write_text("precious")

    def written_tables(*audits: str) -> set[str]:
        run_audit(spark, out, growing, audits=audits)
        folders = {path.parent for path in out.glob("*/*/*.parquet")}
        return {path.name for path in folders if path.parent.name in {"audits", "state"}}

    shutil.copy2(first, growing)
    producers = written_tables("producers")
    after_both = written_tables("members")
    members = after_both - producers
    assert {"ghosts", "ghost_totals"} <= members
    assert {"producer_fences", "transactions"} <= producers
    shutil.copy2(second, growing)
    assert members <= written_tables("members") < after_both
    assert not (out / "audits" / "transactions").exists()
    assert written_tables() == written_tables("members")
    shutil.copy2(third, growing)
    assert written_tables() == set()
    assert not (out / "report.html").exists()
    assert foreign_file.read_text() == "precious"


def test_audits_interrupted_before_their_report_are_repeated(
    spark: SparkSession, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "write_report", fail)
        with pytest.raises(OSError, match="no room"):
            run_audit(spark, tmp_path, captures, audits=("metadata",))
    outcome = run_audit(spark, tmp_path, captures, audits=("metadata",))
    assert outcome.report is not None
    assert location(outcome.report).exists()


def test_missing_staged_file_is_reported_and_changes_nothing(
    spark: SparkSession, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = WorkerFiles.decode

    def decode_and_delete(
        source: WorkerFiles,
        files: Sequence[InputFile],
        task: Task,
        *more: Any,  # noqa: ANN401
    ) -> list[InputSplit]:
        splits = decode(source, files, task, *more)
        (task.staged / splits[0].requests[0]).delete()
        return splits

    first, *_ = sorted(captures.iterdir())
    run_audit(spark, tmp_path, first)
    before = state(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(WorkerFiles, "decode", decode_and_delete)
        with pytest.raises(
            LocationError, match=r"requests/.*\.parquet: was written but is missing now"
        ):
            run_audit(spark, tmp_path, captures)
    assert state(tmp_path) == before
    run_audit(spark, tmp_path, captures)
    assert envelopes_in(spark, tmp_path) == scalar_exchanges(captures)


def test_growing_capture_is_passed_on_in_batches(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", location(str(tmp_path / "out"))
    folder.mkdir()
    subject = FollowedCapture(inputs=[str(folder)], out=out)
    batches: dict[int, int] = {}
    ended: list[int | None] = []

    def count_batch(requests: Requests, number: int, _: object, is_last: bool) -> None:  # noqa: FBT001
        batches[number] = requests.envelopes().count()
        ended.append(number if is_last else None)

    first, *others = sorted(captures.iterdir())
    for paths in ([first], others):
        for path in paths:
            shutil.copy2(path, folder)
        (folder / "z-growing.pcapng").write_bytes(first.read_bytes()[:100])
        follow(spark, subject, count_batch, available_now=True)
    assert ended == [None, 1, None, 2]
    assert batches[0]
    assert batches[1]
    assert sum(batches.values()) == scalar_exchanges(*captures.iterdir()).total()
