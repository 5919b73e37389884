"""A capture that grows, followed: what is new of it as a stream, decoded and handed on in batches.

A batch takes files that came to be, and of one that is still written what was added: offsets are
Spark's, in its checkpoint. What may go on in a later batch is left over in a folder a batch beside
it; one that is done again begins with what the batch before it left over. What is known in the
midst of a growing file stays in memory, and is found again by reading that file from its beginning.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import StreamingQueryException

from kafkalite.columnar.growing import GrowingFile
from kafkalite.columnar.options import EVERYTHING, Table
from kafkalite.columnar.stitching import Waiting, stitch
from kafkalite.spark import register
from kafkalite.spark.inputs import ByName
from kafkalite.spark.journal import alone
from kafkalite.spark.leftover import Leftover
from kafkalite.spark.places import InputFile, PlaceError, place
from kafkalite.spark.reach import reach_tables
from kafkalite.spark.requests import Requests
from kafkalite.spark.sizing import sized
from kafkalite.spark.sources.capture import NAME
from kafkalite.spark.sources.growing import Stretch
from kafkalite.spark.stages.decoding import CONNECTIONS as NUMBERS
from kafkalite.spark.stages.decoding import PROBLEMS, Lot, Task
from kafkalite.spark.stages.stitching import SCHEMAS, names
from kafkalite.spark.stitch import read_loose
from kafkalite.spark.telling import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kafkalite.columnar.options import Options
    from kafkalite.columnar.reading import Part
    from kafkalite.columnar.stitching import Left, Stitched
    from kafkalite.spark.places import Place
    from kafkalite.spark.telling import Teller

    Derive = Callable[[Requests, str], DataFrame]
    Each = Callable[[Requests, int, Mapping[int, int], bool], None]
    """Takes requests, the batch's number, since when requests of each API wait for their answers
    (microseconds), and whether nothing more will come."""

FILES_A_BATCH: Final = 16
GIVE_UP_NS: Final = 600_000_000_000
"""A request without an answer for so long counts as never answered; rebalances take minutes."""
FORGET_NS: Final = 3_600_000_000_000
"""A connection that was silent for so long is another when it goes on: brokers close idle ones."""

_LOT_BYTES: Final = 128 << 20
_CHECKPOINT: Final = "_kafkalite/checkpoint"
_BATCH: Final = "_kafkalite/batch"
_SUBJECT: Final = "_kafkalite/followed.json"
_LAYOUT: Final = 2
"""Of what is kept; what another layout kept cannot be gone on from."""
_LOOKS_EVERY: Final = "1 second"
_ASKS_EVERY_S: Final = 1
_NS_PER_US: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is followed, and where what is known of it is kept."""

    inputs: Sequence[str]
    """Files, folders and patterns, by path or URL."""
    out: Place
    options: Options = EVERYTHING
    derive: Derive | None = None
    """Makes the states that are asked for of the requests of a batch."""
    tell: Teller = field(default_factory=Silent)


def follow(
    spark: SparkSession,
    subject: Subject,
    each: Each,
    *,
    available_now: bool = False,
    told_to_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Hand on the requests of a capture as it grows, until it is told to stop.

    With `available_now` it ends when what is there is done. In the end it hands on what still
    waits, as if nothing more would come. Where it was, it goes on from, by what it keeps in `out`;
    the batch that it was ended in comes again, with its number.
    PlaceError where Spark cannot write to `out`, another one does, something else was followed, or
    a file that was read has become shorter.
    """
    out = subject.out
    with alone(out):
        _own(subject)
        register(spark)
        reach_tables(spark, out)
        decoding = Decoding(spark, subject, each)
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
            maxFilesPerTrigger=str(FILES_A_BATCH),
        )
        writer = reader.load().writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", (out / _CHECKPOINT).url)
        if available_now:
            query = writer.trigger(availableNow=True).start()
        else:
            query = writer.trigger(processingTime=_LOOKS_EVERY).start()
        with _as_it_was(failures):
            _wait(query, decoding, told_to_stop)
        decoding.finish()


def _wait(query: StreamingQuery, decoding: Decoding, told_to_stop: Callable[[], bool]) -> None:
    """Wait until all is done or it is told to stop; PlaceError where a file has become shorter."""
    while not query.awaitTermination(_ASKS_EVERY_S):
        # In the midst of a batch its jobs would fail one by one, each with its own report.
        if query.status["isTriggerActive"]:
            continue
        shrunk = decoding.shrunk()
        if shrunk or told_to_stop():
            query.stop()
        if shrunk:
            raise PlaceError(shrunk)


@contextmanager
def _as_it_was(failures: Sequence[Exception]) -> Iterator[None]:
    """Raise what a batch failed with, not what Spark makes of it on its way through Java."""
    try:
        yield
    except StreamingQueryException:
        if not failures:
            raise
        raise failures[-1] from None


def _own(subject: Subject) -> None:
    """Note what is followed into a place; PlaceError where that is something else."""
    options = subject.options
    asked = {
        "layout": _LAYOUT,
        "inputs": sorted(place(each).url for each in subject.inputs),
        "api_keys": sorted(options.api_keys or ()),
        "from_ns": options.from_ns,
        "until_ns": options.until_ns,
        "clients": options.clients,
    }
    told = subject.out / _SUBJECT
    try:
        known = json.loads(told.read_text() or "null")
    except ValueError as error:
        raise PlaceError(f"{told.url}: does not tell what is followed: {error}") from error
    if known is None and not (subject.out / _CHECKPOINT).exists():
        told.write_text(json.dumps(asked))
    elif known != asked:
        other = known if isinstance(known, dict) else {}
        differs = next((name for name in asked if other.get(name) != asked[name]), "layout")
        raise PlaceError(
            f"{subject.out.url}: what is there was followed with other {differs}"
            f" ({other.get(differs)}); have another --out, or delete it"
        )


def _pieces(rows: DataFrame) -> list[Stretch]:
    return [
        Stretch(row.file, row.start, None if row.is_whole else row.size, row.size - row.start)
        for row in rows.orderBy("file").collect()
    ]


@dataclass(slots=True)
class Decoding:
    """What becomes of the pieces of each batch."""

    spark: SparkSession
    subject: Subject
    each: Each
    growing: dict[str, GrowingFile] = field(default_factory=dict)
    """Files that may grow, read as far as the last batch went."""

    def take(self, session: SparkSession, pieces: Sequence[Stretch], number: int) -> None:
        """Decode them, and hand on their requests; `session` is the stream's own."""
        staged = self.subject.out / f"{_BATCH}-{number}"
        staged.delete()
        task = Task(staged=staged, name=f"{number:06}", options=self.subject.options)
        size = sum(piece.size for piece in pieces)
        # What is kept between batches is read by the session that the stream was started from.
        with sized(session, size), sized(self.spark, size):
            whole = [
                InputFile(url=each.url, size=each.size, modified_ns=0)
                for each in pieces
                if each.stop is None and not each.start
            ]
            ends = _Ends()
            if whole:
                lots = ByName(session, self.subject.inputs).decode(
                    whole, task, _LOT_BYTES, self.subject.tell
                )
                ends.add_all(read_loose([staged / name for lot in lots for name in lot.loose]))
            lot = Lot(task, "grown", 0)
            with lot.tables:
                for piece in pieces:
                    if piece.start or piece.stop is not None:
                        ends.take(lot.take(piece.url, self._grown(piece)))
                left = self._stitch(lot, ends, number)
            self._hand_on(session, staged, number, self._pending(left), is_last=False)
        self.subject.tell.step(f"batch {number:,}: {size:,} bytes of {len(pieces):,} files")

    def finish(self) -> None:
        """Hand on what waits for what will not come."""
        number = max(self._leftover.numbers(), default=-1) + 1
        if not number:
            return
        staged = self.subject.out / f"{_BATCH}-{number}"
        staged.delete()
        ends = _Ends()
        lot = Lot(
            Task(staged=staged, name=f"{number:06}", options=self.subject.options), "ended", 0
        )
        with lot.tables:
            for url, size in self._leftover.grown(number - 1).items():
                ends.take(lot.take(url, self._grown(Stretch(url, size))))
            self._write(lot, stitch(*ends.tables(), self._leftover.of(number - 1), None))
        self._hand_on(self.spark, staged, number, {}, is_last=True)

    def shrunk(self) -> str:
        """Say which file has less than was read of it: it is another, or was cut. Empty if none."""
        for url, file in self.growing.items():
            where = place(url)
            size = where.files.get_file_info(where.path).size
            if size is not None and size < file.position:
                return (
                    f"{url}: has {size:,} bytes, but {file.position:,} were read:"
                    " what is followed must only grow"
                )
        return ""

    def _hand_on(
        self,
        session: SparkSession,
        staged: Place,
        number: int,
        pending_us: Mapping[int, int],
        *,
        is_last: bool,
    ) -> None:
        self.each(Requests.read(session, staged, self.subject.derive), number, pending_us, is_last)
        for name in (staged / PROBLEMS).walk():
            (staged / PROBLEMS / name).move_to(self.subject.out / PROBLEMS / name)
        staged.delete()

    def _grown(self, piece: Stretch) -> Iterator[Part]:
        """Yield what a piece adds to what its file says."""
        url, stop = piece.url, piece.stop
        file = self._reached(url, piece.start)
        if stop is None:
            del self.growing[url]
            yield from _read(url, file.finish)
        else:
            yield from _read(url, lambda source: file.read(source, stop))

    def _reached(self, url: str, size: int) -> GrowingFile:
        """Return a file as it was when it had grown so far."""
        file = self.growing.get(url)
        if file is None or file.size != size:
            file = again = self.growing[url] = GrowingFile(url, self.subject.options)
            if size:
                for _ in _read(url, lambda source: again.read(source, size)):
                    pass  # this was handed on before
        return file

    def _stitch(self, lot: Lot, ends: _Ends, number: int) -> Left:
        """Put together what this batch and those before it left over; returns what still is."""
        before = self._leftover.of(number - 1)
        last_ns = max((*ends.seen_ns(), *_last_ns(before.connections)), default=0)
        waiting = Waiting(
            give_up_ns=last_ns - GIVE_UP_NS,
            forget_ns=last_ns - FORGET_NS,
            growing=frozenset(self.growing),
        )
        found = stitch(*ends.tables(), before, waiting)
        self._write(lot, found)
        sizes = {url: file.size for url, file in self.growing.items()}
        self._leftover.keep(number, found.left, sizes)
        return found.left

    def _write(self, lot: Lot, found: Stitched) -> None:
        for batch in found.pairs.to_batches():
            lot.pairs(batch)
        for batch in found.problems.to_batches():
            lot.problems(batch)
        for batch in names(found.renamed):
            lot.tables.write(NUMBERS, batch)

    @property
    def _leftover(self) -> Leftover:
        return Leftover(self.subject.out)

    def _pending(self, left: Left) -> dict[int, int]:
        """Return since when requests of each API wait for their answers."""
        since: dict[int, int] = {}
        for file in self.growing.values():
            for key, at_ns in file.open_since().items():
                at_us = at_ns // _NS_PER_US
                since[key] = min(since.get(key, at_us), at_us)
        asked = zip(
            left.requests["payload"].to_pylist(),
            left.requests["ts"].cast(pa.int64()).to_pylist(),
            strict=True,
        )
        for payload, at_us in asked:
            key = int.from_bytes(payload[:2])
            since[key] = min(since.get(key, at_us), at_us)
        return since


class _Ends:
    """Loose ends of a batch."""

    def __init__(self) -> None:
        self._parts: dict[Table, list[pa.Table]] = {
            table: [schema.empty_table()] for table, schema in SCHEMAS.items()
        }

    def take(self, parts: Iterable[Part]) -> None:
        """Take them from what a file says."""
        for table, batch in parts:
            self._parts[table].append(pa.Table.from_batches([batch], SCHEMAS[table]))

    def add_all(self, ends: Mapping[Table, pa.Table]) -> None:
        """Take them from tables."""
        for table, rows in ends.items():
            self._parts[table].append(rows)

    def tables(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Return connections, fragments, and frames without their other halves."""
        connections, fragments, unpaired = map(pa.concat_tables, self._parts.values())
        return connections, fragments, unpaired

    def seen_ns(self) -> list[int]:
        """Return when connections were last heard of."""
        return _last_ns(self.tables()[0])


def _last_ns(connections: pa.Table) -> list[int]:
    return [int(each) for each in connections["last_ns"].to_pylist()]


def _read(url: str, read: Callable[[pa.NativeFile], Iterator[Part]]) -> Iterator[Part]:
    where = place(url)
    with where.files.open_input_file(where.path) as source:
        yield from read(source)
