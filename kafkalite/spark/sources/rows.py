"""What is asked of captures, and the rows that one file answers with; no session, no JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.model import Direction
from kafkalite.capture.pcapng import STATISTICS
from kafkalite.columnar import exchanges, tables
from kafkalite.columnar.growing import HEAD_BYTES, GrowingFile, can_grow
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import read_file
from kafkalite.spark.places import PlaceError, find, place
from kafkalite.spark.sources.asking import Asked, OptionError, chosen
from kafkalite.spark.sources.contract import OPTIONS
from kafkalite.spark.sources.growing import Standing
from kafkalite.spark.stages.parting import parts_in
from kafkalite.spark.stages.typed import typed, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.columnar.parts import FilePart
    from kafkalite.columnar.reading import Part
    from kafkalite.spark.places import InputFile

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
"""What a source of captures can be asked."""

REQUESTS: Final = "requests"
ENVELOPES: Final = "envelopes"

_LENGTH_BYTES: Final = 4
_LEAST_BYTES: Final = 12

FILES: Final = "files"
FILES_SCHEMA: Final = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("start", pa.int64()),
        pa.field("size", pa.int64()),  # how far it goes, from the file's beginning
        pa.field("is_whole", pa.bool_()),  # whether it ends there
    ]
)
"""The files themselves, unread; of one that grows, the pieces by which it does."""

_READS: Final[Mapping[str, frozenset[Table]]] = {
    REQUESTS: frozenset({Table.PAIRS, Table.UNPAIRED}),
    ENVELOPES: frozenset({Table.PAIRS, Table.UNPAIRED}),
    "frames": frozenset({Table.FRAMES}),
    "fragments": frozenset({Table.FRAGMENTS}),
    "connections": frozenset({Table.CONNECTIONS}),
    "problems": frozenset({Table.PAIRS, Table.PROBLEMS}),
    FILES: frozenset(),
}
"""The tables that can be asked for, and what is read for them."""

_SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    ENVELOPES: tables.ENVELOPE,
    "frames": tables.FRAMES,
    "fragments": tables.FRAGMENTS,
    "connections": tables.CONNECTIONS,
    "problems": tables.PROBLEMS,
    FILES: FILES_SCHEMA,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Where:
    """Rows of interest, where the decoder does not leave the others out."""

    versions: tuple[int, ...]
    connections: tuple[int, ...]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name, wanted in (("api_version", self.versions), ("connection", self.connections)):
            if wanted and name in batch.schema.names:
                kind = batch.schema.field(name).type
                batch = batch.filter(pc.is_in(batch[name], pa.array(wanted, kind)))
        return batch


class Rows:
    """The rows that options ask for, file by file."""

    def __init__(
        self, options: Mapping[str, str], columns: Mapping[str, bool] | None = None
    ) -> None:
        """Understand `options`; `columns` are the only ones wanted. OptionError."""
        asked = self.asked = Asked(options, CAPTURE_OPTIONS)
        keys = asked.api_keys("api")
        default = REQUESTS if keys is not None and len(keys) == 1 else "frames"
        self.table = asked.choice("table", _READS, default)
        self._fields = asked.words("fields") or None
        if self.table == REQUESTS and (keys is None or len(keys) != 1):
            raise OptionError("requests are a table for each API: name one with the option api")
        self._key = min(keys) if keys is not None and self.table == REQUESTS else None
        self._with_open = asked.choice("open", ("skip", "read"), "skip") == "read"
        self._in_parts = asked.is_true("parts", default=False)
        self._where = _Where(
            versions=asked.numbers("versions"), connections=asked.numbers("connection")
        )
        self.schema = self._schema(columns or asked.words("columns"))
        self._options = Options(
            tables=_READS[self.table],
            api_keys=keys,
            from_ns=asked.instant_ns("from"),
            until_ns=asked.instant_ns("until"),
            clients=asked.text("client"),
            payload=self.table in {REQUESTS, "problems"}
            or (asked.is_true("payload", default=True) and "payload" in self.schema.names),
        )

    def find(self) -> list[InputFile]:
        """List the captures."""
        return find(self.asked.urls())

    def standing(self, file: InputFile) -> Standing:
        """Say whether a file ends as our recorder ends one that it will not write to any more."""
        try:
            where = place(file.url)
            with where.files.open_input_file(where.path) as stream:
                if _ends_with_statistics(stream):
                    return Standing.WHOLE
                stream.seek(0)
                grows = self._with_open and can_grow(stream.read(HEAD_BYTES))
        except (OSError, PlaceError, pa.ArrowException):
            grows = False
        return Standing.GROWS if grows else Standing.WAITS

    def parts(self, file: InputFile, size: int) -> list[FilePart]:
        """Find where a file can be read by several tasks, if that is asked for.

        It is not done unasked: what goes on from part to part is as if it lay in two files.
        """
        return parts_in(file.url, size) if self._in_parts else []

    def of(
        self,
        name: str,
        start: int = 0,
        stop: int | None = None,
        part: FilePart | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file; what is wrong with it are rows of the table of problems.

        Of one that grows, those that the bytes from `start` to `stop` add to what it says; of a
        `part`, what it says by itself.
        """
        try:
            where = place(name)
            if self.table == FILES:
                size = where.files.get_file_info(where.path).size if stop is None else stop
                rows = {
                    "file": [name],
                    "start": [start],
                    "size": [size],
                    "is_whole": [stop is None],
                }
                yield self._shaped(pa.RecordBatch.from_pydict(rows, schema=FILES_SCHEMA))
                return
            with where.files.open_input_file(where.path) as source:
                found = (
                    self._grown(source, name, start, stop)
                    if start or stop is not None
                    else read_file(source, name, self._options, part)
                )
                yield from map(self._shaped, self._of(name, found))
        except (OSError, PlaceError, pa.ArrowException) as error:
            yield from self._failed(name, str(error.args[0] if error.args else error))

    def _of(self, name: str, batches: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                table, batch = next(batches)
                rows = [*self._answers(table, self._where.rows(batch))]
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this file's alone
                yield from self._failed(name, f"{type(error).__name__}: {error}")
                return
            yield from rows

    def _grown(
        self,
        source: Any,  # noqa: ANN401 - a file
        name: str,
        start: int,
        stop: int | None,
    ) -> Iterator[Part]:
        # What is known at `start` is found by reading up to there once more.
        file = GrowingFile(name, self._options)
        for _ in file.read(source, start):
            pass
        yield from file.finish(source) if stop is None else file.read(source, stop)

    def _answers(self, table: Table, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if table is Table.UNPAIRED:
            table, batch = Table.PAIRS, unanswered(batch)
        if table is not Table.PAIRS:
            yield batch
        elif self.table == ENVELOPES:
            yield batch.select(tables.ENVELOPE.names)
        else:
            for found in typed(batch, self._fields):
                rows = found.requests if self.table == REQUESTS else found.problems
                if rows is not None:
                    yield rows

    def _failed(self, name: str, detail: str) -> Iterator[pa.RecordBatch]:
        if self.table == "problems":
            yield self._shaped(unreadable(name, detail))

    def _schema(self, columns: Sequence[str] | Mapping[str, bool]) -> pa.Schema:
        whole = _SCHEMAS.get(self.table)
        if whole is None:
            assert self._key is not None
            try:
                nothing = tables.PAIRS.empty_table().to_batches() or [
                    pa.RecordBatch.from_pylist([], schema=tables.PAIRS)
                ]
                whole = exchanges.typed(self._key, nothing[0], fields=self._fields)[0].schema
            except KeyError as error:
                raise OptionError(f"fields: {error.args[0]}") from error
        return chosen(whole, columns)

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def unanswered(frames: pa.RecordBatch) -> pa.RecordBatch:
    """Return the requests among frames that had no other half in their file, as pairs."""
    rows = frames.filter(pc.equal(frames["direction"], int(Direction.REQUEST)))
    known = {
        "request_bytes": pc.binary_length(rows["payload"]),
        "request_start": rows["start"],
        "request": rows["payload"],
    }
    columns = [
        known[each.name].cast(each.type)
        if each.name in known
        else rows[each.name]
        if each.name in rows.schema.names
        else pa.nulls(rows.num_rows, each.type)
        for each in tables.PAIRS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=tables.PAIRS)


def _ends_with_statistics(stream: Any) -> bool:  # noqa: ANN401 - an open file
    size = stream.size()
    if size < _LEAST_BYTES:
        return False
    stream.seek(size - _LENGTH_BYTES)
    end = stream.read(_LENGTH_BYTES)
    for order in ("little", "big"):
        length = int.from_bytes(end, order)
        if _LEAST_BYTES <= length <= size:
            stream.seek(size - length)
            if int.from_bytes(stream.read(_LENGTH_BYTES), order) == STATISTICS:
                return True
    return False
