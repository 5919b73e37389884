"""Segments of data directories, of Kafka or kafkalite, and the rows in them.

A segment gives rows to the table `records`. A segment of a coordinator's topic also gives rows to
one table per record type. Torn and corrupt batches are rows of `problems`.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.records import coordinator_records
from kafkalite.lab.columnar.records.record_batches import find_batches
from kafkalite.lab.columnar.records.records import RECORD_FIELDS, BatchRecords, read_batches
from kafkalite.lab.columnar.tables import PROBLEMS as PROBLEMS_SCHEMA
from kafkalite.metadata.internal_topics import RECORD_LOGS
from kafkalite.ports.files import join
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage.file_names import parse_file_name, parse_partition_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.lab.columnar.arrays import Bytes
    from kafkalite.lab.columnar.records.record_batches import BatchError, BatchHeaders, FoundBatches
    from kafkalite.ports.files import Files

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

    def includes(self, table: str) -> bool:
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
    topic_partition = parse_partition_directory(rest.rpartition("/")[2])
    offset_and_suffix = parse_file_name(name)
    if topic_partition is None or offset_and_suffix is None or offset_and_suffix[1] != _LOG:
        return None
    return Segment(*topic_partition, offset_and_suffix[0], path)


def segments_of(paths: Iterable[str]) -> list[Segment]:
    """Return the segments among paths, sorted by topic, partition and offset."""
    return sorted(segment for path in paths if (segment := parse_segment_path(path)) is not None)


def find_segments(files: Files, directory: str) -> list[Segment]:
    """Return all segments of a data directory, or of a partition's directory."""
    names = files.list(directory)
    paths = [join(directory, name) for name in names if name.endswith(_LOG)]
    for name in names:
        if parse_partition_directory(name) is not None:
            partition_directory = join(directory, name)
            paths += [join(partition_directory, each) for each in files.list(partition_directory)]
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
    segment = parse_segment_path(name)
    log_name = _LogName(
        name,
        topic if topic is not None else (segment.topic if segment else ""),
        partition if partition is not None else (segment.partition if segment else -1),
    )
    for window, position, is_last in _read_windows(source, options.chunk_bytes):
        found, used = _find_complete_batches(window, is_last=is_last)
        window.used = used
        found = found._replace(headers=_skip_earlier_batches(found.headers, options))
        problems = _Problems(log_name, position)
        for batch_records in read_batches(window.data, found):
            problems.add(batch_records.errors)
            yield from _table_batches(batch_records, log_name, position, options, problems)
        if (problem_rows := problems.rows()).num_rows and options.includes(PROBLEMS):
            yield PROBLEMS, problem_rows


@dataclass(frozen=True, slots=True)
class _LogName:
    """The file that is read, and the partition to which it belongs."""

    file: str
    topic: str
    partition: int


@dataclass(slots=True)
class _Window:
    """Part of a file; its user sets `used` to the number of used bytes, -1 to stop reading."""

    data: Bytes
    used: int = 0


def _read_windows(
    source: bytes | memoryview | BinaryIO, chunk_bytes: int
) -> Iterator[tuple[_Window, int, bool]]:
    """Read a file in windows; a window begins with the unused bytes of the previous one."""
    file = BytesIO(source) if isinstance(source, bytes | memoryview) else source
    position, unused = 0, b""
    while True:
        # If a batch is longer than a window, the next windows grow.
        new_bytes = file.read(max(chunk_bytes, len(unused)))
        data = unused + new_bytes
        window = _Window(np.frombuffer(data, np.uint8))
        yield window, position, not new_bytes
        if not new_bytes or window.used < 0:
            return
        position += window.used
        unused = data[window.used :]


def _find_complete_batches(window: _Window, *, is_last: bool) -> tuple[FoundBatches, int]:
    """Find the complete batches of a window.

    Returns them and the number of used bytes, which is -1 if the rest of the file is unreadable.
    """
    size = len(window.data)
    found = find_batches(window.data, np.zeros(1, np.int64), np.array([size]))
    errors = found.errors
    end = errors[-1] if errors and errors[-1].is_end else None
    if end is None:
        return found, size
    if end.kind is ProblemKind.TRUNCATED_BLOCK and not is_last:
        return found._replace(errors=errors[:-1]), end.position
    return found, -1


def _skip_earlier_batches(headers: BatchHeaders, options: LogOptions) -> BatchHeaders:
    """Skip batches whose records are all before the requested time."""
    if options.from_ms is None:
        return headers
    return headers.select(headers.max_timestamp >= options.from_ms)


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
            self.report(error.kind, error.reason + rest, [error.position])

    def report(self, kind: ProblemKind, reason: str, positions: list[int]) -> None:
        self.found.setdefault((kind, reason), []).extend(positions)

    def rows(self) -> pa.RecordBatch:
        """Return one row per kind and reason."""
        location = (
            f"{self.log_name.topic}-{self.log_name.partition}: " if self.log_name.topic else ""
        )
        rows = [
            {
                "kind": kind.value,
                "file": self.log_name.file,
                "offset": self.position + min(positions),
                "connection": None,
                "detail": location + reason,
                "count": len(positions),
            }
            for (kind, reason), positions in self.found.items()
        ]
        return pa.RecordBatch.from_pylist(rows, PROBLEMS_SCHEMA)


def _table_batches(
    batch_records: BatchRecords,
    log_name: _LogName,
    position: int,
    options: LogOptions,
    problems: _Problems,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    rows = _add_log_columns(batch_records, log_name, position)
    selected_rows = _rows_in_time_range(rows, options)
    if selected_rows is not None:
        rows = rows.take(pa.array(selected_rows))
    if options.includes(RECORDS):
        data_records = rows
        if not options.with_control:
            data_records = rows.filter(pa.array(~np.asarray(rows.column("is_control"))))
        for first in range(0, data_records.num_rows, options.batch_rows):
            yield RECORDS, data_records.slice(first, options.batch_rows)
    log = RECORD_LOGS.get(log_name.topic)
    if log is None:
        return
    coordinator_tables = set(coordinator_records.tables())
    requested = None if options.tables is None else options.tables & coordinator_tables
    if requested is not None and not requested:
        return
    decoded, rejected = coordinator_records.split_records(log, rows, requested)
    for table, typed_rows in decoded:
        for first in range(0, typed_rows.num_rows, options.batch_rows):
            yield table, typed_rows.slice(first, options.batch_rows)
    batch_positions = np.asarray(rows.column("position"))
    for kind, reason, rejected_rows in rejected:
        problems.report(kind, reason, (batch_positions[rejected_rows] - position).tolist())


def _add_log_columns(
    batch_records: BatchRecords, log_name: _LogName, position: int
) -> pa.RecordBatch:
    """Add the columns file, topic, partition and position to records."""
    count = batch_records.records.num_rows
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(log_name.file), count),
            pa.repeat(pa.scalar(log_name.topic), count),
            pa.repeat(pa.scalar(log_name.partition, pa.int32()), count),
            *batch_records.records.columns,
            pa.array(batch_records.batch_positions + position),
        ],
        schema=RECORDS_SCHEMA,
    )


def _rows_in_time_range(rows: pa.RecordBatch, options: LogOptions) -> np.ndarray | None:
    """Return the rows in the requested time range, None for all."""
    if options.from_ms is None and options.until_ms is None:
        return None
    times = rows.column("timestamp")
    timestamps_ms = np.asarray(times.cast(pa.int64()).fill_null(0)) // 1000
    is_selected = np.asarray(times.is_valid())
    if options.from_ms is not None:
        is_selected &= timestamps_ms >= options.from_ms
    if options.until_ms is not None:
        is_selected &= timestamps_ms < options.until_ms
    return np.flatnonzero(is_selected)
