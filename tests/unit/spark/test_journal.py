"""A run that breaks off anywhere leaves, after the next has begun, the old outcome or the new."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.spark.journal import alone, commit, recover
from kafkalite.spark.places import PlaceError, place
from tests.unit.spark.changes import CHANGE, NEW, OLD, STEPS, Crash, crash_at, laid, state

if TYPE_CHECKING:
    from pathlib import Path


def test_a_change_is_made_whole(tmp_path: Path) -> None:
    out = laid(place(str(tmp_path)))
    commit(out, CHANGE)
    recover(out)
    assert state(out) == NEW


def test_what_was_only_begun_is_forgotten(tmp_path: Path) -> None:
    out = laid(place(str(tmp_path)))
    recover(out)
    assert state(out) == OLD


@pytest.mark.parametrize("step", range(STEPS))
def test_a_change_that_breaks_off_is_made_whole_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    out = laid(place(str(tmp_path)))
    with monkeypatch.context() as patched:
        done = crash_at(patched, step)
        with pytest.raises(Crash):
            commit(out, CHANGE)
        assert len(done) == step
    recover(out)
    assert state(out) == (OLD if step == 0 else NEW)


def test_a_change_has_no_more_steps_than_were_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = laid(place(str(tmp_path)))
    done = crash_at(monkeypatch, STEPS)
    commit(out, CHANGE)
    assert done == ["write_text", "delete", "delete", "move_to", "move_to", "write_text", "delete"]


@pytest.mark.parametrize("move", CHANGE.moves)
def test_what_is_to_be_moved_and_is_not_there_changes_nothing(
    tmp_path: Path, move: tuple[str, str]
) -> None:
    out = laid(place(str(tmp_path)))
    (out / move[0]).delete()
    with pytest.raises(PlaceError, match=rf"{move[0]}: was written, but is not there"):
        commit(out, CHANGE)
    recover(out)
    assert state(out) == OLD


def test_what_gets_lost_between_two_runs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = laid(place(str(tmp_path)))
    with monkeypatch.context() as patched:
        crash_at(patched, STEPS - 3)
        with pytest.raises(Crash):
            commit(out, CHANGE)
    source, target = CHANGE.moves[1]
    (out / source).delete()
    with pytest.raises(PlaceError, match=rf"{source}: is gone, and not at {target}: delete"):
        recover(out)


def test_what_is_moved_stays_where_the_rest_is_deleted(tmp_path: Path) -> None:
    out = laid(place(str(tmp_path)))
    (out / "audits/b/1").write_text("1 old")
    commit(out, CHANGE)
    assert state(out) == NEW


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"moves": [1]}'])
def test_a_journal_that_is_none_is_told_and_left_alone(tmp_path: Path, text: str) -> None:
    out = laid(place(str(tmp_path)))
    (out / "_kafkalite/journal.json").write_text(text)
    was = state(out)
    with pytest.raises(PlaceError, match=r"journal\.json: not a journal of ours"):
        recover(out)
    assert state(out) == was


def test_two_runs_do_not_write_to_one_place(tmp_path: Path) -> None:
    out = place(str(tmp_path / "out"))
    with alone(out), pytest.raises(PlaceError, match="another run"), alone(out):
        pass
    with alone(out):
        pass


def test_a_place_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlaceError, match="file"), alone(place(str(tmp_path / "file" / "out"))):
        pass
