"""Finds the parts in which tasks can read huge files in parallel."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.lab.columnar.files.file_parts import split_file
from kafkalite.lab.spark.locations import location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.lab.columnar.files.file_parts import FilePart
    from kafkalite.lab.spark.locations import InputFile

MIN_PART_BYTES: Final = 16 << 20
"""Minimum size of a part: connections that span parts must be joined, which takes time."""

PARTS_COLUMNS: Final = "file string, parts binary"
_PARTS_SCHEMA: Final = pa.schema([pa.field("file", pa.string()), pa.field("parts", pa.binary())])


def part_bytes(size: int, tasks: int, largest_bytes: int) -> int:
    """Return a size of parts, within limits, that gives each task one part."""
    return max(MIN_PART_BYTES, min(largest_bytes, size // max(1, tasks)))


def is_huge(file: InputFile, size_bytes: int) -> bool:
    """Whether a file should be read in parts of this size."""
    return 2 * file.size > 3 * size_bytes


def find_parts(
    batches: Iterable[pa.RecordBatch], files: Sequence[InputFile], size_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Find the parts of the files whose indexes are in the first column."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            url = files[number].url
            row = {"file": [url], "parts": [pickle.dumps(parts_in(url, size_bytes))]}
            yield pa.RecordBatch.from_pydict(row, schema=_PARTS_SCHEMA)


def load_parts(pickled: bytes) -> list[FilePart]:
    """Return the parts from a task's result."""
    parts: list[FilePart] = pickle.loads(pickled)  # noqa: S301 - from our own task
    return parts


def parts_in(url: str, size_bytes: int) -> list[FilePart]:
    """Return the parts of a file; none if there is only one or the file cannot be read."""
    try:
        where = location(url)
        with where.files.open_input_file(where.path) as stream:
            parts = split_file(stream, size_bytes)
    except Exception:  # noqa: BLE001 - the task that reads the file reports the error
        return []
    return parts if len(parts) > 1 else []
