"""Kafka's data directories, a broker's or ours: which segments there are, and the rows in them.

A segment gives rows to the table `records`, and to one per type of record where the topic is a
coordinator's. What is torn, corrupt or of an old format is told in `problems`, with its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import ProblemKind
from kafkalite.columnar import coordinator_records
from kafkalite.columnar.batches import find_batches
from kafkalite.columnar.records import RECORD_FIELDS, Opened, open_batches
from kafkalite.columnar.tables import PROBLEMS as PROBLEMS_SCHEMA
from kafkalite.ports.files import join
from kafkalite.storage.naming import parse_file_name, parse_partition_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.columnar.arrays import Bytes
    from kafkalite.columnar.batches import BatchError, Heads
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
"""One row a record."""

_LOG: Final = ".log"


class Segment(NamedTuple):
    """One file of a partition's log."""

    topic: str
    partition: int
    base_offset: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What is left out is left out early."""

    tables: frozenset[str] | None = None
    """None is all that the topic has."""
    from_ms: int | None = None
    """The first timestamp of interest, in milliseconds since the Unix epoch."""
    until_ms: int | None = None
    """The first timestamp of no interest any more."""
    with_control: bool = False
    """Whether the markers of transactions are records, too."""
    batch_rows: int = 32_768
    chunk_bytes: int = 16 << 20

    def wants(self, table: str) -> bool:
        """Whether a table is to be made."""
        return self.tables is None or table in self.tables


def table_names() -> tuple[str, ...]:
    """Return the names of all tables that segments give rows to."""
    return (RECORDS, *coordinator_records.tables(), PROBLEMS)


def schema_of(table: str) -> pa.Schema:
    """Return the columns of a table; raises KeyError for an unknown one."""
    if table == RECORDS:
        return RECORDS_SCHEMA
    return PROBLEMS_SCHEMA if table == PROBLEMS else coordinator_records.table_schema(table)


# -- directories --------------------------------------------------------------------------


def segment_of(path: str) -> Segment | None:
    """Return the segment that a path names, None where it is none of a partition that lives."""
    rest, _, name = path.rpartition("/")
    place = parse_partition_directory(rest.rpartition("/")[2])
    named = parse_file_name(name)
    if place is None or named is None or named[1] != _LOG:
        return None
    return Segment(*place, named[0], path)


def segments_of(paths: Iterable[str]) -> list[Segment]:
    """Return the segments among paths, in the order of their topics, partitions and offsets."""
    return sorted(found for path in paths if (found := segment_of(path)) is not None)


def find_segments(files: Files, directory: str) -> list[Segment]:
    """Return all segments of a data directory, or of the partition that it is itself."""
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
    """Read one segment; yields tables' names and rows of `schema_of` them.

    `name` is its path, which says of which topic and partition it is unless they are given.
    """
    options = options or LogOptions()
    found = segment_of(name)
    place = _Place(
        name,
        topic if topic is not None else (found.topic if found else ""),
        partition if partition is not None else (found.partition if found else -1),
    )
    for window, position, is_last in _windows(source, options.chunk_bytes):
        heads, errors, used = _whole_batches(window, is_last=is_last)
        window.used = used
        heads = _within(heads, options)
        told = _Told(place, position)
        told.add(errors)
        for opened in open_batches(window.data, heads, with_control=True):
            told.add(opened.errors)
            yield from _tables(opened, place, position, options, told)
        if (problems := told.rows()).num_rows and options.wants(PROBLEMS):
            yield PROBLEMS, problems


@dataclass(frozen=True, slots=True)
class _Place:
    """Which log is read."""

    file: str
    topic: str
    partition: int


@dataclass(slots=True)
class _Window:
    """Part of a file; how much of it was used is for its reader to say."""

    data: Bytes
    used: int = 0


def _windows(
    source: bytes | memoryview | BinaryIO, chunk_bytes: int
) -> Iterator[tuple[_Window, int, bool]]:
    """Read a file piece by piece; what is left of a piece is the start of the next one."""
    file = BytesIO(source) if isinstance(source, bytes | memoryview) else source
    position, rest = 0, b""
    while True:
        # A batch that is longer than a piece makes the next ones grow.
        read = file.read(max(chunk_bytes, len(rest)))
        data = rest + read
        window = _Window(np.frombuffer(data, np.uint8))
        yield window, position, not read
        if not read or window.used < 0:
            return
        position += window.used
        rest = data[window.used :]


def _whole_batches(window: _Window, *, is_last: bool) -> tuple[Heads, list[BatchError], int]:
    """Find the batches of a window, and how far they reach; -1 where nothing follows them."""
    size = len(window.data)
    heads, errors = find_batches(window.data, np.zeros(1, np.int64), np.array([size]))
    end = errors[-1] if errors and errors[-1].is_end else None
    if end is None:
        return heads, errors, size
    if end.kind is ProblemKind.TRUNCATED_BLOCK and not is_last:
        return heads, errors[:-1], end.at
    return heads, errors, -1


def _within(heads: Heads, options: LogOptions) -> Heads:
    """Leave out batches all of whose records are too old."""
    if options.from_ms is None:
        return heads
    return heads.some(heads.max_timestamp >= options.from_ms)


@dataclass(slots=True)
class _Told:
    """The problems of one window."""

    place: _Place
    position: int
    found: dict[tuple[ProblemKind, str], list[int]]

    def __init__(self, place: _Place, position: int) -> None:
        self.place = place
        self.position = position
        self.found = {}

    def add(self, errors: Iterable[BatchError]) -> None:
        for error in errors:
            rest = "; what follows it was not read" if error.is_end else ""
            self.tell(error.kind, error.reason + rest, [error.at])

    def tell(self, kind: ProblemKind, reason: str, places: list[int]) -> None:
        self.found.setdefault((kind, reason), []).extend(places)

    def rows(self) -> pa.RecordBatch:
        """Make rows of them: those of one reason are one."""
        where = f"{self.place.topic}-{self.place.partition}: " if self.place.topic else ""
        rows = [
            {
                "kind": kind.value,
                "file": self.place.file,
                "offset": self.position + min(places),
                "connection": None,
                "detail": where + reason,
                "count": len(places),
            }
            for (kind, reason), places in self.found.items()
        ]
        return pa.RecordBatch.from_pylist(rows, PROBLEMS_SCHEMA)


def _tables(
    opened: Opened, place: _Place, position: int, options: LogOptions, told: _Told
) -> Iterator[tuple[str, pa.RecordBatch]]:
    rows = _placed(opened, place, position)
    chosen = _chosen(rows, options)
    if chosen is not None:
        rows = rows.take(pa.array(chosen))
    if options.wants(RECORDS):
        plain = rows
        if not options.with_control:
            plain = rows.filter(pa.array(~np.asarray(rows.column("is_control"))))
        for first in range(0, plain.num_rows, options.batch_rows):
            yield RECORDS, plain.slice(first, options.batch_rows)
    log = coordinator_records.LOGS.get(place.topic)
    if log is None:
        return
    wanted = None if options.tables is None else options.tables & set(coordinator_records.tables())
    if wanted is not None and not wanted:
        return
    kept, refused = coordinator_records.split_records(log, rows, wanted)
    for table, made in kept:
        for first in range(0, made.num_rows, options.batch_rows):
            yield table, made.slice(first, options.batch_rows)
    batches = np.asarray(rows.column("position"))
    for kind, reason, which in refused:
        told.tell(kind, reason, (batches[which] - position).tolist())


def _placed(opened: Opened, place: _Place, position: int) -> pa.RecordBatch:
    """Say of records where they stand."""
    count = opened.records.num_rows
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(place.file), count),
            pa.repeat(pa.scalar(place.topic), count),
            pa.repeat(pa.scalar(place.partition, pa.int32()), count),
            *opened.records.columns,
            pa.array(opened.places + position),
        ],
        schema=RECORDS_SCHEMA,
    )


def _chosen(rows: pa.RecordBatch, options: LogOptions) -> np.ndarray | None:
    """Return the rows of a time that is of interest, None for all."""
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
