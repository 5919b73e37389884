"""Compaction's last step: a cleaned segment takes the place of the ones it was made from.

Three names make it safe to die anywhere. `.cleaned` is not finished and counts for nothing. The
rename to `.swap` is the moment it happens: from then on the new file is the truth for the offsets
it begins at. The old segments go, and the last rename gives it its own name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.files import join
from kafkalite.storage.naming import parse_file_name
from kafkalite.storage.recovery import placed_batches
from kafkalite.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, segment_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.ports.files import Files

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_UNFINISHED_SUFFIXES = (CLEANED_SUFFIX, ".deleted", ".tmp")


def cleaned_path(directory: str, base_offset: int) -> str:
    """Return where the segment that is to begin at `base_offset` is written."""
    return join(directory, segment_name(base_offset, LOG_SUFFIX + CLEANED_SUFFIX))


def commit_swap(files: Files, directory: str, base_offset: int) -> None:
    """Make the cleaned segment, which is synced, the truth."""
    cleaned = cleaned_path(directory, base_offset)
    files.rename(cleaned, cleaned.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
    files.sync_directory(directory)


def finish_swap(files: Files, directory: str, base_offset: int, replaced: Iterable[int]) -> None:
    """Remove the segments at the base offsets that were replaced, and take the first one's name."""
    for replaced_base in sorted({*replaced, base_offset}, reverse=True):
        suffixes = (LOG_SUFFIX, *INDEX_SUFFIXES) if replaced_base != base_offset else INDEX_SUFFIXES
        for suffix in suffixes:
            files.remove(join(directory, segment_name(replaced_base, suffix)))
    final = join(directory, segment_name(base_offset, LOG_SUFFIX))
    files.rename(final + SWAP_SUFFIX, final)
    files.sync_directory(directory)


def settle_swaps(files: Files, directory: str) -> list[str]:
    """Sweep up what was not finished, finish what was begun, and return the names that are left.

    Of the old segments, those go whose offsets the new one covers. One that left nothing behind
    may lie beyond the end of the new one and so come back: harmless, compaction will meet it again.
    """
    names = files.list(directory)
    unsettled = [name for name in names if name.endswith(_UNFINISHED_SUFFIXES)]
    for name in unsettled:
        files.remove(join(directory, name))
    named = [(name, found) for name in names if (found := parse_file_name(name)) is not None]
    bases = [base for _, (base, suffix) in named if suffix == LOG_SUFFIX]
    swaps = [(name, base) for name, (base, suffix) in named if suffix == LOG_SUFFIX + SWAP_SUFFIX]
    for name, base_offset in swaps:
        last_offset = _last_offset(files, join(directory, name), base_offset)
        replaced = [base for base in bases if base_offset <= base <= last_offset]
        finish_swap(files, directory, base_offset, replaced)
    return files.list(directory) if unsettled or swaps else names


def _last_offset(files: Files, path: str, base_offset: int) -> int:
    file = files.open(path)
    last_offset = base_offset
    for _, batch in placed_batches(file.pread, 0, file.size):
        last_offset = batch.last_offset
    file.close()
    return last_offset
