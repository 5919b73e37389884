"""Follows a growing capture as a Spark stream: new data is decoded in batches.

A batch has new files, and the added bytes of files that are still being written. Spark's checkpoint
has the offsets. Incomplete frames and requests are stored in a folder per batch. The next batch
continues from that folder; a repeated batch reads the same folder. The decoder's state in the
middle of a growing file is held in memory only. It is restored by reading the file from its
beginning.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import StreamingQueryException

from kafkalite.lab.columnar.exchanges.stitching import PendingLimits, stitch
from kafkalite.lab.columnar.options import DEFAULT_OPTIONS, Table
from kafkalite.lab.spark import register
from kafkalite.lab.spark.access_checks import check_table_access
from kafkalite.lab.spark.connection_stitching import read_incomplete_frames
from kafkalite.lab.spark.follow.growing_ranges import (
    RangeOfFile,
    decode_range,
    freeze,
    new_rows,
    restarted,
    thaw,
)
from kafkalite.lab.spark.follow.pending_frames import PendingFrames
from kafkalite.lab.spark.follow.periods import FOLDER as PERIODS
from kafkalite.lab.spark.inputs import WorkerFiles
from kafkalite.lab.spark.locations import InputFile, LocationError, location
from kafkalite.lab.spark.output_journal import LOCK, locked
from kafkalite.lab.spark.progress import SilentReporter, size_text
from kafkalite.lab.spark.requests import Requests
from kafkalite.lab.spark.sources.capture import NAME
from kafkalite.lab.spark.sources.folder_stream import FileRange
from kafkalite.lab.spark.stages.decoding import CONNECTIONS as CONNECTION_TABLE
from kafkalite.lab.spark.stages.decoding import PROBLEMS, Task, TaskDecoder, TaskReport
from kafkalite.lab.spark.stages.stitching import SCHEMAS, connection_id_rows
from kafkalite.lab.spark.tuning import DRIVER_BYTES, is_one_process, settings_for_size
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.texts import count_text
from kafkalite.ports.units import NANOSECONDS_PER_MICROSECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kafkalite.lab.columnar.exchanges.stitching import Pending, Stitched
    from kafkalite.lab.columnar.growing_files import GrowingFile
    from kafkalite.lab.columnar.options import Options
    from kafkalite.lab.columnar.reading import TableBatch
    from kafkalite.lab.spark.follow.periods import PeriodAudits
    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.manifest import InputSplit
    from kafkalite.lab.spark.progress import ProgressReporter

    Derive = Callable[[Requests, str], DataFrame]
    OnBatch = Callable[[Requests, int, Mapping[int, int], bool], None]
    """Receives the requests, the batch's number, the time in microseconds of each API's oldest
    request without a response, and whether this is the last batch."""

FILES_PER_BATCH: Final = 16
RESPONSE_TIMEOUT_NS: Final = 600_000_000_000
"""Time after which a request without a response is unanswered; a rebalance may take minutes."""
CONNECTION_TIMEOUT_NS: Final = 3_600_000_000_000
"""Time without packets after which a connection is a new one: brokers close idle connections."""

_SPLIT_BYTES: Final = 128 << 20
_FINDINGS: Final = (
    PROBLEMS,
    PERIODS,
    "classified_commits",
    "commit_counts",
    "ghosts",
    "transaction_ends",
    "judged_commits",
)
"""Folders of findings; the last one is the name of `classified_commits` in earlier versions."""
_INTERNAL: Final = "_kafkalite"
_CHECKPOINT: Final = "_kafkalite/checkpoint"
_BATCH: Final = "batch-"
"""Start of the names of folders, in the internal folder, with the tables of a batch."""
_DESCRIPTION: Final = "_kafkalite/followed.json"
_STATE_VERSION: Final = 5
"""Version of the stored state and findings; if they have another one, all input is read again."""
_OTHER_VERSION: Final = "version of kafkalite"
_OPTIONS: Final = {
    "layout": _OTHER_VERSION,
    "inputs": "INPUT",
    "api_keys": "--api",
    "from_ns": "--from",
    "until_ns": "--until",
    "clients": "--client",
    "period_us": "--period",
}
"""Field of the description of a stream → the option that sets it."""
_TRIGGER_INTERVAL: Final = "1 second"
_POLL_INTERVAL_S: Final = 1
_STOP_INTERVAL_S: Final = 0.2
"""Time between attempts to interrupt the queries of a batch, which begins others meanwhile."""


class StoppedError(Exception):
    """The stream was stopped in the middle of a batch, which the next run repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedCapture:
    """A growing capture, and the location of the stream's state."""

    inputs: Sequence[str]
    """Files, folders and patterns, by path or URL."""
    out: Location
    options: Options = DEFAULT_OPTIONS
    derive: Derive | None = None
    """Computes a state table, which is requested by name."""
    reporter: ProgressReporter = field(default_factory=SilentReporter)
    periods: PeriodAudits | None = None
    """Runs all audits, by periods."""


def follow(
    spark: SparkSession,
    capture: FollowedCapture,
    on_batch: OnBatch,
    *,
    available_now: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Pass the requests of a growing capture to `on_batch` until `should_stop` returns true.

    It stops between two steps of a batch, or lets the queries of the batch fail. The next call
    continues from the state in `out`; an interrupted batch is repeated with the same number.

    With `available_now`, it ends after the data that is available now. Then requests still without
    a response are passed to `on_batch` in a last batch.

    Raises LocationError if Spark cannot write to `out`, another run uses it, it has the state of
    another stream, or a file has become shorter.
    """
    out = capture.out
    with locked(out):
        _store_description(capture)
        _delete_interrupted_batches(out)
        register(spark)
        check_table_access(spark, out)

        def check() -> None:
            if should_stop():
                raise StoppedError

        batch_decoder = BatchDecoder(spark, capture, on_batch, check)
        failures: list[Exception] = []

        def decode(rows: DataFrame, number: int) -> None:
            try:
                if ranges := _file_ranges(rows):
                    batch_decoder.decode(rows.sparkSession, ranges, number)
            except Exception as error:
                failures.append(error)
                raise

        query = _start(spark, capture, decode, available_now=available_now)
        try:
            with _original_error(failures):
                _wait(query, batch_decoder, should_stop)
            if available_now:
                batch_decoder.finish()
        except Exception:
            if not should_stop():
                raise


def _start(
    spark: SparkSession,
    capture: FollowedCapture,
    decode: Callable[[DataFrame, int], None],
    *,
    available_now: bool,
) -> StreamingQuery:
    """Start a stream of ranges of files."""
    reader = spark.readStream.format(NAME).options(
        table="files",
        open="read",
        paths=json.dumps(list(capture.inputs)),
        maxFilesPerTrigger=str(FILES_PER_BATCH),
    )
    writer = reader.load().writeStream.foreachBatch(decode)
    writer = writer.option("checkpointLocation", (capture.out / _CHECKPOINT).url)
    if available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=_TRIGGER_INTERVAL).start()


def _wait(
    query: StreamingQuery, batch_decoder: BatchDecoder, should_stop: Callable[[], bool]
) -> None:
    """Wait for the end of the stream; raises LocationError if a file has become shorter.

    While there is no new data, it audits periods that changed.
    """
    with ThreadPoolExecutor(1) as pool:
        audits: Future[None] | None = None
        while not query.awaitTermination(_POLL_INTERVAL_S):
            if should_stop():
                _stop(query, batch_decoder, audits)
                return
            if query.status["isTriggerActive"] or not _is_done(audits):
                continue
            if truncation_error := batch_decoder.truncation_error():
                query.stop()
                raise LocationError(truncation_error)
            if audits is not None:
                audits.result()
            audits = pool.submit(batch_decoder.audit_between_batches)


def _stop(query: StreamingQuery, batch_decoder: BatchDecoder, audits: Future[None] | None) -> None:
    """End a stream, and the audits that run between its batches."""
    # If a query is stopped within a batch, the batch continues.
    while query.isActive and query.status["isTriggerActive"]:
        batch_decoder.interrupt()
        with suppress(StreamingQueryException):
            query.awaitTermination(_STOP_INTERVAL_S)  # type: ignore[arg-type]  # allows fractions
    while not _is_done(audits):
        batch_decoder.interrupt()
        wait(filter(None, [audits]), _STOP_INTERVAL_S)
    query.stop()


def _is_done(audits: Future[None] | None) -> bool:
    return audits is None or audits.done()


def _delete_interrupted_batches(out: Location) -> None:
    """Delete the tables of batches that other runs did not finish."""
    for name in (out / _INTERNAL).folders():
        if name.startswith(_BATCH):
            (out / _INTERNAL / name).delete()


@contextmanager
def _original_error(failures: Sequence[Exception]) -> Iterator[None]:
    """Raise a batch's original error instead of Spark's error from Java."""
    try:
        yield
    except StreamingQueryException:
        if not failures:
            raise
        raise failures[-1] from None


def _store_description(capture: FollowedCapture) -> None:
    """Store the stream's inputs and options; raises LocationError if `out` has others.

    If only the version of the state differs, the output is deleted, so all input is read again.
    """
    options = capture.options
    description = {
        "layout": _STATE_VERSION,
        "inputs": sorted(location(url).url for url in capture.inputs),
        "api_keys": sorted(options.api_keys or ()),
        "from_ns": options.from_ns,
        "until_ns": options.until_ns,
        "clients": options.clients,
        "period_us": None if capture.periods is None else capture.periods.period_us,
    }
    file = capture.out / _DESCRIPTION
    try:
        stored = json.loads(file.read_text() or "null")
    except ValueError as error:
        raise LocationError(f"{file.url}: invalid description of the stream: {error}") from error
    stored_values = stored if isinstance(stored, dict) else {}
    if stored is None and not (capture.out / _CHECKPOINT).exists():
        file.write_text(json.dumps(description))
    elif stored_values and _in_current_version(stored_values, description) == description != stored:
        capture.reporter.step("the state is from another version: all input is read again")
        _delete_output(capture.out)
        file.write_text(json.dumps(description))
    elif stored != description:
        option = next(
            (
                option
                for name, option in _OPTIONS.items()
                if stored_values.get(name) != description[name]
            ),
            _OTHER_VERSION,
        )
        raise LocationError(
            f"{capture.out.url}: was written with another {option}; repeat that one, or choose"
            " another --out"
        )


def _in_current_version(
    stored: Mapping[str, object], description: Mapping[str, object]
) -> dict[str, object]:
    """Return a stored description with the fields that earlier versions did not have."""
    return {"period_us": description["period_us"], **stored, "layout": _STATE_VERSION}


def _delete_output(out: Location) -> None:
    """Delete state and findings; the description stays, so that a repeated call deletes the rest.

    The lock stays too, because this run holds it.
    """
    for name in list((out / _INTERNAL).walk()):
        if f"{_INTERNAL}/{name}" not in {_DESCRIPTION, LOCK}:
            (out / _INTERNAL / name).delete()
    for name in _FINDINGS:
        (out / name).delete()


def _file_ranges(rows: DataFrame) -> list[FileRange]:
    return [
        FileRange(row.file, row.start, None if row.is_whole else row.size, row.size - row.start)
        for row in rows.orderBy("file").collect()
    ]


@dataclass(slots=True)
class BatchDecoder:
    """Decodes the ranges of files of each batch, and passes their requests to `on_batch`."""

    spark: SparkSession
    capture: FollowedCapture
    on_batch: OnBatch
    check: Callable[[], None] = lambda: None
    """Called between steps; an error that it raises interrupts the batch."""
    growing: dict[str, GrowingFile] = field(default_factory=dict)
    """Files that may grow, with the decoder's state at the end of the last batch."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held by a batch, and by audits between batches."""

    def decode(self, session: SparkSession, ranges: Sequence[FileRange], number: int) -> None:
        """Decode ranges of files and pass their requests to `on_batch`, in the stream's session."""
        with self._lock:
            self._decode(session, ranges, number)

    def _decode(self, session: SparkSession, ranges: Sequence[FileRange], number: int) -> None:
        self.check()
        staged = self._new_folder(number)
        task = Task(staged=staged, name=f"{number:06}", options=self.capture.options)
        size = sum(range_.size for range_ in ranges)
        # Both sessions run queries: `self.spark` reads the stored state.
        with settings_for_size(session, size), settings_for_size(self.spark, size):
            incomplete = _IncompleteFrames()
            remaining = self._decode_with_spark(session, ranges, task, incomplete)
            decoder = TaskDecoder(task, "grown", 0)
            with decoder.tables:
                for range_ in remaining:
                    self.check()
                    incomplete.add_batches(
                        decoder.write_decoded(range_.url, self._new_rows(range_))
                    )
                pending = self._stitch(decoder, incomplete, number)
            self._deliver(session, staged, number, self._oldest_pending_us(pending), is_last=False)
        self.capture.reporter.step(
            f"batch {number:,}: {size_text(size)} of {count_text(len(ranges), 'file')}"
        )
        self._audit_periods(staged, number, size, is_last=False)

    def _decode_with_spark(
        self,
        session: SparkSession,
        ranges: Sequence[FileRange],
        task: Task,
        incomplete: _IncompleteFrames,
    ) -> list[FileRange]:
        """Decode complete files, and growing ones if they are many; return the other ranges."""
        complete_files = [
            InputFile(url=range_.url, size=range_.size, modified_ns=0)
            for range_ in ranges
            if range_.stop is None and not range_.start
        ]
        growing = [range_ for range_ in ranges if range_.start or range_.stop is not None]
        results: list[InputSplit | TaskReport] = []
        if complete_files:
            results += WorkerFiles(session, self.capture.inputs).decode(
                complete_files, task, _SPLIT_BYTES, self.capture.reporter
            )
        if self._are_many(growing):
            results += self._decode_in_tasks(growing, task)
            growing = []
        names = [name for result in results for name in result.incomplete]
        incomplete.add_tables(read_incomplete_frames([task.staged / name for name in names]))
        written = {name for result in results for name in result.outputs}
        # The files of task attempts that failed.
        task.staged.delete_below([name for name in task.staged.walk() if name not in written])
        return growing

    def _are_many(self, ranges: Sequence[FileRange]) -> bool:
        """Whether tasks decode ranges of growing files, instead of this process."""
        size = sum(range_.size for range_ in ranges)
        return size > DRIVER_BYTES and (len(ranges) > 1 or not is_one_process(self.spark))

    def _decode_in_tasks(self, ranges: Sequence[FileRange], task: Task) -> list[TaskReport]:
        """Decode ranges of growing files, one task per file."""
        work = [
            RangeOfFile(number, range_, freeze(self._decoded_until(range_.url, range_.start)))
            for number, range_ in enumerate(ranges)
        ]
        context = self.spark.sparkContext
        decoded = (
            context.parallelize(work, len(work)).map(partial(decode_range, task=task)).collect()
        )
        for range_, result in zip(ranges, decoded, strict=True):
            if range_.stop is None:
                self.growing.pop(range_.url, None)
            else:
                self.growing[range_.url] = thaw(result.decoder)
        return [result.report for result in decoded]

    def _decoded_until(self, url: str, size: int) -> GrowingFile | None:
        """Return a file's decoder if it has read the first `size` bytes."""
        file = self.growing.get(url)
        return None if file is None or file.size != size else file

    def finish(self) -> None:
        """Pass the requests that are still without a response to `on_batch`."""
        number = max(self._pending_frames.numbers(), default=-1) + 1
        if not number:
            return
        staged = self._new_folder(number)
        incomplete = _IncompleteFrames()
        decoder = TaskDecoder(
            Task(staged=staged, name=f"{number:06}", options=self.capture.options), "ended", 0
        )
        with decoder.tables:
            for url, size in self._pending_frames.sizes_read(number - 1).items():
                incomplete.add_batches(
                    decoder.write_decoded(url, self._new_rows(FileRange(url, size)))
                )
            self._write(
                decoder, stitch(*incomplete.tables(), self._pending_frames.load(number - 1), None)
            )
        self._deliver(self.spark, staged, number, {}, is_last=True)
        self._audit_periods(staged, number, 0, is_last=True)

    def audit_between_batches(self) -> None:
        """Run the audits of periods that are due, unless a batch has begun."""
        if self.capture.periods is not None and self._lock.acquire(blocking=False):
            try:
                self.capture.periods.audit(check=self.check)
            finally:
                self._lock.release()

    def interrupt(self) -> None:
        """Let the queries that run now fail; called by another thread."""
        self.spark.sparkContext.cancelAllJobs()
        if self.capture.periods is not None:
            self.capture.periods.interrupt()

    def _new_folder(self, number: int) -> Location:
        """Return a folder for a batch; tasks of an interrupted run may still write to theirs."""
        name = f"{_BATCH}{number}.{SystemEntropy().uuid4_text()[:8]}"
        return self.capture.out / _INTERNAL / name

    def truncation_error(self) -> str:
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

    def _deliver(
        self,
        session: SparkSession,
        staged: Location,
        number: int,
        pending_us: Mapping[int, int],
        *,
        is_last: bool,
    ) -> None:
        self.check()
        self.on_batch(
            Requests.read(session, staged, self.capture.derive), number, pending_us, is_last
        )

    def _audit_periods(self, staged: Location, number: int, size: int, *, is_last: bool) -> None:
        """Run the audits of periods that are due, and delete the tables of the batch."""
        self.check()
        if self.capture.periods is not None:
            self.capture.periods.add_batch(staged, number, size)
            self.capture.periods.audit(is_last=is_last, check=self.check)
        for name in (staged / PROBLEMS).walk():
            (staged / PROBLEMS / name).move_to(self.capture.out / PROBLEMS / name)
        staged.delete()

    def _new_rows(self, range_: FileRange) -> Iterator[TableBatch]:
        """Yield the rows that a range adds to those of the file's earlier ranges."""
        file = self._decoded_until(range_.url, range_.start)
        if file is None:
            file = restarted(range_, self.capture.options)
        if range_.stop is None:
            self.growing.pop(range_.url, None)
        else:
            self.growing[range_.url] = file
        yield from new_rows(file, range_)

    def _stitch(self, decoder: TaskDecoder, incomplete: _IncompleteFrames, number: int) -> Pending:
        """Join incomplete data of this batch and earlier ones; return the data still incomplete."""
        earlier = self._pending_frames.load(number - 1)
        last_ns = max((*incomplete.last_seen_ns(), *_last_ns(earlier.connections)), default=0)
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
        for batch in connection_id_rows(stitched.renamed):
            decoder.tables.write(CONNECTION_TABLE, batch)

    @property
    def _pending_frames(self) -> PendingFrames:
        return PendingFrames(self.capture.out)

    def _oldest_pending_us(self, pending: Pending) -> dict[int, int]:
        """Return, by API, the time of the oldest request without a response."""
        oldest_us: dict[int, int] = {}
        for file in self.growing.values():
            for key, at_ns in file.first_open_request_ns().items():
                at_us = at_ns // NANOSECONDS_PER_MICROSECOND
                oldest_us[key] = min(oldest_us.get(key, at_us), at_us)
        requests = zip(
            pending.requests["payload"].to_pylist(),
            pending.requests["ts"].cast(pa.int64()).to_pylist(),
            strict=True,
        )
        for payload, at_us in requests:
            key = int.from_bytes(payload[:2])
            oldest_us[key] = min(oldest_us.get(key, at_us), at_us)
        return oldest_us


class _IncompleteFrames:
    """Incomplete frames and requests of a batch."""

    def __init__(self) -> None:
        self._parts: dict[Table, list[pa.Table]] = {
            table: [schema.empty_table()] for table, schema in SCHEMAS.items()
        }

    def add_batches(self, parts: Iterable[TableBatch]) -> None:
        """Add batches of tables, read from a file."""
        for table, batch in parts:
            self._parts[table].append(pa.Table.from_batches([batch], SCHEMAS[table]))

    def add_tables(self, incomplete: Mapping[Table, pa.Table]) -> None:
        """Add whole tables."""
        for table, rows in incomplete.items():
            self._parts[table].append(rows)

    def tables(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Return connections, fragments, and unpaired frames."""
        connections, fragments, unpaired = map(pa.concat_tables, self._parts.values())
        return connections, fragments, unpaired

    def last_seen_ns(self) -> list[int]:
        """Return the times at which connections were last seen."""
        return _last_ns(self.tables()[0])


def _last_ns(connections: pa.Table) -> list[int]:
    return [int(last_ns) for last_ns in connections["last_ns"].to_pylist()]
