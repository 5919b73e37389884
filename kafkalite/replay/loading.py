"""Exchanges of captures, of small ones frame by frame, of large ones by column.

To read by column takes numpy, numba and pyarrow, which whoever replays need not have installed; and
half a second until they are there, in which a capture of some megabytes is read anyway.
"""

from __future__ import annotations

import os
import stat
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from kafkalite.capture.merging import capture_files
from kafkalite.capture.reading import exchanges, ignore, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalite.capture.blocks import Reporter
    from kafkalite.capture.model import Exchange

LARGE_BYTES: Final = 32 * 1024 * 1024
"""From here on it is worth while to read by column."""
_TELL_EVERY_BYTES: Final = 64 * 1024 * 1024
_COLUMNAR: Final = ("numba", "numpy", "pyarrow")


def quiet(text: str) -> None:
    """Tell nobody how far the reading is."""
    del text


def known_at_ns(exchange: Exchange) -> int:
    """Return when an exchange told what it tells: with its answer, where there was one."""
    return exchange.sent_ns if exchange.answered_ns is None else exchange.answered_ns


def load(
    paths: Iterable[str | os.PathLike[str]],
    report: Reporter,
    tell: Callable[[str], None] = quiet,
    *,
    large_bytes: int = LARGE_BYTES,
) -> Iterator[Exchange]:
    """Yield the exchanges of captures, in no order that is to be relied upon.

    `report` gets what is wrong with them, and `tell` a line now and then where there are many.
    Files of `large_bytes` together and more are read by column.
    """
    size, told = 0, _TELL_EVERY_BYTES
    number = 0
    for number, exchange in enumerate(_exchanges(list(paths), report, large_bytes), 1):
        size += len(exchange.request) + len(exchange.response or b"")
        if size > told:
            tell(f"reading the capture: {number} requests, {size >> 20} MiB of them so far")
            told += _TELL_EVERY_BYTES
        yield exchange


def _exchanges(
    paths: Sequence[str | os.PathLike[str]], report: Reporter, large_bytes: int
) -> Iterator[Exchange]:
    files = capture_files(paths, ignore)
    if _size(files) >= large_bytes and all(map(find_spec, _COLUMNAR)):
        from kafkalite.replay import columns  # noqa: PLC0415 - see above

        survey = columns.surveyed(files)
        if survey is not None:
            capture_files(paths, report)
            return columns.exchanges_of(survey, report)
    return exchanges(read(paths, report), report)


def _size(files: Iterable[str]) -> int:
    """Return the size of files, -1 where one of them cannot be read as often as one likes."""
    size = 0
    for file in files:
        try:
            about = os.stat(file)  # noqa: PTH116 - paths are plain text here
        except OSError:
            return -1
        if not (stat.S_ISREG(about.st_mode) and os.access(file, os.R_OK)):
            return -1
        size += about.st_size
    return size
