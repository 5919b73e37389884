"""Replacing the output of a run: after an interruption, `recover` gives the old or new output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.traffic.spark.locations import LocationError, location
from kafkalite.traffic.spark.output_journal import commit, locked, recover
from tests.unit.traffic.spark.changes import (
    CHANGE,
    NEW,
    OLD,
    STEPS,
    Crash,
    crash_at,
    read_output,
    write_old_output,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_commit_applies_the_whole_change(tmp_path: Path) -> None:
    out = write_old_output(location(str(tmp_path)))
    commit(out, CHANGE)
    recover(out)
    assert read_output(out) == NEW


def test_recover_discards_staged_files_without_a_journal(tmp_path: Path) -> None:
    out = write_old_output(location(str(tmp_path)))
    recover(out)
    assert read_output(out) == OLD


@pytest.mark.parametrize("step", range(STEPS))
def test_recover_completes_a_change_interrupted_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    out = write_old_output(location(str(tmp_path)))
    with monkeypatch.context() as patched:
        done = crash_at(patched, step)
        with pytest.raises(Crash):
            commit(out, CHANGE)
        assert len(done) == step
    recover(out)
    assert read_output(out) == (OLD if step == 0 else NEW)


def test_commit_has_exactly_the_tested_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = write_old_output(location(str(tmp_path)))
    done = crash_at(monkeypatch, STEPS)
    commit(out, CHANGE)
    assert done == ["write_text", "delete", "delete", "move_to", "move_to", "write_text", "delete"]


@pytest.mark.parametrize("move", CHANGE.moves)
def test_missing_staged_file_changes_nothing(tmp_path: Path, move: tuple[str, str]) -> None:
    out = write_old_output(location(str(tmp_path)))
    (out / move[0]).delete()
    with pytest.raises(LocationError, match=rf"{move[0]}: was written but is missing now"):
        commit(out, CHANGE)
    recover(out)
    assert read_output(out) == OLD


def test_file_lost_after_an_interruption_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = write_old_output(location(str(tmp_path)))
    with monkeypatch.context() as patched:
        crash_at(patched, STEPS - 3)
        with pytest.raises(Crash):
            commit(out, CHANGE)
    source, target = CHANGE.moves[1]
    (out / source).delete()
    with pytest.raises(LocationError, match=rf"{source}: missing, and not at {target}; delete"):
        recover(out)


def test_moved_file_stays_when_its_folder_is_deleted(tmp_path: Path) -> None:
    out = write_old_output(location(str(tmp_path)))
    (out / "audits/b/1").write_text("1 old")
    commit(out, CHANGE)
    assert read_output(out) == NEW


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"moves": [1]}'])
def test_invalid_journal_is_reported_and_changes_nothing(tmp_path: Path, text: str) -> None:
    out = write_old_output(location(str(tmp_path)))
    (out / "_kafkalite/journal.json").write_text(text)
    was = read_output(out)
    with pytest.raises(LocationError, match=r"journal\.json: not a valid journal"):
        recover(out)
    assert read_output(out) == was


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
