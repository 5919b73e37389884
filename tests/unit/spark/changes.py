"""A change of what a run left, and a way to break it off at each of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.spark import journal, manifest
from kafkalite.spark.journal import Change
from kafkalite.spark.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

_STAGED: Final = f"{journal.STAGING}/5"
CHANGE: Final = Change(
    moves=((f"{_STAGED}/a", "requests/new"), (f"{_STAGED}/b/1", "audits/b/1")),
    deletes=("requests/old", "audits/b"),
    manifest="the new",
)
STEPS: Final = 7
NEW: Final = (
    {"audits/b/1": "1 new", "requests/kept": "kept", "requests/new": "new"},
    "the new",
)
OLD: Final = (
    {"audits/b/0": "0 old", "requests/kept": "kept", "requests/old": "old"},
    "the old",
)


class Crash(BaseException):
    """The process ends here."""


def laid(out: Place) -> Place:
    """Lay out what there is before the change, and what is staged for it."""
    texts, said = OLD
    for name, text in texts.items():
        (out / name).write_text(text)
    (out / manifest.NAME).write_text(said)
    (out / _STAGED / "a").write_text("new")
    (out / _STAGED / "b/1").write_text("1 new")
    return out


def state(out: Place) -> tuple[dict[str, str | None], str | None]:
    """Return what is in every file but the manifest, and what that says."""
    texts = {name: (out / name).read_text() for name in out.walk()}
    said = texts.pop(manifest.NAME)
    return texts, said


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Let the process end at a step; returns the steps that were done, as they are."""
    done: list[str] = []
    is_within = False  # a step may take others

    def breaking(method: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: Any) -> None:  # noqa: ANN401 - whatever the method takes
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
        monkeypatch.setattr(Place, name, breaking(getattr(Place, name)))
    return done
