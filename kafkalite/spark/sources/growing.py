"""Folders that files are added to, as streams see them: what is new, and how much of it at once.

A stream is at a name in each folder: files whose names come later are new. So names must sort by
time, as those of rotated captures do. A file that may still grow is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.spark.places import InputFile

Offset = dict[str, str]
"""Folders, and in each the name of the last file that was taken."""


class Growing:
    """Files that come to be, taken in the order of their names."""

    def __init__(
        self,
        find: Callable[[], Sequence[InputFile]],
        is_closed: Callable[[InputFile], bool],
    ) -> None:
        """See the files that `find` lists; the last of a folder only when it `is_closed`."""
        self._find = find
        self._is_closed = is_closed
        self._until: Offset | None = None

    def stand_still(self) -> None:
        """Take nothing from now on that is not there yet."""
        self._until = self.next({}, ReadAllAvailable())

    def next(self, start: Mapping[str, str], limit: ReadLimit) -> Offset:
        """Return how far a batch goes that begins behind `start`."""
        chosen = self._new(start)
        if self._until is not None:
            chosen = [each for each in chosen if _is_within(each, self._until)]
        end = dict(start)
        size = 0
        for number, each in enumerate(sorted(chosen, key=lambda file: _split(file)[::-1])):
            size += each.size
            # At least one file: else a stream would stand before a large one for ever.
            if number and _is_beyond(limit, number + 1, size):
                break
            folder, name = _split(each)
            end[folder] = name
        # Spark compares offsets by their text.
        return dict(sorted(end.items()))

    def between(self, start: Mapping[str, str], end: Mapping[str, str]) -> list[InputFile]:
        """Return the files of a batch; again the same when it is done again."""
        return [
            each for each in self._find() if _is_within(each, end) and not _is_within(each, start)
        ]

    def _new(self, start: Mapping[str, str]) -> list[InputFile]:
        found = sorted(each for each in self._find() if not _is_within(each, start))
        last = {_split(each)[0]: each for each in found}
        return [each for each in found if last[_split(each)[0]] != each or self._is_closed(each)]


def limit_of(files: int | None, size: int | None) -> ReadLimit:
    """Return how much of what is new a batch takes."""
    if files is not None:
        return ReadMaxFiles(files)
    return ReadAllAvailable() if size is None else ReadMaxBytes(size)


def _is_beyond(limit: ReadLimit, files: int, size: int) -> bool:
    if isinstance(limit, ReadMaxFiles):
        return files > limit.max_files
    return isinstance(limit, ReadMaxBytes) and size > limit.max_bytes


def _is_within(file: InputFile, end: Mapping[str, str]) -> bool:
    folder, name = _split(file)
    return folder in end and name <= end[folder]


def _split(file: InputFile) -> tuple[str, str]:
    folder, _, name = file.url.rpartition("/")
    return folder, name
