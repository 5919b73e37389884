"""Decodes ranges of growing files, in the driver or in tasks.

The decoder of a file continues where its last range ended. Between batches, the driver has all
decoders in memory, and sends them to tasks in a compressed form. They are never stored.
"""

from __future__ import annotations

import pickle
import zlib
from typing import TYPE_CHECKING

from kafkalite.lab.columnar.growing_files import GrowingFile
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.stages.decoding import (
    INCOMPLETE,
    INCOMPLETE_TABLES,
    TaskDecoder,
    attempt_id,
)
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from kafkalite.lab.columnar.options import Options
    from kafkalite.lab.columnar.reading import TableBatch
    from kafkalite.lab.spark.sources.folder_stream import FileRange
    from kafkalite.lab.spark.stages.decoding import Task, TaskReport


class RangeOfFile(NamedTuple):
    """A range of a growing file that a task decodes."""

    number: int
    range: FileRange
    decoder: bytes
    """The file's decoder at the start of the range; empty if the driver does not have it."""


class DecodedRange(NamedTuple):
    """The result of a task."""

    report: TaskReport
    decoder: bytes
    """The file's decoder at the end of the range."""


def decode_range(work: RangeOfFile, task: Task) -> DecodedRange:
    """Decode a range in a task, and write the staged tables."""
    range_ = work.range
    file = thaw(work.decoder) if work.decoder else restarted(range_, task.options)
    decoder = TaskDecoder(task, f"grown-{work.number:05}", attempt_id())
    with decoder.tables:
        for table, batch in decoder.write_decoded(range_.url, new_rows(file, range_)):
            if table in INCOMPLETE_TABLES:
                decoder.tables.write(f"{INCOMPLETE}/{table}", batch)
    is_over = range_.stop is None
    return DecodedRange(decoder.report(), b"" if is_over else freeze(file))


def new_rows(file: GrowingFile, range_: FileRange) -> Iterator[TableBatch]:
    """Yield the rows that a range adds to those of the file's earlier ranges."""
    stop = range_.stop
    if stop is None:
        yield from _read(range_.url, file.finish)
    else:
        yield from _read(range_.url, lambda source: file.read(source, stop))


def restarted(range_: FileRange, options: Options) -> GrowingFile:
    """Return the file's decoder at the start of a range; reads the file from its beginning."""
    file = GrowingFile(range_.url, options)
    if range_.start:
        for _ in _read(range_.url, lambda source: file.read(source, range_.start)):
            pass  # rows of previous batches
    return file


def freeze(file: GrowingFile | None) -> bytes:
    """Return a decoder as bytes; empty for None."""
    return b"" if file is None else zlib.compress(pickle.dumps(file), 1)


def thaw(decoder: bytes) -> GrowingFile:
    """Return a decoder from bytes that this run has made."""
    file = pickle.loads(zlib.decompress(decoder))  # noqa: S301 - never stored, made by this run
    assert isinstance(file, GrowingFile)
    return file


def _read(url: str, read: Callable[[pa.NativeFile], Iterator[TableBatch]]) -> Iterator[TableBatch]:
    where = location(url)
    with where.files.open_input_file(where.path) as source:
        yield from read(source)
