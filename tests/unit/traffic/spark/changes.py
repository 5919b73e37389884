"""A change of an output folder, and a way to interrupt it at each of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.traffic.spark import manifest, output_journal
from kafkalite.traffic.spark.locations import Location
from kafkalite.traffic.spark.output_journal import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

_STAGED: Final = f"{output_journal.STAGING}/5"
CHANGE: Final = Change(
    moves=((f"{_STAGED}/a", "requests/new"), (f"{_STAGED}/b/1", "audits/b/1")),
    deletes=("requests/old", "audits/b"),
    manifest="the new",
)
STEPS: Final = 7
NEW: Final = (
    {"audits/b/1": "1 new", "requests/other": "other", "requests/new": "new"},
    "the new",
)
OLD: Final = (
    {"audits/b/0": "0 old", "requests/other": "other", "requests/old": "old"},
    "the old",
)


class Crash(BaseException):
    """Simulates the end of the process."""


def write_old_output(out: Location) -> Location:
    """Write the old output, and staged files of the change."""
    texts, manifest_text = OLD
    for name, text in texts.items():
        (out / name).write_text(text)
    (out / manifest.NAME).write_text(manifest_text)
    (out / _STAGED / "a").write_text("new")
    (out / _STAGED / "b/1").write_text("1 new")
    return out


def read_output(out: Location) -> tuple[dict[str, str | None], str | None]:
    """Return the text of every file except the manifest, and the manifest's text."""
    texts = {name: (out / name).read_text() for name in out.walk()}
    manifest_text = texts.pop(manifest.NAME)
    return texts, manifest_text


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Raise `Crash` at a step; returns a list that receives the names of finished steps."""
    done: list[str] = []
    is_within = False  # a step may call others

    def crashing(method: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: Any) -> None:  # noqa: ANN401 - any arguments of the method
            nonlocal is_within
            if is_within:
                method(*arguments)
                return
            if len(done) == step:
                raise Crash
            done.append(method.__name__)
            is_within = True
            method(*arguments)
            is_within = False

        return called

    for name in ("write_text", "move_to", "delete"):
        monkeypatch.setattr(Location, name, crashing(getattr(Location, name)))
    return done
