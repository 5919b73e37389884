"""Reads the rows of a capture file that options select; needs neither a Spark session nor Java."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.formats import compressed_files
from kafkalite.capture.formats.pcapng import STATISTICS
from kafkalite.capture.model import Direction
from kafkalite.lab.columnar import tables
from kafkalite.lab.columnar.exchanges import typed_exchanges
from kafkalite.lab.columnar.growing_files import MAGIC_BYTES, GrowingFile, can_grow
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.lab.spark.locations import LocationError, find, location
from kafkalite.lab.spark.sources.file_source import OPTIONS
from kafkalite.lab.spark.sources.folder_stream import FileState
from kafkalite.lab.spark.sources.options import OptionError, SourceOptions, select_columns
from kafkalite.lab.spark.stages.file_splitting import parts_in
from kafkalite.lab.spark.stages.typed import decode_typed, unreadable_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.lab.columnar.files.file_parts import FilePart
    from kafkalite.lab.columnar.reading import TableBatch
    from kafkalite.lab.spark.locations import InputFile

CAPTURE_OPTIONS: Final = (
    *OPTIONS,
    "open",
    "parts",
    "table",
    "api",
    "versions",
    "from",
    "until",
    "client",
    "connection",
    "payload",
    "fields",
)
"""Options of this source."""

REQUESTS: Final = "requests"
ENVELOPES: Final = "envelopes"

_LENGTH_BYTES: Final = 4
_MIN_BLOCK_BYTES: Final = 12

FILES: Final = "files"
FILES_SCHEMA: Final = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("start", pa.int64()),
        pa.field("size", pa.int64()),  # position of the end of the range
        pa.field("is_whole", pa.bool_()),  # whether the file is complete
    ]
)
"""The files themselves, not decoded; growing files as ranges of bytes."""

_COLUMNAR_TABLES: Final[Mapping[str, frozenset[Table]]] = {
    REQUESTS: frozenset({Table.PAIRS, Table.UNPAIRED}),
    ENVELOPES: frozenset({Table.PAIRS, Table.UNPAIRED}),
    "frames": frozenset({Table.FRAMES}),
    "fragments": frozenset({Table.FRAGMENTS}),
    "connections": frozenset({Table.CONNECTIONS}),
    "problems": frozenset({Table.PAIRS, Table.PROBLEMS}),
    FILES: frozenset(),
}
"""Table of this source → tables of the columnar reader that it needs."""

_SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    ENVELOPES: tables.ENVELOPE,
    "frames": tables.FRAMES,
    "fragments": tables.FRAGMENTS,
    "connections": tables.CONNECTIONS,
    "problems": tables.PROBLEMS,
    FILES: FILES_SCHEMA,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowFilter:
    """Filters that the decoder does not apply itself."""

    versions: tuple[int, ...]
    connections: tuple[int, ...]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name, selected in (("api_version", self.versions), ("connection", self.connections)):
            if selected and name in batch.schema.names:
                kind = batch.schema.field(name).type
                batch = batch.filter(pc.is_in(batch[name], pa.array(selected, kind)))
        return batch


class CaptureReader:
    """Reads the rows that options select, file by file."""

    def __init__(
        self, options: Mapping[str, str], columns: Mapping[str, bool] | None = None
    ) -> None:
        """Parse `options`; `columns` selects columns. Raises OptionError."""
        parsed = self.source_options = SourceOptions(options, CAPTURE_OPTIONS)
        keys = parsed.api_keys("api")
        default = REQUESTS if keys is not None and len(keys) == 1 else "frames"
        self.table = parsed.choice("table", _COLUMNAR_TABLES, default)
        self._fields = parsed.items("fields") or None
        if self.table == REQUESTS and (keys is None or len(keys) != 1):
            raise OptionError("each API has its own table of requests: set the option api")
        self._api_key = min(keys) if keys is not None and self.table == REQUESTS else None
        self._reads_growing_files = parsed.choice("open", ("skip", "read"), "skip") == "read"
        self._reads_parts = parsed.is_true("parts", default=False)
        self._row_filter = _RowFilter(
            versions=parsed.numbers("versions"), connections=parsed.numbers("connection")
        )
        self.schema = self._schema(columns or parsed.items("columns"))
        self._options = Options(
            tables=_COLUMNAR_TABLES[self.table],
            api_keys=keys,
            from_ns=parsed.instant_ns("from"),
            until_ns=parsed.instant_ns("until"),
            clients=parsed.text("client"),
            payload=self.table in {REQUESTS, "problems"}
            or (parsed.is_true("payload", default=True) and "payload" in self.schema.names),
        )

    def find(self) -> list[InputFile]:
        """List the captures that the options select."""
        return find(self.source_options.urls())

    def file_state(self, file: InputFile) -> FileState:
        """Return whether a file is complete: our recorder ends complete files with statistics."""
        try:
            where = location(file.url)
            with where.files.open_input_file(where.path) as stream:
                if _ends_with_statistics(stream):
                    return FileState.COMPLETE
                stream.seek(0)
                first_bytes = stream.read(compressed_files.MAGIC_BYTES)
        except (OSError, LocationError, pa.ArrowException):
            return FileState.OTHER
        if can_grow(first_bytes[:MAGIC_BYTES]):
            return FileState.GROWING if self._reads_growing_files else FileState.DEFERRED
        is_compressed = compressed_files.decompressor_of(first_bytes) is not None
        return FileState.DEFERRED if is_compressed else FileState.OTHER

    def parts(self, file: InputFile, size: int) -> list[FilePart]:
        """Return the parts of a file for several tasks, if the option parts is set.

        The option is off by default, because connections that span parts are not joined.
        """
        return parts_in(file.url, size) if self._reads_parts else []

    def read(
        self,
        name: str,
        start: int = 0,
        stop: int | None = None,
        part: FilePart | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file; its problems are rows of the table `problems`.

        For a growing file, these are the rows that the bytes from `start` to `stop` add. With
        `part`, these are only the rows of that part.
        """
        try:
            where = location(name)
            if self.table == FILES:
                size = where.files.get_file_info(where.path).size if stop is None else stop
                rows = {
                    "file": [name],
                    "start": [start],
                    "size": [size],
                    "is_whole": [stop is None],
                }
                yield self._select_schema(pa.RecordBatch.from_pydict(rows, schema=FILES_SCHEMA))
                return
            with where.files.open_input_file(where.path) as source:
                batches = (
                    self._read_range(source, name, start, stop)
                    if start or stop is not None
                    else read_file(source, name, self._options, part)
                )
                yield from map(self._select_schema, self._decode_rows(name, batches))
        except (OSError, LocationError, pa.ArrowException) as error:
            yield from self._problem_rows(name, str(error.args[0] if error.args else error))

    def _decode_rows(self, name: str, batches: Iterator[TableBatch]) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                table, batch = next(batches)
                rows = [*self._typed_rows(table, self._row_filter.rows(batch))]
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001 - an error of one file must not fail the query
                yield from self._problem_rows(name, f"{type(error).__name__}: {error}")
                return
            yield from rows

    def _read_range(
        self,
        source: Any,  # noqa: ANN401 - a file
        name: str,
        start: int,
        stop: int | None,
    ) -> Iterator[TableBatch]:
        # The decoder's state at `start` is restored by reading up to it.
        file = GrowingFile(name, self._options)
        for _ in file.read(source, start):
            pass
        yield from file.finish(source) if stop is None else file.read(source, stop)

    def _typed_rows(self, table: Table, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if table is Table.UNPAIRED:
            table, batch = Table.PAIRS, unanswered_pairs(batch)
        if table is not Table.PAIRS:
            yield batch
        elif self.table == ENVELOPES:
            yield batch.select(tables.ENVELOPE.names)
        else:
            for typed_rows in decode_typed(batch, self._fields):
                rows = typed_rows.requests if self.table == REQUESTS else typed_rows.problems
                if rows is not None:
                    yield rows

    def _problem_rows(self, name: str, detail: str) -> Iterator[pa.RecordBatch]:
        if self.table == "problems":
            yield self._select_schema(unreadable_problem(name, detail))

    def _schema(self, columns: Sequence[str] | Mapping[str, bool]) -> pa.Schema:
        schema = _SCHEMAS.get(self.table)
        if schema is None:
            assert self._api_key is not None
            try:
                no_pairs = tables.PAIRS.empty_table().to_batches() or [
                    pa.RecordBatch.from_pylist([], schema=tables.PAIRS)
                ]
                decoded, _ = typed_exchanges.decode_pairs(
                    self._api_key, no_pairs[0], fields=self._fields
                )
                schema = decoded.schema
            except KeyError as error:
                raise OptionError(f"fields: {error.args[0]}") from error
        return select_columns(schema, columns)

    def _select_schema(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def unanswered_pairs(frames: pa.RecordBatch) -> pa.RecordBatch:
    """Return the requests among unpaired frames as pairs without responses."""
    rows = frames.filter(pc.equal(frames["direction"], int(Direction.REQUEST)))
    columns_by_name = {
        "request_bytes": pc.binary_length(rows["payload"]),
        "request_start": rows["start"],
        "request": rows["payload"],
    }
    columns = [
        columns_by_name[field.name].cast(field.type)
        if field.name in columns_by_name
        else rows[field.name]
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in tables.PAIRS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=tables.PAIRS)


def _ends_with_statistics(stream: Any) -> bool:  # noqa: ANN401 - an open file
    size = stream.size()
    if size < _MIN_BLOCK_BYTES:
        return False
    stream.seek(size - _LENGTH_BYTES)
    end = stream.read(_LENGTH_BYTES)
    for order in ("little", "big"):
        length = int.from_bytes(end, order)
        if _MIN_BLOCK_BYTES <= length <= size:
            stream.seek(size - length)
            if int.from_bytes(stream.read(_LENGTH_BYTES), order) == STATISTICS:
                return True
    return False
