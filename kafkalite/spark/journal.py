"""How a run's outcome takes the place of the one before: all of it, whatever breaks in between.

What is new is written aside first. The journal then says what is to be moved and deleted; once it
stands, it is carried out, by this run or by the next.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from kafkalite.spark import manifest
from kafkalite.spark.places import PlaceError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
    """Files and folders that are deleted before anything is moved, but for what is moved there."""
    manifest: str = ""
    """What the manifest says from then on."""


def commit(out: Place, change: Change) -> None:
    """Make `change`; where this is interrupted, `recover` finishes it.

    PlaceError, with all as it was, where something that is to be moved is not there.
    """
    for source, _ in change.moves:
        if not (out / source).exists():
            raise PlaceError(f"{(out / source).url}: was written, but is not there")
    (out / _JOURNAL).write_text(json.dumps(asdict(change)))
    _carry_out(out, change, change.moves)


def recover(out: Place) -> None:
    """Finish what a run was interrupted in, and forget what one began and did not commit.

    PlaceError where the journal cannot be understood: what was moved already, only it knows. And
    where something is neither where it was nor where it belongs.
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
        _carry_out(out, change, [move for move in change.moves if _is_left(out, *move)])
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


def _is_left(out: Place, source: str, target: str) -> bool:
    """Whether a file is still to be moved."""
    if (out / source).exists():
        return True
    if (out / target).exists():
        return False
    raise PlaceError(
        f"{(out / source).url}: is gone, and not at {target}: delete {out.url} to begin anew"
    )


def _carry_out(out: Place, change: Change, left: Iterable[tuple[str, str]]) -> None:
    """Do all of a change, of whose moves only some may be left."""
    for name in _gone(out, change):
        (out / name).delete()
    for source, target in left:
        (out / source).move_to(out / target)
    if change.manifest:
        (out / manifest.NAME).write_text(change.manifest)
    (out / _JOURNAL).delete()


def _gone(out: Place, change: Change) -> Iterator[str]:
    """Yield what is deleted: nothing that may have been moved there already."""
    targets = {target for _, target in change.moves}
    folders = {str(above) for target in targets for above in PurePosixPath(target).parents}
    for name in change.deletes:
        if name in folders:
            below = (f"{name}/{each}" for each in (out / name).walk())
            yield from (each for each in below if each not in targets)
        elif name not in targets:
            yield name
