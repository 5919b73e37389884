"""A run that breaks off anywhere leaves, after the next has begun, the old outcome or the new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.spark import journal, manifest
from kafkalite.spark.journal import Change, alone, commit, recover
from kafkalite.spark.places import Place, PlaceError, place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STAGED = f"{journal.STAGING}/5"
CHANGE = Change(
    moves=((f"{STAGED}/a", "requests/new"), (f"{STAGED}/b/1", "audits/b/1")),
    deletes=("requests/old", "audits/b"),
    manifest="the new",
)
NEW = {"audits/b/1": "1 new", "requests/kept": "kept", "requests/new": "new"}
OLD = {"audits/b/0": "0 old", "requests/kept": "kept", "requests/old": "old"}


class Crash(BaseException):
    """The process ends here."""


def laid(root: Path) -> Place:
    out = place(str(root))
    for name, text in OLD.items():
        (out / name).write_text(text)
    (out / manifest.NAME).write_text("the old")
    (out / STAGED / "a").write_text("new")
    (out / STAGED / "b/1").write_text("1 new")
    return out


def state(out: Place) -> tuple[dict[str, str | None], str | None]:
    texts = {name: (out / name).read_text() for name in out.walk()}
    said = texts.pop(manifest.NAME)
    return texts, said


def test_a_change_is_made_whole(tmp_path: Path) -> None:
    out = laid(tmp_path)
    commit(out, CHANGE)
    recover(out)
    assert state(out) == (NEW, "the new")


def test_what_was_only_begun_is_forgotten(tmp_path: Path) -> None:
    out = laid(tmp_path)
    recover(out)
    assert state(out) == (OLD, "the old")


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    done: list[str] = []

    def breaking(method: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: Any) -> None:  # noqa: ANN401 - whatever the method takes
            if len(done) == step:
                raise Crash
            done.append(method.__name__)
            method(*arguments)

        return called

    for name in ("write_text", "move_to", "delete"):
        monkeypatch.setattr(Place, name, breaking(getattr(Place, name)))
    return done


@pytest.mark.parametrize("step", range(7))
def test_a_change_that_breaks_off_is_made_whole_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    out = laid(tmp_path)
    with monkeypatch.context() as patched:
        done = crash_at(patched, step)
        with pytest.raises(Crash):
            commit(out, CHANGE)
        assert len(done) == step
    recover(out)
    assert state(out) == ((OLD, "the old") if step == 0 else (NEW, "the new"))


def test_a_change_has_no_more_steps_than_were_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = crash_at(monkeypatch, 100)
    commit(laid(tmp_path), CHANGE)
    steps = done[done.index("write_text", len(OLD) + 3) :]
    assert steps == ["write_text", "delete", "delete", "move_to", "move_to", "write_text", "delete"]


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
