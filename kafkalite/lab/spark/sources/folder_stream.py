"""Streams over folders to which files are added: finds new data, and limits each batch.

The offset of a stream is the name of the last file read in each folder; files whose names sort
after it are new. So names must sort by time, as those of rotated captures do. The last file of a
folder may still grow. It is read once it has a successor or its content shows that it is complete;
or, if the source supports it, in ranges as it grows.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
)

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.lab.columnar.files.file_parts import FilePart
    from kafkalite.lab.spark.locations import InputFile

Offset = dict[str, str | int]
"""Folder → name of the last file that was read completely; growing file → number of bytes read."""


class FileState(Enum):
    """State of the last file of a folder."""

    COMPLETE = "it does not grow"
    GROWING = "it may grow; its current content is read"
    DEFERRED = "it may grow; it is read when it is complete"
    OTHER = "it is empty or of another kind, so the file before it may still grow"


class FileRange(NamedTuple):
    """A range of bytes of a file."""

    url: str
    start: int = 0
    stop: int | None = None
    """None for the end of a file that is complete."""
    size: int = 0
    """Approximate number of bytes."""
    part: FilePart | None = None
    """The part to read, if several tasks read the file."""


class FolderStream:
    """Files of folders in the order of their names."""

    def __init__(
        self,
        find: Callable[[], Sequence[InputFile]],
        file_state: Callable[[InputFile], FileState],
    ) -> None:
        """Use the files that `find` lists, and `file_state` for the last one of each folder."""
        self._find = find
        self._file_state = file_state
        self._frozen_end: Offset | None = None

    def freeze(self) -> None:
        """Ignore data that is added after this call."""
        self._frozen_end = self.end_offset({}, ReadAllAvailable())

    def end_offset(self, start: Mapping[str, str | int], limit: ReadLimit) -> Offset:
        """Return the end offset of a batch that starts at `start`."""
        end = dict(start)
        size = 0
        chosen = self._files_with_new_data(start)
        for number, (file, stop) in enumerate(
            sorted(chosen, key=lambda new: _folder_and_name(new[0])[::-1])
        ):
            consumed = int(start.get(file.url, 0))
            size += (file.size if stop is None else stop) - consumed
            # A batch has at least one file; otherwise a file above the limit would block the
            # stream.
            if number and _is_beyond(limit, number + 1, size):
                break
            folder, name = _folder_and_name(file)
            if stop is None:
                end[folder] = name
                end.pop(file.url, None)
            else:
                end[file.url] = stop
        # Spark compares offsets as text.
        return dict(sorted(end.items()))

    def ranges_between(
        self, start: Mapping[str, str | int], end: Mapping[str, str | int]
    ) -> list[FileRange]:
        """Return the data of a batch; a repeated batch gets the same."""
        ranges = []
        for file in self._find():
            consumed = int(start.get(file.url, 0))
            stop = end.get(file.url)
            if _is_within(file, end) and not _is_within(file, start):
                ranges.append(FileRange(file.url, consumed, None, max(file.size - consumed, 0)))
            elif isinstance(stop, int) and stop > consumed:
                ranges.append(FileRange(file.url, consumed, stop, stop - consumed))
        return ranges

    def _files_with_new_data(
        self, start: Mapping[str, str | int]
    ) -> list[tuple[InputFile, int | None]]:
        """Return files with new data, each with the position to read up to; None for its end."""
        files = sorted(file for file in self._find() if not _is_within(file, start))
        states = self._last_states(files)
        new: list[tuple[InputFile, int | None]] = []
        for file in files:
            file_state = states.get(file.url, FileState.COMPLETE)
            if file_state is FileState.OTHER:
                continue
            stop = None if file_state is FileState.COMPLETE else file.size
            if self._frozen_end is not None and not _is_within(file, self._frozen_end):
                stop = int(self._frozen_end.get(file.url, 0))
            consumed = int(start.get(file.url, 0))
            if stop is None or (file_state is not FileState.DEFERRED and stop > consumed):
                new.append((file, stop))
        return new

    def _last_states(self, files: Sequence[InputFile]) -> dict[str, FileState]:
        """Return the states of the last file of each folder, and of others that follow it."""
        states: dict[str, FileState] = {}
        with_last: set[str] = set()
        for file in reversed(files):
            folder = _folder_and_name(file)[0]
            if folder not in with_last:
                states[file.url] = self._file_state(file)
                if states[file.url] is not FileState.OTHER:
                    with_last.add(folder)
        return states


def read_limit(files: int | None, size: int | None) -> ReadLimit:
    """Return the limit of a batch for Spark."""
    if files is not None:
        return ReadMaxFiles(files)
    return ReadAllAvailable() if size is None else ReadMaxBytes(size)


def _is_beyond(limit: ReadLimit, files: int, size: int) -> bool:
    if isinstance(limit, ReadMaxFiles):
        return files > limit.max_files
    return isinstance(limit, ReadMaxBytes) and size > limit.max_bytes


def _is_within(file: InputFile, end: Mapping[str, str | int]) -> bool:
    folder, name = _folder_and_name(file)
    return folder in end and name <= str(end[folder])


def _folder_and_name(file: InputFile) -> tuple[str, str]:
    folder, _, name = file.url.rpartition("/")
    return folder, name
