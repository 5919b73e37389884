"""Segments of data directories, of Kafka or kafkalite, and the rows in them.

A segment gives rows to the table `records`. A segment of a coordinator's topic also gives rows to
one table per record type. Torn, corrupt and old-format batches are rows of `problems`.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.ports.files import join
from kafkalite.storage.file_names import parse_file_name, parse_partition_directory
from kafkalite.traffic.columnar import coordinator_records
from kafkalite.traffic.columnar.record_batches import find_batches
from kafkalite.traffic.columnar.records import RECORD_FIELDS, Opened, open_batches
from kafkalite.traffic.columnar.tables import PROBLEMS as PROBLEMS_SCHEMA
from kafkalite.traffic.model import ProblemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.ports.files import Files
    from kafkalite.traffic.columnar.arrays import Bytes
    from kafkalite.traffic.columnar.record_batches import BatchError, BatchHeaders

RECORDS: Final = "records"
PROBLEMS: Final = "problems"

RECORDS_SCHEMA: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        *RECORD_FIELDS,
        pa.field("position", pa.int64(), nullable=False),  # of its batch in the file
    ]
)
"""One row per record."""

_LOG: Final = ".log"


class Segment(NamedTuple):
    """One file of a partition's log."""

    topic: str
    partition: int
    base_offset: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Filters and batch sizes; filters apply before decoding where possible."""

    tables: frozenset[str] | None = None
    """None for all tables of the topic."""
    from_ms: int | None = None
    """First timestamp to read, in milliseconds since the Unix epoch."""
    until_ms: int | None = None
    """First timestamp not to read."""
    with_control: bool = False
    """Whether control records (transaction markers) are included."""
    batch_rows: int = 32_768
    """Maximum number of rows of a batch."""
    chunk_bytes: int = 16 << 20
    """Number of bytes that are processed at once."""

    def wants(self, table: str) -> bool:
        """Whether a table was requested."""
        return self.tables is None or table in self.tables


def table_names() -> tuple[str, ...]:
    """Return the names of all tables of segments."""
    return (RECORDS, *coordinator_records.tables(), PROBLEMS)


def schema_of(table: str) -> pa.Schema:
    """Return the schema of a table; raises KeyError for an unknown one."""
    if table == RECORDS:
        return RECORDS_SCHEMA
    return PROBLEMS_SCHEMA if table == PROBLEMS else coordinator_records.table_schema(table)


# -- directories --------------------------------------------------------------------------


def parse_segment_path(path: str) -> Segment | None:
    """Return the segment of a path; None for other files, and for partitions being deleted."""
    rest, _, name = path.rpartition("/")
    log_name = parse_partition_directory(rest.rpartition("/")[2])
    named = parse_file_name(name)
    if log_name is None or named is None or named[1] != _LOG:
        return None
    return Segment(*log_name, named[0], path)


def segments_of(paths: Iterable[str]) -> list[Segment]:
    """Return the segments among paths, sorted by topic, partition and offset."""
    return sorted(found for path in paths if (found := parse_segment_path(path)) is not None)


def find_segments(files: Files, directory: str) -> list[Segment]:
    """Return all segments of a data directory, or of a partition's directory."""
    names = files.list(directory)
    paths = [join(directory, name) for name in names if name.endswith(_LOG)]
    for name in names:
        if parse_partition_directory(name) is not None:
            inside = join(directory, name)
            paths += [join(inside, each) for each in files.list(inside)]
    return segments_of(paths)


# -- segments -----------------------------------------------------------------------------


def read_segment(
    source: bytes | memoryview | BinaryIO,
    name: str,
    options: LogOptions | None = None,
    *,
    topic: str | None = None,
    partition: int | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (table, rows) for the rows of one segment, with the schema `schema_of(table)`.

    `name` is the path of the segment. It contains topic and partition, unless they are given.
    """
    options = options or LogOptions()
    found = parse_segment_path(name)
    log_name = _LogName(
        name,
        topic if topic is not None else (found.topic if found else ""),
        partition if partition is not None else (found.partition if found else -1),
    )
    for window, position, is_last in _windows(source, options.chunk_bytes):
        headers, errors, used = _whole_batches(window, is_last=is_last)
        window.used = used
        headers = _not_too_old(headers, options)
        collected = _Problems(log_name, position)
        collected.add(errors)
        for opened in open_batches(window.data, headers, with_control=True):
            collected.add(opened.errors)
            yield from _tables(opened, log_name, position, options, collected)
        if (problems := collected.rows()).num_rows and options.wants(PROBLEMS):
            yield PROBLEMS, problems


@dataclass(frozen=True, slots=True)
class _LogName:
    """The log that is read."""

    file: str
    topic: str
    partition: int


@dataclass(slots=True)
class _Window:
    """Part of a file; the reader sets `used` to the number of bytes that it used."""

    data: Bytes
    used: int = 0


def _windows(
    source: bytes | memoryview | BinaryIO, chunk_bytes: int
) -> Iterator[tuple[_Window, int, bool]]:
    """Read a file in pieces; the unused bytes of a piece begin the next one."""
    file = BytesIO(source) if isinstance(source, bytes | memoryview) else source
    position, rest = 0, b""
    while True:
        # If a batch is longer than a piece, the next pieces grow.
        read = file.read(max(chunk_bytes, len(rest)))
        data = rest + read
        window = _Window(np.frombuffer(data, np.uint8))
        yield window, position, not read
        if not read or window.used < 0:
            return
        position += window.used
        rest = data[window.used :]


def _whole_batches(window: _Window, *, is_last: bool) -> tuple[BatchHeaders, list[BatchError], int]:
    """Find the batches of a window, and their end; -1 if the rest of the file is unreadable."""
    size = len(window.data)
    headers, errors = find_batches(window.data, np.zeros(1, np.int64), np.array([size]))
    end = errors[-1] if errors and errors[-1].is_end else None
    if end is None:
        return headers, errors, size
    if end.kind is ProblemKind.TRUNCATED_BLOCK and not is_last:
        return headers, errors[:-1], end.at
    return headers, errors, -1


def _not_too_old(headers: BatchHeaders, options: LogOptions) -> BatchHeaders:
    """Skip batches whose records are all before the requested time."""
    if options.from_ms is None:
        return headers
    return headers.picked(headers.max_timestamp >= options.from_ms)


@dataclass(slots=True)
class _Problems:
    """The problems of one window."""

    log_name: _LogName
    position: int
    found: dict[tuple[ProblemKind, str], list[int]]

    def __init__(self, log_name: _LogName, position: int) -> None:
        self.log_name = log_name
        self.position = position
        self.found = {}

    def add(self, errors: Iterable[BatchError]) -> None:
        for error in errors:
            rest = "; the rest of the file was not read" if error.is_end else ""
            self.report(error.kind, error.reason + rest, [error.at])

    def report(self, kind: ProblemKind, reason: str, positions: list[int]) -> None:
        self.found.setdefault((kind, reason), []).extend(positions)

    def rows(self) -> pa.RecordBatch:
        """Return one row per reason."""
        where = f"{self.log_name.topic}-{self.log_name.partition}: " if self.log_name.topic else ""
        rows = [
            {
                "kind": kind.value,
                "file": self.log_name.file,
                "offset": self.position + min(positions),
                "connection": None,
                "detail": where + reason,
                "count": len(positions),
            }
            for (kind, reason), positions in self.found.items()
        ]
        return pa.RecordBatch.from_pylist(rows, PROBLEMS_SCHEMA)


def _tables(
    opened: Opened, log_name: _LogName, position: int, options: LogOptions, problems: _Problems
) -> Iterator[tuple[str, pa.RecordBatch]]:
    rows = _with_position(opened, log_name, position)
    chosen = _rows_in_time(rows, options)
    if chosen is not None:
        rows = rows.take(pa.array(chosen))
    if options.wants(RECORDS):
        plain = rows
        if not options.with_control:
            plain = rows.filter(pa.array(~np.asarray(rows.column("is_control"))))
        for first in range(0, plain.num_rows, options.batch_rows):
            yield RECORDS, plain.slice(first, options.batch_rows)
    log = coordinator_records.LOGS.get(log_name.topic)
    if log is None:
        return
    known = set(coordinator_records.tables())
    requested = None if options.tables is None else options.tables & known
    if requested is not None and not requested:
        return
    decoded, rejected = coordinator_records.split_records(log, rows, requested)
    for table, made in decoded:
        for first in range(0, made.num_rows, options.batch_rows):
            yield table, made.slice(first, options.batch_rows)
    batches = np.asarray(rows.column("position"))
    for kind, reason, which in rejected:
        problems.report(kind, reason, (batches[which] - position).tolist())


def _with_position(opened: Opened, log_name: _LogName, position: int) -> pa.RecordBatch:
    """Add file, topic, partition and position to records."""
    count = opened.records.num_rows
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(log_name.file), count),
            pa.repeat(pa.scalar(log_name.topic), count),
            pa.repeat(pa.scalar(log_name.partition, pa.int32()), count),
            *opened.records.columns,
            pa.array(opened.batch_positions + position),
        ],
        schema=RECORDS_SCHEMA,
    )


def _rows_in_time(rows: pa.RecordBatch, options: LogOptions) -> np.ndarray | None:
    """Return the rows in the requested time range, None for all."""
    if options.from_ms is None and options.until_ms is None:
        return None
    times = rows.column("timestamp")
    at = np.asarray(times.cast(pa.int64()).fill_null(0)) // 1000
    is_chosen = np.asarray(times.is_valid())
    if options.from_ms is not None:
        is_chosen &= at >= options.from_ms
    if options.until_ms is not None:
        is_chosen &= at < options.until_ms
    return np.flatnonzero(is_chosen)
