"""A capture file → batches of its tables, in bounded memory and without Spark.

What a file says is the same as what `capture.reading` says of it, by test. What it cannot say
alone, because a connection goes on in another file, is left to `stitching`.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.capture.problems import Problems
from kafkalite.columnar.arrays import view
from kafkalite.columnar.chunks import Chunk, ChunkFrames, Rooms
from kafkalite.columnar.clock import ClockWatch
from kafkalite.columnar.connections import Connections, Seen, table_of
from kafkalite.columnar.exchanging import Exchanging
from kafkalite.columnar.files import Chunks
from kafkalite.columnar.following import Following
from kafkalite.columnar.found import Buffer, Found
from kafkalite.columnar.options import EVERYTHING, Options, Table
from kafkalite.columnar.packets import SegmentReader
from kafkalite.columnar.parts import scanner_of
from kafkalite.columnar.remnants import batches, tails
from kafkalite.columnar.tables import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.columnar.arrays import Bytes
    from kafkalite.columnar.files import Source
    from kafkalite.columnar.packets import Segments
    from kafkalite.columnar.parts import FilePart, Scanner

NOTHING = view(b"")

Part = tuple[Table, pa.RecordBatch]


def read_file(
    source: Source, name: str, options: Options = EVERYTHING, part: FilePart | None = None
) -> Iterator[Part]:
    """Yield batches of a capture's tables: of pairs as they are found, the others as they fill.

    `source` is the file's bytes or an open binary file, pcapng or pcap, gzipped or not. Of a huge
    one a part may be read alone, as `parts_of` gives them: then the file has to know how to seek.
    """
    # A file's name may be no text, but what is told of it is.
    told = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return Reading(told, options, part).of(source)


class Telling:
    """Takes what is wrong with one file and with its connections.

    It knows nothing of the reading: what that holds is to go when the last one lets go of it.
    """

    __slots__ = ("_is_later", "_name", "doubtful", "problems")

    def __init__(self, name: str, *, is_later: bool) -> None:
        self._name, self._is_later = name, is_later
        self.problems = Problems()
        self.doubtful: list[Problem] = []
        """Connections that are none of Kafka's, unless what stands before them says otherwise."""

    def tell(self, kind: ProblemKind, offset: int | None, detail: str, count: int = 1) -> None:
        """Take a problem of the file."""
        self.problems(
            Problem(
                kind=kind,
                file=self._name,
                offset=offset,
                connection=None,
                detail=detail,
                count=count,
            )
        )

    def report(self, problem: Problem) -> None:
        """Take a problem of one of its connections."""
        # In a later part of a file most connections are within: that is nothing to be told.
        if self._is_later and problem.kind is ProblemKind.NOT_KAFKA:
            self.doubtful.append(problem)
        elif not (self._is_later and problem.kind is ProblemKind.MID_CONNECTION):
            self.problems(problem)


class Reading:
    """One file that is being read: at once, or further and further while it grows."""

    def __init__(self, name: str, options: Options, part: FilePart | None = None) -> None:
        self._part = part
        self._name = name
        self._options = options
        self._rooms = Rooms()
        start = 0 if part is None else part.start
        self.position = start
        """How far the file has been read."""
        self.telling = Telling(name, is_later=start > 0)
        self.connections = Connections(
            f"{name} from {start}" if start else name, are_within=start > 0
        )
        self.exchanging = Exchanging(name, options, self.connections.lines, self.telling.report)
        self.following = Following(
            name, self.connections, self.telling.report, self.exchanging.asked
        )
        self.scanner: Scanner | None = None
        """None as long as nothing was read, and where the file is no capture."""
        self._segment_reader: SegmentReader | None = None
        self._clock = ClockWatch(self.telling.tell, 0 if part is None else part.rest.last_ns)

    def of(self, source: Source) -> Iterator[Part]:
        """Yield the batches of the file."""
        part = self._part
        limits = None if part is None else (part.start, part.stop)
        chunks = Chunks(source, self._options.chunk_bytes, self.telling.tell, limits)
        yield from self.more(chunks, is_last=True)
        yield from self.finish()

    def more(self, chunks: Chunks, *, is_last: bool) -> Iterator[Part]:
        """Yield what some more of the file makes known, and no problems of it yet.

        Unless it `is_last`, a block that it ends within is left for the next time.
        """
        for data, offset, is_end, room in chunks:
            if self.scanner is None:
                self.scanner = self._scanner(data)
                if self.scanner is None:
                    break
                self._segment_reader = SegmentReader(self.telling.tell, self.scanner.interfaces)
            packets, used = self.scanner.scan(data, offset, is_last=is_end and is_last)
            chunks.used(used)
            self.position = offset + used
            self._clock.watch(packets, offset)
            assert self._segment_reader is not None
            segments, silent = self._segment_reader.read(data, offset, packets)
            seen = Seen(data, packets, segments, self.scanner.interfaces)
            buffer = Buffer(data, room)
            found = self._frames(seen, silent, offset, buffer)
            yield from self.exchanging.take(found, buffer)

    def finish(self) -> Iterator[Part]:
        """Yield what is left at the end of the file."""
        buffer = Buffer(NOTHING)
        yield from self.exchanging.take(self.following.finish(buffer), buffer)
        yield from self.exchanging.finish()
        yield from self._remains()
        yield from self._told()

    def _remains(self) -> Iterator[Part]:
        """Yield what is to be put together with other files."""
        lines, options = self.connections.lines, self._options
        heads = [*self.following.fragments()]
        if Table.FRAGMENTS in options.tables:
            for each in batches(self._name, lines.told, [*heads, *tails(lines)], options):
                yield Table.FRAGMENTS, each
        kept = {head.line for head in heads}
        if Table.CONNECTIONS in options.tables and lines:
            yield Table.CONNECTIONS, table_of(self._name, lines, kept)
        names = {lines[number].names for number in kept}
        for problem in self.telling.doubtful:
            ends = tuple((problem.connection or "").split(" > "))
            if not names & {ends, ends[::-1]}:
                self.telling.problems(problem)

    def _scanner(self, data: Bytes) -> Scanner | None:
        """Return what reads the file; None, and a problem, where nothing does."""
        part = self._part
        magic = data[:4].tobytes() if part is None else part.magic
        scanner = scanner_of(magic, self.telling.tell)
        if scanner is None:
            what = f"neither pcap nor pcapng: begins with {magic.hex()}"
            self.telling.tell(ProblemKind.NOT_A_CAPTURE, 0, what if magic else "an empty file")
        elif part is not None:
            scanner.go_on(part.rest)
        return scanner

    def _frames(self, seen: Seen, silent: Segments, offset: int, buffer: Buffer) -> Found:
        """Return the frames of a chunk, whichever way their connections are followed."""
        groups = self.connections.groups(seen)
        lines = self.connections.lines
        chunk = Chunk(seen.data, offset, seen.packets, seen.segments, groups, lines)
        frames = ChunkFrames(chunk, self._rooms)
        found = frames.find(buffer)
        more = self.following.take(
            seen, silent, groups, offset=offset, odd=frames.odd, buffer=buffer
        )
        return Found.joined([found, more])

    def _told(self) -> Iterator[Part]:
        rows = [astuple(each) for each in self.telling.problems]
        if Table.PROBLEMS in self._options.tables and rows:
            columns: Any = zip(*rows, strict=True)
            arrays = [
                pa.array(list(values), each.type)
                for values, each in zip(columns, PROBLEMS, strict=True)
            ]
            yield Table.PROBLEMS, pa.RecordBatch.from_arrays(arrays, schema=PROBLEMS)
