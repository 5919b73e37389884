"""A worker's Parquet files: requests by API and day, each table in a file that it writes itself.

Chosen: pyarrow in the worker, instead of handing rows to Spark, because ninety APIs are ninety
schemas and a query of Spark has one; it takes half the time, too. What commits is the journal:
until then all is staged, and what a failed attempt of a task wrote is never named in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from kafkalite.spark.places import Place

GROUP_BYTES: Final = 16 << 20
"""How much of a table is held until it is written, as a row group."""
GROUP_ROWS: Final = 1 << 17
_DELTA: Final = "DELTA_BINARY_PACKED"
_CONNECTION: Final = "connection"
_CORRELATION_ID: Final = "correlation_id"

OPEN_FILES: Final = 256
"""Days and APIs that are written at once; beyond these, the one that was begun first is closed."""


@dataclass(slots=True)
class _File:
    place: Place
    schema: pa.Schema
    stream: pa.NativeFile | None = None
    writer: parquet.ParquetWriter | None = None
    held: list[pa.RecordBatch] = field(default_factory=list)
    held_bytes: int = 0
    held_rows: int = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.held.append(batch)
        self.held_bytes += batch.nbytes
        self.held_rows += batch.num_rows
        if self.held_bytes >= GROUP_BYTES or self.held_rows >= GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self.held:
            return
        if self.writer is None:
            # Paths in Parquet's form, which Spark prunes by; microseconds are what Spark keeps.
            differing = differing_numbers(self.schema)
            self.stream = self.place.create()
            self.writer = parquet.ParquetWriter(
                self.stream,
                self.schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=[each for each, _ in _leaves(self.schema) if each not in differing],
                column_encoding=dict.fromkeys(differing, _DELTA),
            )
        self.writer.write_table(pa.Table.from_batches(self.held, self.schema))
        self.held.clear()
        self.held_bytes = self.held_rows = 0

    def close(self) -> None:
        self.flush()
        if self.writer is not None and self.stream is not None:
            self.writer.close()
            # The writer leaves it open. What a store gets is there once this has not failed.
            self.stream.close()


class Tables:
    """Files that are being written, below a folder that is this attempt's own."""

    def __init__(self, folder: Place, name: str) -> None:
        """Write to files called `name`, each in its table's folder below `folder`."""
        self._folder = folder
        self._name = name
        self._open: dict[str, _File] = {}
        self._parts = 0
        self.written: list[str] = []
        """The files, closed or not, by their paths below `folder`."""
        self.rows = 0
        """Requests that were written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def write_requests(self, key: int, batch: pa.RecordBatch) -> None:
        """Write requests of one API, each to its day's file."""
        self.rows += batch.num_rows
        for day, rows in _by_day(batch):
            self.write(f"requests/api={codec.api_name(key)}/date={day}", rows)

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Write rows of any table; all batches of a table have one schema."""
        if not batch.num_rows:
            return
        found = self._open.get(table)
        if found is None:
            if len(self._open) >= OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            # A table that was closed goes on in a file of its own.
            name = f"{table}/{self._name}-{self._parts}.parquet"
            self._parts += 1
            self.written.append(name)
            found = self._open[table] = _File(self._folder / name, batch.schema)
        found.write(batch)

    def close(self) -> None:
        """Write what is held; the files are whole after this."""
        while self._open:
            self._open.popitem()[1].close()


def differing_numbers(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of numbers that hardly repeat but are near each other, by their paths.

    A dictionary of these is looked up for every value and then given up. Their differences take a
    fifth of the time to write, a quarter to read, and half the room.
    """
    return tuple(
        path
        for path, kind in _leaves(schema)
        if path == _CORRELATION_ID
        # A connection's number is drawn from all there are, and repeats.
        or (path != _CONNECTION and (pa.types.is_int64(kind) or pa.types.is_timestamp(kind)))
    )


def _leaves(fields: Iterable[pa.Field], above: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """Yield what Parquet has columns of: their paths as it writes them, and their types."""
    for each in fields:
        path, kind = f"{above}{each.name}", each.type
        while pa.types.is_list(kind):
            path, kind = f"{path}.list.element", kind.value_type
        if pa.types.is_struct(kind):
            yield from _leaves(kind, f"{path}.")
        else:
            yield path, kind


def _by_day(batch: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    """Split rows by the day of `ts`, UTC; nearly all batches are of one day."""
    if not batch.num_rows:
        return []
    days = pc.cast(pc.cast(batch["ts"], pa.timestamp("us")), pa.date32())
    ends = pc.min_max(days)
    if ends["min"] == ends["max"]:
        return [(str(ends["min"]), batch)]
    return [(str(day), batch.filter(pc.equal(days, day))) for day in pc.unique(days)]
