"""Folders that files are added to, as streams see them: what is new, and how much of it at once.

A stream is at a name in each folder: files whose names come later are new. So names must sort by
time, as those of rotated captures do. The last file may still grow: it is left alone until it has
a successor or says itself that it ended; or else it is taken piece by piece, as far as it goes.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.columnar.parts import FilePart
    from kafkalite.spark.places import InputFile

Offset = dict[str, str | int]
"""Folders, and in each the name of the last file that was taken whole; files, and how many bytes
were taken of one that may still grow."""


class Standing(Enum):
    """What may become of the last file of a folder."""

    WHOLE = "it has ended"
    GROWS = "it may grow, and can be read as far as it goes"
    WAITS = "it may grow, and is read only when it has ended"


class Stretch(NamedTuple):
    """A piece of a file."""

    url: str
    start: int = 0
    stop: int | None = None
    """None for the end of a file that does not grow any more."""
    size: int = 0
    """About how many bytes it has."""
    part: FilePart | None = None
    """Of a huge file that is read by several tasks, what one of them reads."""


class Growing:
    """Files that come to be, taken in the order of their names."""

    def __init__(
        self,
        find: Callable[[], Sequence[InputFile]],
        standing: Callable[[InputFile], Standing],
    ) -> None:
        """See the files that `find` lists; the last of a folder as its `standing` allows."""
        self._find = find
        self._standing = standing
        self._until: Offset | None = None

    def stand_still(self) -> None:
        """Take nothing from now on that is not there yet."""
        self._until = self.next({}, ReadAllAvailable())

    def next(self, start: Mapping[str, str | int], limit: ReadLimit) -> Offset:
        """Return how far a batch goes that begins behind `start`."""
        end = dict(start)
        size = 0
        chosen = self._new(start)
        for number, (each, stop) in enumerate(sorted(chosen, key=lambda new: _split(new[0])[::-1])):
            taken = int(start.get(each.url, 0))
            size += (each.size if stop is None else stop) - taken
            # At least one file: else a stream would stand before a large one for ever.
            if number and _is_beyond(limit, number + 1, size):
                break
            folder, name = _split(each)
            if stop is None:
                end[folder] = name
                end.pop(each.url, None)
            else:
                end[each.url] = stop
        # Spark compares offsets by their text.
        return dict(sorted(end.items()))

    def between(
        self, start: Mapping[str, str | int], end: Mapping[str, str | int]
    ) -> list[Stretch]:
        """Return what a batch takes; again the same when it is done again."""
        found = []
        for each in self._find():
            at = int(start.get(each.url, 0))
            stop = end.get(each.url)
            if _is_within(each, end) and not _is_within(each, start):
                found.append(Stretch(each.url, at, None, max(each.size - at, 0)))
            elif isinstance(stop, int) and stop > at:
                found.append(Stretch(each.url, at, stop, stop - at))
        return found

    def _new(self, start: Mapping[str, str | int]) -> list[tuple[InputFile, int | None]]:
        """Return files that have something new, and how far they go; None for their ends."""
        found = sorted(each for each in self._find() if not _is_within(each, start))
        last = {_split(each)[0]: each for each in found}
        new: list[tuple[InputFile, int | None]] = []
        for each in found:
            is_last = last[_split(each)[0]] == each
            standing = self._standing(each) if is_last else Standing.WHOLE
            stop = None if standing is Standing.WHOLE else each.size
            if self._until is not None and not _is_within(each, self._until):
                stop = int(self._until.get(each.url, 0))
            taken = int(start.get(each.url, 0))
            if stop is None or (standing is not Standing.WAITS and stop > taken):
                new.append((each, stop))
        return new


def limit_of(files: int | None, size: int | None) -> ReadLimit:
    """Return how much of what is new a batch takes."""
    if files is not None:
        return ReadMaxFiles(files)
    return ReadAllAvailable() if size is None else ReadMaxBytes(size)


def _is_beyond(limit: ReadLimit, files: int, size: int) -> bool:
    if isinstance(limit, ReadMaxFiles):
        return files > limit.max_files
    return isinstance(limit, ReadMaxBytes) and size > limit.max_bytes


def _is_within(file: InputFile, end: Mapping[str, str | int]) -> bool:
    folder, name = _split(file)
    return folder in end and name <= str(end[folder])


def _split(file: InputFile) -> tuple[str, str]:
    folder, _, name = file.url.rpartition("/")
    return folder, name
