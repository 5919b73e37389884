"""Captures to tables to audits, end to end: what is there is what the input says, each time."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.capture.reading import exchanges, read
from kafkalite.columnar.options import Options
from kafkalite.protocol import codec
from kafkalite.spark import pipeline
from kafkalite.spark.following import Subject, follow
from kafkalite.spark.inputs import ByName
from kafkalite.spark.pipeline import Job, NothingToAuditError, Outcome, audit
from kafkalite.spark.places import PlaceError, place
from kafkalite.spark.requests import Requests
from kafkalite.spark.stages import parting
from tests.captures.cut import cut
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafkalite.capture.model import Problem
    from kafkalite.spark.manifest import Lot
    from kafkalite.spark.places import InputFile
    from kafkalite.spark.stages.decoding import Task

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a capture of several files, over which connections go on."""
    folder = tmp_path_factory.mktemp("captures")
    made = write(folder, 400_000, connections=5, file_bytes=100_000)
    assert len(made.files) >= 4
    return folder


def ran(spark: SparkSession, out: Path, *inputs: Path, **asked: Any) -> Outcome:  # noqa: ANN401
    job = Job(inputs=tuple(map(str, inputs)), out=str(out), **{"audits": (), **asked})
    return audit(spark, job)


def expected(*paths: Path) -> Counter[tuple[str, str, int, bool]]:
    problems: list[Problem] = []
    found = exchanges(read(list(map(str, paths)), problems.append), problems=problems.append)
    return Counter(
        (
            codec.api_name(each.api_key),
            str(each.connection),
            each.correlation_id,
            each.response is not None,
        )
        for each in found
    )


def found(spark: SparkSession, out: Path) -> Counter[tuple[str, str, int, bool]]:
    rows = Requests.read(spark, place(str(out))).envelopes()
    return Counter(
        (
            codec.api_name(row.api_key),
            f"{row.client} > {row.broker}",
            row.correlation_id,
            row.answered is not None,
        )
        for row in rows.collect()
    )


def columns(spark: SparkSession, out: Path) -> Counter[tuple[Any, ...]]:
    """Return all that envelopes say, and every problem."""
    requests = Requests.read(spark, place(str(out)))
    rows = [*requests.envelopes().collect(), *requests.problems().collect()]
    return Counter(tuple(row) for row in rows)


def state(out: Path) -> dict[str, int]:
    """Return every file that a run left, and when it was written."""
    return {
        str(path.relative_to(out)): path.stat().st_mtime_ns
        for path in out.rglob("*")
        if path.is_file() and "_kafkalite" not in path.parts
    }


def test_what_is_in_the_tables_is_what_scalar_reading_finds(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    outcome = ran(spark, tmp_path / "out", captures, lot_bytes=1)
    counted = found(spark, tmp_path / "out")
    assert counted == expected(captures)
    assert outcome.requests == counted.total()
    assert (outcome.read, outcome.quarantined) == (len([*captures.iterdir()]), ())


def test_connections_and_frames_that_lie_in_several_files_are_one_each(
    spark: SparkSession, tmp_path: Path
) -> None:
    paths = cut(tmp_path / "in", files=5)
    out = tmp_path / "out"
    # The last file comes in a run of its own, before the others.
    ran(spark, out, paths[-1], lot_bytes=1)
    assert ran(spark, out, tmp_path / "in", lot_bytes=1).read == len(paths) - 1
    assert found(spark, out) == expected(*paths)
    numbers = Requests.read(spark, place(str(out))).envelopes().select("connection", "client")
    assert numbers.distinct().count() == numbers.select("client").distinct().count()


def test_how_files_are_shared_out_makes_no_difference(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    ran(spark, tmp_path / "a", captures, lot_bytes=1)
    ran(spark, tmp_path / "b", captures, lot_bytes=1 << 30, by_spark=True)
    assert found(spark, tmp_path / "a") == found(spark, tmp_path / "b")


def test_a_huge_file_is_read_in_parts_and_says_what_it_says_as_a_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parting, "LEAST_BYTES", 100_000)
    # As tcpdump writes: without our notes, so that a part does not know how connections began.
    made = write(tmp_path / "in", 500_000, connections=5, notes=False)
    path, *more = made.files
    assert path.stat().st_size > 400_000
    for each in more:
        each.unlink()
    outcome = ran(spark, tmp_path / "parts", tmp_path / "in", lot_bytes=1)
    assert (outcome.files, outcome.read, outcome.quarantined) == (1, 1, ())
    written = [*(tmp_path / "parts" / "requests").rglob("*.parquet")]
    assert len({part.name.split("-")[1] for part in written}) > 2
    ran(spark, tmp_path / "whole", tmp_path / "in", lot_bytes=1 << 30)
    assert columns(spark, tmp_path / "parts") == columns(spark, tmp_path / "whole")
    assert found(spark, tmp_path / "parts") == expected(path)
    before = state(tmp_path / "parts")
    assert ran(spark, tmp_path / "parts", tmp_path / "in", lot_bytes=1 << 30).read == 0
    assert state(tmp_path / "parts") == before
    path.write_bytes(path.read_bytes()[:-1000])
    assert ran(spark, tmp_path / "parts", tmp_path / "in", lot_bytes=1 << 30).read == 1
    assert found(spark, tmp_path / "parts") == expected(path)


def test_a_second_run_reads_what_is_new_alone(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    growing, out = tmp_path / "in", tmp_path / "out"
    growing.mkdir()
    first, *rest = sorted(captures.iterdir())
    shutil.copy2(first, growing)
    assert ran(spark, out, growing).read == 1
    before = state(out)
    assert ran(spark, out, growing).read == 0
    assert state(out) == before
    for path in rest:
        shutil.copy2(path, growing)
    assert ran(spark, out, growing).read == len(rest)
    assert found(spark, out) == expected(captures)


def test_a_file_that_changes_or_goes_takes_what_it_gave_with_it(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(captures, folder)
    paths = sorted(folder.iterdir())
    ran(spark, out, folder, lot_bytes=1)
    paths[-1].unlink()
    assert ran(spark, out, folder, lot_bytes=1).read == 0
    assert found(spark, out) == expected(*paths[:-1])
    paths[-2].write_bytes(paths[-2].read_bytes()[:-1000])
    assert ran(spark, out, folder, lot_bytes=1).read == 1
    assert found(spark, out) == expected(*paths[:-1])


def test_what_a_vanished_file_gave_can_be_kept(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(captures, folder)
    ran(spark, out, folder)
    before = found(spark, out)
    for path in folder.iterdir():
        path.unlink()
    assert ran(spark, out, folder, keep_vanished=True).read == 0
    assert found(spark, out) == before


def test_a_file_that_cannot_be_read_is_quarantined_and_the_rest_goes_on(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(captures, folder)
    (folder / "a.pcapng").write_bytes(b"no packets at all " * 100)
    (folder / "b.pcapng").symlink_to("nowhere")
    outcome = ran(spark, out, folder, folder / "a.pcapng")
    assert str(folder / "a.pcapng") in outcome.quarantined
    assert found(spark, out) == expected(captures)
    told = {
        row.file: row.kind for row in Requests.read(spark, place(str(out))).problems().collect()
    }
    assert told[str(folder / "a.pcapng")] == "not a capture"


def test_what_is_asked_for_otherwise_is_read_anew(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    ran(spark, tmp_path, captures)
    some = ran(spark, tmp_path, captures, options=Options(api_keys=frozenset({8})))
    assert some.read == len([*captures.iterdir()])
    assert {name for name, *_ in found(spark, tmp_path)} == {"OffsetCommit"}


def test_an_input_without_captures_is_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(NothingToAuditError, match="no files"):
        ran(spark, tmp_path / "out", tmp_path / "in")
    (tmp_path / "in" / "notes.txt").write_text("no packets here, either\n" * 10)
    with pytest.raises(NothingToAuditError, match=r"notes\.txt: not a capture") as told:
        ran(spark, tmp_path / "out", tmp_path / "in")
    assert "\n" not in str(told.value)


def test_tables_that_others_wrote_are_left_alone(
    spark: SparkSession, tmp_path: Path, captures: Path
) -> None:
    theirs = tmp_path / "requests" / "theirs.txt"
    theirs.parent.mkdir()
    theirs.write_text("precious")
    with pytest.raises(PlaceError, match="no run of this pipeline"):
        ran(spark, tmp_path, captures)
    assert theirs.read_text() == "precious"


def test_audits_leave_their_tables_and_a_report(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    outcome = ran(spark, tmp_path, captures, audits=("fencing",))
    assert outcome.report is not None
    assert place(outcome.report).exists()
    before = state(tmp_path)
    assert any(name.startswith("audits/") for name in before)
    ran(spark, tmp_path, captures, audits=("fencing",))
    assert state(tmp_path) == before


def test_what_audits_found_stays_while_the_input_does_and_no_longer(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    growing, out = tmp_path / "in", tmp_path / "out"
    growing.mkdir()
    first, second, third, *_ = sorted(captures.iterdir())
    theirs = out / "audits" / "theirs" / "notes.txt"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("precious")

    def made(*audits: str) -> set[str]:
        ran(spark, out, growing, audits=audits)
        folders = {path.parent for path in out.glob("*/*/*.parquet")}
        return {path.name for path in folders if path.parent.name in {"audits", "state"}}

    shutil.copy2(first, growing)
    producers = made("producers")
    both = made("members")
    members = both - producers
    assert {"ghosts", "ghost_totals"} <= members
    assert {"producer_fences", "transactions"} <= producers
    shutil.copy2(second, growing)
    assert members <= made("members") < both
    assert not (out / "audits" / "transactions").exists()
    assert made() == made("members")
    shutil.copy2(third, growing)
    assert made() == set()
    assert not (out / "report.html").exists()
    assert theirs.read_text() == "precious"


def test_audits_that_broke_off_before_their_report_are_made_again(
    spark: SparkSession, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(*_: object) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "write_report", breaking)
        with pytest.raises(OSError, match="no room"):
            ran(spark, tmp_path, captures, audits=("metadata",))
    outcome = ran(spark, tmp_path, captures, audits=("metadata",))
    assert outcome.report is not None
    assert place(outcome.report).exists()


def test_a_file_that_was_written_and_is_not_there_is_told_and_nothing_is_done(
    spark: SparkSession, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = ByName.decode

    def losing(source: ByName, files: Sequence[InputFile], task: Task, *more: Any) -> list[Lot]:  # noqa: ANN401
        lots = decode(source, files, task, *more)
        (task.staged / lots[0].requests[0]).delete()
        return lots

    first, *_ = sorted(captures.iterdir())
    ran(spark, tmp_path, first)
    before = state(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(ByName, "decode", losing)
        with pytest.raises(
            PlaceError, match=r"requests/.*\.parquet: was written, but is not there"
        ):
            ran(spark, tmp_path, captures)
    assert state(tmp_path) == before
    ran(spark, tmp_path, captures)
    assert found(spark, tmp_path) == expected(captures)


def test_a_growing_capture_is_handed_on_batch_by_batch(
    spark: SparkSession, captures: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", place(str(tmp_path / "out"))
    folder.mkdir()
    subject = Subject(inputs=[str(folder)], out=out)
    batches: dict[int, int] = {}
    ended: list[int | None] = []

    def each(requests: Requests, number: int, _: object, is_last: bool) -> None:  # noqa: FBT001
        batches[number] = requests.envelopes().count()
        ended.append(number if is_last else None)

    first, *rest = sorted(captures.iterdir())
    for paths in ([first], rest):
        for path in paths:
            shutil.copy2(path, folder)
        (folder / "z-growing.pcapng").write_bytes(first.read_bytes()[:100])
        follow(spark, subject, each, available_now=True)
    assert ended == [None, 1, None, 2]
    assert batches[0]
    assert batches[1]
    assert sum(batches.values()) == expected(*captures.iterdir()).total()
