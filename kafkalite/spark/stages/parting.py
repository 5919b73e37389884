"""A task's look at huge files: the parts in which they can be read, by several tasks at once."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.columnar.parts import parts_of
from kafkalite.spark.places import place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.columnar.parts import FilePart
    from kafkalite.spark.places import InputFile

LEAST_BYTES: Final = 32 << 20
"""How large a part is at least: what goes on from part to part has to be put together."""

PARTED: Final = "file string, parts binary"
_PARTED: Final = pa.schema([pa.field("file", pa.string()), pa.field("parts", pa.binary())])


def part_bytes(size: int, tasks: int, largest_bytes: int) -> int:
    """Return how large parts are, that an input of so many bytes gives work to so many tasks."""
    return max(LEAST_BYTES, min(largest_bytes, size // max(1, tasks)))


def is_huge(file: InputFile, part: int) -> bool:
    """Whether a file is worth being read in parts of this size."""
    return file.size > 2 * part


def find_parts(
    batches: Iterable[pa.RecordBatch], files: Sequence[InputFile], part: int
) -> Iterator[pa.RecordBatch]:
    """Look, for each number in a column of them, for the parts of that file."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            url = files[number].url
            row = {"file": [url], "parts": [pickle.dumps(parts_in(url, part))]}
            yield pa.RecordBatch.from_pydict(row, schema=_PARTED)


def found_parts(parted: bytes) -> list[FilePart]:
    """Return what a task has found."""
    found: list[FilePart] = pickle.loads(parted)  # noqa: S301 - it comes from a task of ours
    return found


def parts_in(url: str, part: int) -> list[FilePart]:
    """Return the parts of a file; none where it has only one, and where it cannot be read."""
    try:
        where = place(url)
        with where.files.open_input_file(where.path) as stream:
            found = parts_of(stream, part)
    except Exception:  # noqa: BLE001 - whoever reads it tells what is wrong with it
        return []
    return found if len(found) > 1 else []
