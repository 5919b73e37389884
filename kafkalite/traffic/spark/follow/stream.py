"""Follows a growing capture as a Spark stream: new data is decoded and passed on in batches.

A batch has new files, and the added bytes of files that are still being written. Spark's checkpoint
has the offsets. Incomplete frames and requests are stored in a folder per batch. The next batch
continues from that folder; a repeated batch reads the same folder. The decoder's state in the
middle of a growing file is held in memory only. It is restored by reading the file from its
beginning.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import StreamingQueryException

from kafkalite.traffic.columnar.growing_files import GrowingFile
from kafkalite.traffic.columnar.options import DEFAULT_OPTIONS, Table
from kafkalite.traffic.columnar.stitching import PendingLimits, stitch
from kafkalite.traffic.spark import register
from kafkalite.traffic.spark.access_checks import check_table_access
from kafkalite.traffic.spark.connection_stitching import read_incomplete_frames
from kafkalite.traffic.spark.follow.pending_frames import PendingFrames
from kafkalite.traffic.spark.inputs import WorkerFiles
from kafkalite.traffic.spark.locations import InputFile, LocationError, location
from kafkalite.traffic.spark.output_journal import locked
from kafkalite.traffic.spark.progress import Silent, files_text, size_text
from kafkalite.traffic.spark.requests import Requests
from kafkalite.traffic.spark.sources.capture import NAME
from kafkalite.traffic.spark.sources.folder_stream import FileRange
from kafkalite.traffic.spark.stages.decoding import CONNECTIONS as NUMBERS
from kafkalite.traffic.spark.stages.decoding import PROBLEMS, Task, TaskDecoder
from kafkalite.traffic.spark.stages.stitching import SCHEMAS, names
from kafkalite.traffic.spark.tuning import settings_for_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kafkalite.traffic.columnar.options import Options
    from kafkalite.traffic.columnar.reading import TableBatch
    from kafkalite.traffic.columnar.stitching import Pending, Stitched
    from kafkalite.traffic.spark.locations import Location
    from kafkalite.traffic.spark.progress import ProgressReporter

    Derive = Callable[[Requests, str], DataFrame]
    OnBatch = Callable[[Requests, int, Mapping[int, int], bool], None]
    """Receives the requests, the batch's number, the time in microseconds of each API's oldest
    request without a response, and whether this is the last batch."""

FILES_PER_BATCH: Final = 16
RESPONSE_TIMEOUT_NS: Final = 600_000_000_000
"""A request without a response for this long counts as unanswered; rebalances take minutes."""
CONNECTION_TIMEOUT_NS: Final = 3_600_000_000_000
"""Packets after a silence this long belong to a new connection: brokers close idle ones."""

_SPLIT_BYTES: Final = 128 << 20
_CHECKPOINT: Final = "_kafkalite/checkpoint"
_BATCH: Final = "_kafkalite/batch"
_DESCRIPTION: Final = "_kafkalite/followed.json"
_LAYOUT: Final = 2
"""Version of the stored state; a stream cannot continue from another version."""
_TRIGGER_INTERVAL: Final = "1 second"
_POLL_INTERVAL_S: Final = 1
_NS_PER_US: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedCapture:
    """A growing capture, and the location of the stream's state."""

    inputs: Sequence[str]
    """Files, folders and patterns, by path or URL."""
    out: Location
    options: Options = DEFAULT_OPTIONS
    derive: Derive | None = None
    """Computes a state table, which is requested by name."""
    reporter: ProgressReporter = field(default_factory=Silent)


def follow(
    spark: SparkSession,
    subject: FollowedCapture,
    on_batch: OnBatch,
    *,
    available_now: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Pass the requests of a growing capture to `on_batch` until `should_stop` returns true.

    With `available_now`, it ends after the data that is available now. At the end, requests still
    without a response are passed on in a last batch. The next call continues from the state in
    `out`; an interrupted batch is repeated with the same number.

    Raises LocationError if Spark cannot write to `out`, another run uses it, it has the state of
    another stream, or a file has become shorter.
    """
    out = subject.out
    with locked(out):
        _store_description(subject)
        register(spark)
        check_table_access(spark, out)
        decoding = Decoding(spark, subject, on_batch)
        failures: list[Exception] = []

        def take(rows: DataFrame, number: int) -> None:
            try:
                if pieces := _pieces(rows):
                    decoding.take(rows.sparkSession, pieces, number)
            except Exception as error:
                failures.append(error)
                raise

        reader = spark.readStream.format(NAME).options(
            table="files",
            open="read",
            paths=json.dumps(list(subject.inputs)),
            maxFilesPerTrigger=str(FILES_PER_BATCH),
        )
        writer = reader.load().writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", (out / _CHECKPOINT).url)
        if available_now:
            query = writer.trigger(availableNow=True).start()
        else:
            query = writer.trigger(processingTime=_TRIGGER_INTERVAL).start()
        with _original_error(failures):
            _wait(query, decoding, should_stop)
        decoding.finish()


def _wait(query: StreamingQuery, decoding: Decoding, should_stop: Callable[[], bool]) -> None:
    """Wait for the end of the stream; raises LocationError if a file has become shorter."""
    while not query.awaitTermination(_POLL_INTERVAL_S):
        # If the query is stopped within a batch, each of its jobs fails and prints an error.
        if query.status["isTriggerActive"]:
            continue
        shrunk = decoding.shrunk()
        if shrunk or should_stop():
            query.stop()
        if shrunk:
            raise LocationError(shrunk)


@contextmanager
def _original_error(failures: Sequence[Exception]) -> Iterator[None]:
    """Raise a batch's original error instead of Spark's error from Java."""
    try:
        yield
    except StreamingQueryException:
        if not failures:
            raise
        raise failures[-1] from None


def _store_description(subject: FollowedCapture) -> None:
    """Store the stream's inputs and options; raises LocationError if `out` has others."""
    options = subject.options
    description = {
        "layout": _LAYOUT,
        "inputs": sorted(location(url).url for url in subject.inputs),
        "api_keys": sorted(options.api_keys or ()),
        "from_ns": options.from_ns,
        "until_ns": options.until_ns,
        "clients": options.clients,
    }
    file = subject.out / _DESCRIPTION
    try:
        stored = json.loads(file.read_text() or "null")
    except ValueError as error:
        raise LocationError(f"{file.url}: invalid description of the stream: {error}") from error
    if stored is None and not (subject.out / _CHECKPOINT).exists():
        file.write_text(json.dumps(description))
    elif stored != description:
        stored_values = stored if isinstance(stored, dict) else {}
        differs = next(
            (name for name in description if stored_values.get(name) != description[name]), "layout"
        )
        raise LocationError(
            f"{subject.out.url}: was used with other {differs} ({stored_values.get(differs)});"
            " choose another --out, or delete it"
        )


def _pieces(rows: DataFrame) -> list[FileRange]:
    return [
        FileRange(row.file, row.start, None if row.is_whole else row.size, row.size - row.start)
        for row in rows.orderBy("file").collect()
    ]


@dataclass(slots=True)
class Decoding:
    """Decodes the pieces of each batch and passes on their requests."""

    spark: SparkSession
    subject: FollowedCapture
    on_batch: OnBatch
    growing: dict[str, GrowingFile] = field(default_factory=dict)
    """Files that may grow, with the decoder's state at the end of the last batch."""

    def take(self, session: SparkSession, pieces: Sequence[FileRange], number: int) -> None:
        """Decode pieces and pass on their requests; `session` is the stream's own."""
        staged = self.subject.out / f"{_BATCH}-{number}"
        staged.delete()
        task = Task(staged=staged, name=f"{number:06}", options=self.subject.options)
        size = sum(piece.size for piece in pieces)
        # Both sessions run queries: `self.spark` reads the stored state.
        with settings_for_size(session, size), settings_for_size(self.spark, size):
            whole_files = [
                InputFile(url=piece.url, size=piece.size, modified_ns=0)
                for piece in pieces
                if piece.stop is None and not piece.start
            ]
            incomplete = _IncompleteFrames()
            if whole_files:
                splits = WorkerFiles(session, self.subject.inputs).decode(
                    whole_files, task, _SPLIT_BYTES, self.subject.reporter
                )
                incomplete.add_all(
                    read_incomplete_frames(
                        [staged / name for split in splits for name in split.loose]
                    )
                )
            decoder = TaskDecoder(task, "grown", 0)
            with decoder.tables:
                for piece in pieces:
                    if piece.start or piece.stop is not None:
                        incomplete.take(decoder.take(piece.url, self._new_rows(piece)))
                pending = self._stitch(decoder, incomplete, number)
            self._pass_on(session, staged, number, self._pending(pending), is_last=False)
        self.subject.reporter.step(
            f"batch {number:,}: {size_text(size)} of {files_text(len(pieces))}"
        )

    def finish(self) -> None:
        """Pass on the requests that are still without a response."""
        number = max(self._pending_frames.numbers(), default=-1) + 1
        if not number:
            return
        staged = self.subject.out / f"{_BATCH}-{number}"
        staged.delete()
        incomplete = _IncompleteFrames()
        decoder = TaskDecoder(
            Task(staged=staged, name=f"{number:06}", options=self.subject.options), "ended", 0
        )
        with decoder.tables:
            for url, size in self._pending_frames.grown(number - 1).items():
                incomplete.take(decoder.take(url, self._new_rows(FileRange(url, size))))
            self._write(
                decoder, stitch(*incomplete.tables(), self._pending_frames.of(number - 1), None)
            )
        self._pass_on(self.spark, staged, number, {}, is_last=True)

    def shrunk(self) -> str:
        """Return an error text if a file is shorter than its part that was read; else empty."""
        for url, file in self.growing.items():
            where = location(url)
            size = where.files.get_file_info(where.path).size
            if size is not None and size < file.position:
                return (
                    f"{url}: has {size:,} bytes, but {file.position:,} were read;"
                    " files of a followed capture must only grow"
                )
        return ""

    def _pass_on(
        self,
        session: SparkSession,
        staged: Location,
        number: int,
        pending_us: Mapping[int, int],
        *,
        is_last: bool,
    ) -> None:
        self.on_batch(
            Requests.read(session, staged, self.subject.derive), number, pending_us, is_last
        )
        for name in (staged / PROBLEMS).walk():
            (staged / PROBLEMS / name).move_to(self.subject.out / PROBLEMS / name)
        staged.delete()

    def _new_rows(self, piece: FileRange) -> Iterator[TableBatch]:
        """Yield the rows of a piece of a file that are not in its earlier pieces."""
        url, stop = piece.url, piece.stop
        file = self._decoder_at(url, piece.start)
        if stop is None:
            del self.growing[url]
            yield from _read(url, file.finish)
        else:
            yield from _read(url, lambda source: file.read(source, stop))

    def _decoder_at(self, url: str, size: int) -> GrowingFile:
        """Return a file's decoder after it has read the first `size` bytes."""
        file = self.growing.get(url)
        if file is None or file.size != size:
            file = again = self.growing[url] = GrowingFile(url, self.subject.options)
            if size:
                for _ in _read(url, lambda source: again.read(source, size)):
                    pass  # a previous batch passed these on
        return file

    def _stitch(self, decoder: TaskDecoder, incomplete: _IncompleteFrames, number: int) -> Pending:
        """Join incomplete data of this batch and earlier ones; return the data still incomplete."""
        earlier = self._pending_frames.of(number - 1)
        last_ns = max((*incomplete.seen_ns(), *_last_ns(earlier.connections)), default=0)
        limits = PendingLimits(
            requests_since_ns=last_ns - RESPONSE_TIMEOUT_NS,
            connections_since_ns=last_ns - CONNECTION_TIMEOUT_NS,
            growing=frozenset(self.growing),
        )
        stitched = stitch(*incomplete.tables(), earlier, limits)
        self._write(decoder, stitched)
        sizes = {url: file.size for url, file in self.growing.items()}
        self._pending_frames.store(number, stitched.pending, sizes)
        return stitched.pending

    def _write(self, decoder: TaskDecoder, stitched: Stitched) -> None:
        for batch in stitched.pairs.to_batches():
            decoder.pairs(batch)
        for batch in stitched.problems.to_batches():
            decoder.problems(batch)
        for batch in names(stitched.renamed):
            decoder.tables.write(NUMBERS, batch)

    @property
    def _pending_frames(self) -> PendingFrames:
        return PendingFrames(self.subject.out)

    def _pending(self, pending: Pending) -> dict[int, int]:
        """Return, by API, the time of the oldest request without a response."""
        since: dict[int, int] = {}
        for file in self.growing.values():
            for key, at_ns in file.first_open_request_ns().items():
                at_us = at_ns // _NS_PER_US
                since[key] = min(since.get(key, at_us), at_us)
        requests = zip(
            pending.requests["payload"].to_pylist(),
            pending.requests["ts"].cast(pa.int64()).to_pylist(),
            strict=True,
        )
        for payload, at_us in requests:
            key = int.from_bytes(payload[:2])
            since[key] = min(since.get(key, at_us), at_us)
        return since


class _IncompleteFrames:
    """Incomplete frames and requests of a batch."""

    def __init__(self) -> None:
        self._parts: dict[Table, list[pa.Table]] = {
            table: [schema.empty_table()] for table, schema in SCHEMAS.items()
        }

    def take(self, parts: Iterable[TableBatch]) -> None:
        """Add tables read from a file."""
        for table, batch in parts:
            self._parts[table].append(pa.Table.from_batches([batch], SCHEMAS[table]))

    def add_all(self, incomplete: Mapping[Table, pa.Table]) -> None:
        """Add tables."""
        for table, rows in incomplete.items():
            self._parts[table].append(rows)

    def tables(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Return connections, fragments, and unpaired frames."""
        connections, fragments, unpaired = map(pa.concat_tables, self._parts.values())
        return connections, fragments, unpaired

    def seen_ns(self) -> list[int]:
        """Return the times at which connections were last seen."""
        return _last_ns(self.tables()[0])


def _last_ns(connections: pa.Table) -> list[int]:
    return [int(last_ns) for last_ns in connections["last_ns"].to_pylist()]


def _read(url: str, read: Callable[[pa.NativeFile], Iterator[TableBatch]]) -> Iterator[TableBatch]:
    where = location(url)
    with where.files.open_input_file(where.path) as source:
        yield from read(source)
