"""Flushes of logs: lists of files and directories that another thread can sync.

The event loop's thread writes and plans; syncing needs only paths. A log counts as flushed when all
paths of its flush are synced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.files import join
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage.file_names import parse_file_name
from kafkalite.storage.producer_snapshot import SNAPSHOT_SUFFIX
from kafkalite.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafkalite.ports.files import Files

_SYNCED_SUFFIXES = frozenset((LOG_SUFFIX, *INDEX_SUFFIXES, SNAPSHOT_SUFFIX))


class Flush(NamedTuple):
    """Paths to sync so that a log is durable up to `end_offset`; files before directories."""

    end_offset: int
    base_offsets: frozenset[int]
    """The segments that are synced."""
    files: tuple[str, ...]
    directories: tuple[str, ...]
    truncation_count: int = 0
    """The log's `truncation_count` when the flush was planned."""


def select_files(names: Iterable[str], base_offset: int, other_names: Collection[str]) -> list[str]:
    """Return those `names` that belong to offsets from `base_offset` on or are in `other_names`."""
    return [
        name
        for name in names
        if name in other_names
        or (
            (parsed := parse_file_name(name)) is not None
            and parsed[0] >= base_offset
            and parsed[1] in _SYNCED_SUFFIXES
        )
    ]


def plan_flush(
    files: Files,
    directory: str,
    base_offsets: Collection[int],
    end_offset: int,
    *,
    other_names: Collection[str],
    truncation_count: int = 0,
) -> Flush:
    """Return the flush of the segments at `base_offsets`, the newest of a log.

    `other_names` are names of other files to sync if they exist. If there are any, the log's
    directory may be new and is synced too.
    """
    names = select_files(files.list(directory), min(base_offsets), other_names)
    parent = directory.rpartition("/")[0]
    return Flush(
        end_offset,
        frozenset(base_offsets),
        tuple(join(directory, name) for name in names),
        (directory, parent) if other_names else (directory,),
        truncation_count,
    )


def sync(files: Files, flush: Flush) -> None:
    """Sync the paths of `flush`; any thread may call this."""
    for path in flush.files:
        files.sync(path)
    for path in flush.directories:
        files.sync_directory(path)
