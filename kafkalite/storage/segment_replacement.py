"""The last step of compaction: a cleaned segment replaces the segments it was made from.

Three file names make the replacement safe against a crash at any point. A `.cleaned` file is
incomplete and is ignored. The rename to `.swap` commits the replacement: from then on the new file
has the records of its offsets. Then the old segments are removed, and the last rename gives the new
file its final name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.files import join
from kafkalite.storage.file_names import parse_file_name
from kafkalite.storage.recovery import positioned_batches
from kafkalite.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, segment_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.ports.files import Files

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_INCOMPLETE_SUFFIXES = (CLEANED_SUFFIX, ".deleted", ".tmp")


def cleaned_path(directory: str, base_offset: int) -> str:
    """Return the path for writing the segment that will begin at `base_offset`."""
    return join(directory, segment_name(base_offset, LOG_SUFFIX + CLEANED_SUFFIX))


def commit_swap(files: Files, directory: str, base_offset: int) -> None:
    """Commit the replacement by the cleaned segment, whose file must be synced."""
    cleaned = cleaned_path(directory, base_offset)
    files.rename(cleaned, cleaned.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
    files.sync_directory(directory)


def finish_swap(files: Files, directory: str, base_offset: int, replaced: Iterable[int]) -> None:
    """Remove the replaced segments, and give the new one the name of the first of them."""
    for replaced_offset in sorted({*replaced, base_offset}, reverse=True):
        suffixes = (
            (LOG_SUFFIX, *INDEX_SUFFIXES) if replaced_offset != base_offset else INDEX_SUFFIXES
        )
        for suffix in suffixes:
            files.remove(join(directory, segment_name(replaced_offset, suffix)))
    final = join(directory, segment_name(base_offset, LOG_SUFFIX))
    files.rename(final + SWAP_SUFFIX, final)
    files.sync_directory(directory)


def complete_swaps(files: Files, directory: str) -> list[str]:
    """Remove incomplete files, finish committed replacements, and return the remaining names.

    Old segments whose offsets the new one covers are removed. An old segment whose records were
    all removed may be after the end of the new one and survive; the next compaction removes it.
    """
    names = files.list(directory)
    incomplete = [name for name in names if name.endswith(_INCOMPLETE_SUFFIXES)]
    for name in incomplete:
        files.remove(join(directory, name))
    parsed_names = [
        (name, parsed) for name in names if (parsed := parse_file_name(name)) is not None
    ]
    base_offsets = [offset for _, (offset, suffix) in parsed_names if suffix == LOG_SUFFIX]
    swaps = [
        (name, offset)
        for name, (offset, suffix) in parsed_names
        if suffix == LOG_SUFFIX + SWAP_SUFFIX
    ]
    for name, base_offset in swaps:
        last_offset = _last_offset(files, join(directory, name), base_offset)
        replaced = [offset for offset in base_offsets if base_offset <= offset <= last_offset]
        finish_swap(files, directory, base_offset, replaced)
    return files.list(directory) if incomplete or swaps else names


def _last_offset(files: Files, path: str, base_offset: int) -> int:
    file = files.open(path)
    last_offset = base_offset
    for _, batch in positioned_batches(file.pread, 0, file.size):
        last_offset = batch.last_offset
    file.close()
    return last_offset
