"""How a run's outcome takes the place of the one before: all of it, whatever breaks in between.

What is new is written aside first. The journal then says what is to be moved and deleted; once it
stands, it is carried out, by this run or by the next.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalite.spark import manifest
from kafkalite.spark.places import PlaceError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.spark.places import Place

STAGING: Final = "_kafkalite/staging"
"""Below where a run writes: what is not yet part of it."""

_JOURNAL: Final = "_kafkalite/journal.json"
_LOCK: Final = "_kafkalite/lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What takes the place of what; paths below where the run writes."""

    moves: tuple[tuple[str, str], ...] = ()
    """Files, from where they were staged to where they belong."""
    deletes: tuple[str, ...] = ()
    """Files and folders that are deleted before anything is moved."""
    manifest: str = ""
    """What the manifest says from then on."""


def commit(out: Place, change: Change) -> None:
    """Make `change`; where this is interrupted, `recover` finishes it."""
    (out / _JOURNAL).write_text(json.dumps(asdict(change)))
    _carry_out(out, change)


def recover(out: Place) -> None:
    """Finish what a run was interrupted in, and forget what one began and did not commit.

    PlaceError where the journal cannot be understood: what was moved already, only it knows.
    """
    told = out / _JOURNAL
    text = told.read_text()
    if text is not None:
        try:
            change = _change(json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            raise PlaceError(
                f"{told.url}: not a journal of ours ({error}): delete {out.url} to begin anew"
            ) from error
        _carry_out(out, change)
    (out / STAGING).delete()


def _change(kept: Mapping[str, Any]) -> Change:
    moves = tuple((source, target) for source, target in kept["moves"])
    return Change(moves=moves, deletes=tuple(kept["deletes"]), manifest=kept["manifest"])


@contextmanager
def alone(out: Place) -> Iterator[None]:
    """Keep other runs from the same place, as long as this lasts; PlaceError where one is at it.

    Only runs that share a machine's files know of each other.
    """
    if out.root or fcntl is None:
        yield
        return
    path = Path((out / _LOCK).path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("w")
    except OSError as error:
        raise PlaceError(f"{out.url}: {error.strerror}") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PlaceError(f"{out.url}: another run is writing there") from error
        yield


def _carry_out(out: Place, change: Change) -> None:
    # What was moved already is no longer where it was staged, and must not be deleted again.
    left = [(source, target) for source, target in change.moves if (out / source).exists()]
    if len(left) == len(change.moves):
        for name in change.deletes:
            (out / name).delete()
    for source, target in left:
        (out / source).move_to(out / target)
    if change.manifest:
        (out / manifest.NAME).write_text(change.manifest)
    (out / _JOURNAL).delete()
