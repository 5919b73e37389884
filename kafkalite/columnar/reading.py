"""A capture file → batches of its tables, in bounded memory and without Spark.

What a file says is the same as what `capture.reading` says of it, by test. What it cannot say
alone, because a connection goes on in another file, is left to `stitching`.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.capture.problems import Problems
from kafkalite.columnar.chunks import Chunk, ChunkFrames
from kafkalite.columnar.clock import ClockWatch
from kafkalite.columnar.connections import Connections, Seen, table_of
from kafkalite.columnar.exchanging import Exchanging
from kafkalite.columnar.files import Chunks
from kafkalite.columnar.following import Following
from kafkalite.columnar.found import Buffer, Found
from kafkalite.columnar.options import EVERYTHING, Options, Table
from kafkalite.columnar.packets import SegmentReader, flows
from kafkalite.columnar.parts import scanner_of
from kafkalite.columnar.remnants import batches, tails
from kafkalite.columnar.tables import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.columnar.arrays import Bytes
    from kafkalite.columnar.files import Source
    from kafkalite.columnar.packets import Segments
    from kafkalite.columnar.parts import FilePart, Scanner

NOTHING = np.empty(0, np.uint8)

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
    return _Reading(told, options, part).of(source)


class _Reading:
    """One file that is being read."""

    def __init__(self, name: str, options: Options, part: FilePart | None) -> None:
        self._part = part
        self._name = name
        self._options = options
        self._problems = Problems()
        start = 0 if part is None else part.start
        self._is_later = start > 0
        self._connections = Connections(f"{name} from {start}" if start else name)
        self._exchanging = Exchanging(name, options, self._connections.lines, self.report)
        self._following = Following(name, self._connections, self.report, self._exchanging.asked)

    def tell(self, kind: ProblemKind, offset: int | None, detail: str, count: int = 1) -> None:
        """Take a problem of the file."""
        self._problems(
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
        if not (self._is_later and problem.kind is ProblemKind.MID_CONNECTION):
            self._problems(problem)

    def of(self, source: Source) -> Iterator[Part]:
        """Yield the batches of the file."""
        part = self._part
        limits = None if part is None else (part.start, part.stop)
        chunks = Chunks(source, self._options.chunk_bytes, self.tell, limits)
        scanner: Scanner | None = None
        clock = ClockWatch(self.tell, 0 if part is None else part.rest.last_ns)
        for data, offset, is_last in chunks:
            if scanner is None:
                scanner = self._scanner(data)
                if scanner is None:
                    break
                segment_reader = SegmentReader(self.tell, scanner.interfaces)
            packets, used = scanner.scan(data, offset, is_last=is_last)
            chunks.used(used)
            clock.watch(packets, offset)
            segments, silent = segment_reader.read(data, offset, packets)
            seen = Seen(data, packets, segments, scanner.interfaces)
            buffer = Buffer(data)
            found = self._frames(seen, silent, offset, buffer)
            yield from self._exchanging.take(found, buffer)
        buffer = Buffer(NOTHING)
        yield from self._exchanging.take(self._following.finish(buffer), buffer)
        yield from self._exchanging.finish()
        yield from self._remains()
        yield from self._told()

    def _remains(self) -> Iterator[Part]:
        """Yield what is to be put together with other files."""
        lines, options = self._connections.lines, self._options
        if Table.FRAGMENTS in options.tables:
            fragments = [*self._following.fragments(), *tails(lines)]
            for each in batches(self._name, lines, fragments, options):
                yield Table.FRAGMENTS, each
        if Table.CONNECTIONS in options.tables and lines:
            yield Table.CONNECTIONS, table_of(self._name, lines)

    def _scanner(self, data: Bytes) -> Scanner | None:
        """Return what reads the file; None, and a problem, where nothing does."""
        part = self._part
        magic = data[:4].tobytes() if part is None else part.magic
        scanner = scanner_of(magic, self.tell)
        if scanner is None:
            what = f"neither pcap nor pcapng: begins with {magic.hex()}"
            self.tell(ProblemKind.NOT_A_CAPTURE, 0, what if magic else "an empty file")
        elif part is not None:
            scanner.go_on(part.rest)
        return scanner

    def _frames(self, seen: Seen, silent: Segments, offset: int, buffer: Buffer) -> Found:
        """Return the frames of a chunk, whichever way their connections are followed."""
        codes, firsts = flows(seen.data, seen.segments)
        groups = self._connections.groups(seen, firsts)[codes]
        chunk = Chunk(seen.data, offset, seen.packets, seen.segments, self._connections.lines)
        frames = ChunkFrames(chunk, groups)
        found = frames.find(buffer)
        more = self._following.take(
            seen, silent, groups, offset=offset, odd=frames.odd, buffer=buffer
        )
        return Found.joined([found, more])

    def _told(self) -> Iterator[Part]:
        rows = [astuple(each) for each in self._problems]
        if Table.PROBLEMS in self._options.tables and rows:
            columns: Any = zip(*rows, strict=True)
            arrays = [
                pa.array(list(values), each.type)
                for values, each in zip(columns, PROBLEMS, strict=True)
            ]
            yield Table.PROBLEMS, pa.RecordBatch.from_arrays(arrays, schema=PROBLEMS)
