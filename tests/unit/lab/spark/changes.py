"""A change of an output folder, and a way to interrupt it at each of its steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.spark import manifest, output_journal
from kafkalite.lab.spark.locations import Location
from kafkalite.lab.spark.manifest import InputSplit, Manifest, StoredManifest
from kafkalite.lab.spark.output_journal import Output

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

_UNCHANGED: Final = InputSplit(inputs=(), requests=("requests/other",))
_REPLACED: Final = InputSplit(inputs=(), requests=("requests/old",))
BEFORE: Final = Manifest(
    run=1, splits=(_UNCHANGED, _REPLACED), stitched=InputSplit(inputs=()), derived=("audits/b/0",)
)
AFTER: Final = replace(
    BEFORE,
    run=2,
    splits=(_UNCHANGED, InputSplit(inputs=(), requests=("requests/new",))),
    derived=("audits/b/1",),
)
WRITTEN: Final = ("requests/new", "audits/b/1")
"""The new files."""
OLD: Final = ({"audits/b/0", "requests/other", "requests/old", "audits/theirs/0", "report"}, BEFORE)
NEW: Final = ({"audits/b/1", "requests/other", "requests/new", "audits/theirs/0"}, AFTER)
"""The tables' files, and the manifest, before and after the change."""


class Crash(BaseException):
    """Simulates the end of the process."""


def output_in(out: Location) -> Output:
    """Return an output folder with two tables."""
    return Output(out, ("requests",), ("audits/b",), "report")


def write_old_output(out: Location) -> StoredManifest:
    """Write the old output; returns its manifest."""
    names, before = OLD
    stored = StoredManifest().next(before)
    for name in names:
        (out / name).write_text(name)
    for name, splits in stored.parts.items():
        (out / name).write_text(manifest.part_to_json(splits))
    (out / manifest.NAME).write_text(stored.head())
    return stored


def write_change(out: Location, stored: StoredManifest) -> None:
    """Write new files, one of a failed task, and commit the others."""
    output = output_in(out)
    folder = output.begin()
    for name in (*WRITTEN, "requests/failed"):
        (folder / name).write_text(name)
    output.commit(stored, AFTER, WRITTEN)


def committed(out: Location) -> tuple[set[str], Manifest]:
    """Return the files of the committed tables, and the manifest; check that no others exist."""
    files = {name for name in out.walk() if not name.startswith("_kafkalite/")}
    stored = output_in(out).load()
    internal = {name for name in out.walk() if name.startswith("_kafkalite/")}
    assert internal - {output_journal.LOCK} == {manifest.NAME, *stored.parts}
    return files, stored.manifest


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Raise `Crash` at a step; returns a list that receives the names of finished steps."""
    done: list[str] = []
    is_within = False  # a step may call others

    def crashing(method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:  # noqa: ANN401 - those of the method
            nonlocal is_within
            if is_within:
                return method(*arguments)
            if len(done) == step:
                raise Crash
            done.append(method.__name__)
            is_within = True
            result = method(*arguments)
            is_within = False
            return result

        return called

    for name in ("write_text", "move_below", "delete_below", "delete", "delete_if_empty"):
        monkeypatch.setattr(Location, name, crashing(getattr(Location, name)))
    return done


STAGED_STEPS: Final = (
    *("write_text",) * 3,  # the new files
    "write_text",  # the part of the manifest
    "write_text",  # the journal
    "delete",  # the report
    "delete_below",  # the old files
    *("delete_if_empty",) * 3,  # folders of these, and a folder above
    "move_below",
    "write_text",  # the head of the manifest
    "delete_below",  # the old part of the manifest
    "delete",  # the staging folder
    "delete",  # the journal
)
"""The steps of `write_change` where files are staged."""
STAGED_COMMIT: Final = 5
"""Number of steps after which the change is committed."""
WRITTEN_ONCE_STEPS: Final = (
    "write_text",  # the journal
    *("write_text",) * 3,  # the new files
    "write_text",  # the part of the manifest
    "write_text",  # the head of the manifest
    "delete",  # the report
    "delete_below",  # the old files, and the one of the failed task
    "delete_below",  # the old part of the manifest
    "delete",  # the journal
)
"""The steps of `write_change` in an object store."""
WRITTEN_ONCE_COMMIT: Final = 6
