"""The journal that replaces the output of a run atomically by that of the next run.

New files are staged first. Then the journal is written, with all moves and deletions. From then on
the change cannot be lost: this run or the next one carries it out.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.locks import lock_file
from kafkalite.traffic.spark import manifest
from kafkalite.traffic.spark.locations import LocationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalite.traffic.spark.locations import Location

STAGING: Final = "_kafkalite/staging"
"""Path of staged files below the output folder."""

_JOURNAL: Final = "_kafkalite/journal.json"
LOCK: Final = "_kafkalite/lock"
"""Path of the lock file below the output folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Moves and deletions that replace output; paths are below the output folder."""

    moves: tuple[tuple[str, str], ...] = ()
    """(staged path, final path) of files."""
    deletes: tuple[str, ...] = ()
    """Files and folders deleted before the moves, except for targets of moves."""
    manifest: str = ""
    """The new text of the manifest."""


def commit(out: Location, change: Change) -> None:
    """Carry out `change`; if this is interrupted, `recover` finishes it.

    Raises LocationError, with nothing changed, if a staged file is missing.
    """
    for source, _ in change.moves:
        if not (out / source).exists():
            raise LocationError(f"{(out / source).url}: was written but is missing now")
    (out / _JOURNAL).write_text(json.dumps(asdict(change)))
    _carry_out(out, change, change.moves)


def recover(out: Location) -> None:
    """Finish an interrupted change, and delete staged files that were not committed.

    Raises LocationError if the journal is invalid, because no other file records the moves,
    or if a file is neither at its staged nor at its final path.
    """
    journal = out / _JOURNAL
    text = journal.read_text()
    if text is not None:
        try:
            change = _parse_change(json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            raise LocationError(
                f"{journal.url}: not a valid journal ({error}); delete {out.url} to start over"
            ) from error
        _carry_out(out, change, [move for move in change.moves if _is_pending(out, *move)])
    (out / STAGING).delete()


def _parse_change(fields: Mapping[str, Any]) -> Change:
    moves = tuple((source, target) for source, target in fields["moves"])
    return Change(moves=moves, deletes=tuple(fields["deletes"]), manifest=fields["manifest"])


@contextmanager
def locked(out: Location) -> Iterator[None]:
    """Lock the output folder against other runs; raises LocationError if it is locked already.

    Only runs that share this machine's file system see the lock.
    """
    if out.root:
        yield
        return
    path = Path((out / LOCK).path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        lock = lock_file(str(path))
    except BlockingIOError as error:
        raise LocationError(f"{out.url}: another run is writing there") from error
    except OSError as error:
        raise LocationError(f"{out.url}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def _is_pending(out: Location, source: str, target: str) -> bool:
    """Whether a file has not been moved yet."""
    if (out / source).exists():
        return True
    if (out / target).exists():
        return False
    raise LocationError(
        f"{(out / source).url}: missing, and not at {target}; delete {out.url} to start over"
    )


def _carry_out(out: Location, change: Change, remaining: Iterable[tuple[str, str]]) -> None:
    """Carry out a change; some of its moves may be done already."""
    for name in _paths_to_delete(out, change):
        (out / name).delete()
    for source, target in remaining:
        (out / source).move_to(out / target)
    if change.manifest:
        (out / manifest.NAME).write_text(change.manifest)
    (out / _JOURNAL).delete()


def _paths_to_delete(out: Location, change: Change) -> Iterator[str]:
    """Yield the paths to delete, without files that may have been moved there already."""
    targets = {target for _, target in change.moves}
    folders = {str(parent) for target in targets for parent in PurePosixPath(target).parents}
    for name in change.deletes:
        if name in folders:
            below = (f"{name}/{path}" for path in (out / name).walk())
            yield from (path for path in below if path not in targets)
        elif name not in targets:
            yield name
