"""The commit of a run's output: after an interruption, `recover` gives the old or new output."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest
from pyarrow import fs

from kafkalite.lab.spark import manifest
from kafkalite.lab.spark.locations import Location, LocationError, location
from kafkalite.lab.spark.manifest import StoredManifest
from kafkalite.lab.spark.output_journal import JOURNAL, STAGING, committed_files, locked
from tests.unit.lab.spark.changes import (
    AFTER,
    NEW,
    OLD,
    STAGED_COMMIT,
    STAGED_STEPS,
    WRITTEN,
    WRITTEN_ONCE_COMMIT,
    WRITTEN_ONCE_STEPS,
    Crash,
    committed,
    crash_at,
    output_in,
    write_change,
    write_old_output,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def staging(tmp_path: Path) -> Location:
    return location(str(tmp_path))


def writing_once(tmp_path: Path) -> Location:
    """Return a folder that is treated as one of an object store, which needs no folders."""
    for folder in ("requests", "audits/b", "audits/theirs", "_kafkalite/manifest"):
        (tmp_path / folder).mkdir(parents=True)
    return Location(fs.LocalFileSystem(), str(tmp_path), "s3a://", "")


KINDS = (
    (staging, STAGED_STEPS, STAGED_COMMIT),
    (writing_once, WRITTEN_ONCE_STEPS, WRITTEN_ONCE_COMMIT),
)


@pytest.fixture(params=[staging, writing_once])
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    made: Location = request.param(tmp_path)
    return made


def test_commit_applies_the_whole_change(out: Location) -> None:
    write_change(out, write_old_output(out))
    assert committed(out) == NEW
    assert output_in(out).recover().manifest == AFTER
    assert committed(out) == NEW


def test_files_that_were_not_committed_are_deleted(out: Location) -> None:
    write_old_output(out)
    folder = output_in(out).begin()
    for name in WRITTEN:
        (folder / name).write_text(name)
    output_in(out).recover()
    assert committed(out) == (OLD[0] - {"report"} if out.is_object else OLD[0], OLD[1])


CRASHES = [
    pytest.param(*kind, step, id=f"{kind[0].__name__}-{step}")
    for kind in KINDS
    for step in range(len(kind[1]))
]


@pytest.mark.parametrize(("place", "steps", "commit", "step"), CRASHES)
def test_change_interrupted_at_any_step_is_finished_or_undone(  # noqa: PLR0917 - one case
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[Path], Location],
    steps: Sequence[str],
    commit: int,
    step: int,
) -> None:
    out = place(tmp_path)
    stored = write_old_output(out)
    with monkeypatch.context() as patched:
        done = crash_at(patched, step)
        with pytest.raises(Crash):
            write_change(out, stored)
        assert tuple(done) == steps[:step]
    output_in(out).recover()
    files, stored_manifest = committed(out)
    assert (files - {"report"}, stored_manifest) == (
        NEW if step >= commit else (OLD[0] - {"report"}, OLD[1])
    )
    assert "report" not in files or step < commit


@pytest.mark.parametrize(("place", "steps", "commit"), KINDS)
def test_change_has_exactly_the_tested_steps(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: Callable[[Path], Location],
    steps: Sequence[str],
    commit: int,
) -> None:
    out = place(tmp_path)
    stored = write_old_output(out)
    done = crash_at(monkeypatch, len(steps))
    write_change(out, stored)
    assert tuple(done) == steps
    assert commit < len(steps)


def test_committed_files_are_those_of_one_run(tmp_path: Path) -> None:
    out = writing_once(tmp_path)
    with pytest.raises(LocationError, match="has no tables of a run"):
        committed_files(str(tmp_path), "requests")
    write_change(out, write_old_output(out))
    output_in(out).begin()
    (out / "requests/uncommitted").write_text("")
    found = committed_files(str(tmp_path), "requests")
    assert found == [str(tmp_path / "requests" / name) for name in ("new", "other")]
    assert committed_files(str(tmp_path), "audits/b") == [str(tmp_path / "audits/b/1")]


def test_object_store_has_a_journal_while_files_may_be_uncommitted(tmp_path: Path) -> None:
    out = writing_once(tmp_path)
    output_in(out).begin()
    assert (out / JOURNAL).exists()
    output_in(out).recover()
    assert not (out / JOURNAL).exists()


@pytest.mark.parametrize("name", WRITTEN)
def test_missing_staged_file_changes_nothing(tmp_path: Path, name: str) -> None:
    out = staging(tmp_path)
    stored = write_old_output(out)
    folder = output_in(out).begin()
    for other in WRITTEN:
        if other != name:
            (folder / other).write_text(other)
    with pytest.raises(LocationError, match=rf"{name}: was written but is missing now"):
        output_in(out).commit(stored, AFTER, WRITTEN)
    output_in(out).recover()
    assert committed(out) == OLD


def test_file_lost_after_an_interruption_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = staging(tmp_path)
    stored = write_old_output(out)
    with monkeypatch.context() as patched:
        crash_at(patched, STAGED_COMMIT)
        with pytest.raises(Crash):
            write_change(out, stored)
    (out / STAGING / "requests/new").delete()
    with pytest.raises(LocationError, match=r"requests/new: missing, and not at requests/new; del"):
        output_in(out).recover()


def test_change_that_an_earlier_version_had_begun_is_finished(tmp_path: Path) -> None:
    out = staging(tmp_path)
    stored = write_old_output(out)
    former = {"form": 3, "selection": "", "run": 2, "audited": ""}
    splits = [asdict(split) for split in AFTER.splits]
    for split in splits:
        split["loose"] = split.pop("incomplete")
    stitched = {**splits[0], "requests": []}
    text = json.dumps({**former, "lots": splits, "stitched": stitched})
    for name in WRITTEN:
        (out / STAGING / name).write_text(name)
    moves = [(f"{STAGING}/{name}", name) for name in WRITTEN]
    deletes = ["requests/old", "audits/b", "report"]
    (out / JOURNAL).write_text(json.dumps({"moves": moves, "deletes": deletes, "manifest": text}))
    (out / manifest.NAME).write_text(json.dumps({**former, "lots": [], "stitched": None}))
    for name in stored.parts:
        (out / name).delete()
    assert output_in(out).recover().manifest == AFTER
    assert committed(out) == NEW


def test_manifest_of_an_earlier_version_gets_the_files_of_the_audits(tmp_path: Path) -> None:
    out = staging(tmp_path)
    write_old_output(out)
    former = {"form": 3, "selection": "", "run": 2, "audited": "", "lots": [], "stitched": None}
    (out / manifest.NAME).write_text(json.dumps(former))
    assert output_in(out).recover() == StoredManifest(
        manifest=replace(StoredManifest().manifest, run=2, derived=("audits/b/0",))
    )


def test_committed_files_of_an_earlier_version_are_found(tmp_path: Path) -> None:
    out = staging(tmp_path)
    write_old_output(out)
    former = {"form": 3, "selection": "", "run": 2, "audited": "", "lots": [], "stitched": None}
    (out / manifest.NAME).write_text(json.dumps(former))
    assert committed_files(str(tmp_path), "audits/b") == [str(tmp_path / "audits/b/0")]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"moves": [1]}', '{"moves": 1}'])
def test_invalid_journal_is_reported_and_changes_nothing(tmp_path: Path, text: str) -> None:
    out = staging(tmp_path)
    write_old_output(out)
    (out / JOURNAL).write_text(text)
    before = {*out.walk()}
    with pytest.raises(LocationError, match=r"journal\.json: not a valid journal"):
        output_in(out).recover()
    assert {*out.walk()} == before


def test_missing_part_of_the_manifest_is_reported(tmp_path: Path) -> None:
    out = staging(tmp_path)
    [part] = write_old_output(out).parts
    (out / part).delete()
    with pytest.raises(LocationError, match=rf"manifest\.json: {part} is missing"):
        output_in(out).recover()


def test_second_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    out = location(str(tmp_path / "out"))
    with locked(out), pytest.raises(LocationError, match="another run"), locked(out):
        pass
    with locked(out):
        pass


def test_error_for_an_unwritable_folder_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(LocationError, match="file"),
        locked(location(str(tmp_path / "file" / "out"))),
    ):
        pass
