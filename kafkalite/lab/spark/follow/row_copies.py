"""Copies rows of Parquet files to the folders of periods, in the driver or in tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.lab.spark.locations import Location

_COPIED_BYTES: Final = 1 << 20


class RowCopy(NamedTuple):
    """Rows of a file that are written to a period."""

    source: Location
    target: Location
    from_us: int
    until_us: int
    is_whole: bool
    """Whether all rows of the file are in this range."""


def copy_rows(copy: RowCopy) -> None:
    """Write the rows of a file that are in the range of a copy to another file."""
    if copy.is_whole:
        copy_file(copy.source, copy.target)
        return
    with copy.source.files.open_input_file(copy.source.path) as stream:
        file = parquet.ParquetFile(stream)
        schema = file.schema_arrow
        with copy.target.create() as output, parquet.ParquetWriter(output, schema) as writer:
            for batch in file.iter_batches():
                times = _microseconds(batch["ts"])
                is_within = pc.and_(
                    pc.greater_equal(times, copy.from_us), pc.less(times, copy.until_us)
                )
                writer.write_batch(batch.filter(is_within))


def copy_file(source: Location, target: Location) -> None:
    """Copy a file as it is."""
    with source.files.open_input_stream(source.path) as stream, target.create() as output:
        while content := stream.read(_COPIED_BYTES):
            output.write(content)


def copy_in_task(
    batches: Iterable[pa.RecordBatch], copies: Sequence[RowCopy]
) -> Iterator[pa.RecordBatch]:
    """Make the copies whose indexes are in the first column; yields nothing."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            copy_rows(copies[number])
    yield from ()


def times_us(file: Location) -> Any:  # noqa: ANN401 - an array of pyarrow
    """Return the times of requests in a file, in microseconds since the Unix epoch."""
    with file.files.open_input_file(file.path) as stream:
        return _microseconds(parquet.read_table(stream, columns=["ts"])["ts"])


def _microseconds(times: Any) -> Any:  # noqa: ANN401 - arrays of pyarrow
    return pc.cast(pc.cast(times, pa.timestamp("us")), pa.int64())
