"""Load the exchanges of captures with the scalar reader, or the columnar reader if they are large.

The columnar reader needs numpy, numba and pyarrow, which are optional. Importing them takes half a
second; the scalar reader reads some megabytes in that time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from kafkalite.capture.reading.captures import exchanges, ignore, read
from kafkalite.capture.reading.merging import find_capture_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.capture.formats.capture_files import Reporter
    from kafkalite.capture.model import Exchange

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One path of a capture, or several."""

LARGE_BYTES: Final = 32 * 1024 * 1024
"""Captures of at least this size are read by the columnar reader."""
_PROGRESS_BYTES: Final = 64 * 1024 * 1024
_COLUMNAR_LIBRARIES: Final = ("numba", "numpy", "pyarrow")


def path_list(paths: Paths) -> list[str | os.PathLike[str]]:
    """Return one path, or several, as a list."""
    return [paths] if isinstance(paths, str | os.PathLike) else list(paths)


def ignore_progress(text: str) -> None:
    """Do nothing with a progress line."""
    del text


def end_ns(exchange: Exchange) -> int:
    """Return the time of the response, or of the request if it has no response."""
    return exchange.sent_ns if exchange.answered_ns is None else exchange.answered_ns


def load(
    paths: Iterable[str | os.PathLike[str]],
    report: Reporter,
    progress: Callable[[str], None] = ignore_progress,
    *,
    large_bytes: int = LARGE_BYTES,
) -> Iterator[Exchange]:
    """Yield the exchanges of captures in undefined order.

    `report` is called with each problem, and `progress` with a line of text from time to time.
    Files of at least `large_bytes` in total are read by the columnar reader.
    """
    size, next_progress = 0, _PROGRESS_BYTES
    number = 0
    for number, exchange in enumerate(_read_exchanges(list(paths), report, large_bytes), 1):
        size += len(exchange.request) + len(exchange.response or b"")
        if size > next_progress:
            progress(f"reading the capture: {number} requests, {size >> 20} MiB so far")
            next_progress += _PROGRESS_BYTES
        yield exchange


def _read_exchanges(
    paths: Sequence[str | os.PathLike[str]], report: Reporter, large_bytes: int
) -> Iterator[Exchange]:
    files = find_capture_files(paths, ignore)
    if _total_bytes(files) >= large_bytes and all(map(find_spec, _COLUMNAR_LIBRARIES)):
        from kafkalite.lab.replay import columnar_loading  # noqa: PLC0415 - see above

        index = columnar_loading.index_connections(files)
        if index is not None:
            find_capture_files(paths, report)
            return columnar_loading.read_exchanges(index, report)
    return exchanges(read(paths, report), report)


def _total_bytes(files: Iterable[str]) -> int:
    """Return the total size of files, -1 if one is not a readable regular file."""
    size = 0
    for file in files:
        try:
            status = os.stat(file)  # noqa: PTH116 - paths are plain text here
        except OSError:
            return -1
        if not (stat.S_ISREG(status.st_mode) and os.access(file, os.R_OK)):
            return -1
        size += status.st_size
    return size
