"""Reading of a capture file into batches of its tables, in bounded memory and without Spark.

Tests check that the results equal those of `traffic.scalar.reading`. Connections that continue in
another file are combined by `stitching`.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkalite.traffic.columnar.arrays import view, where
from kafkalite.traffic.columnar.chunk_frames import Chunk, ChunkFrames, ChunkMemory
from kafkalite.traffic.columnar.chunked_files import Chunks
from kafkalite.traffic.columnar.connections import ChunkPackets, Connections, connection_table
from kafkalite.traffic.columnar.exchange_batches import ExchangeBatches
from kafkalite.traffic.columnar.file_parts import new_scanner
from kafkalite.traffic.columnar.frame_index import Buffer, FrameIndex
from kafkalite.traffic.columnar.irregular_segments import IrregularSegments
from kafkalite.traffic.columnar.options import DEFAULT_OPTIONS, Options, Table
from kafkalite.traffic.columnar.packets import SegmentReader
from kafkalite.traffic.columnar.partial_frames import batches, tails
from kafkalite.traffic.columnar.tables import PROBLEMS
from kafkalite.traffic.model import Problem, ProblemKind
from kafkalite.traffic.scalar.packets import MIN_CLOCK_JUMP_NS
from kafkalite.traffic.scalar.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.traffic.columnar.arrays import Bytes
    from kafkalite.traffic.columnar.chunked_files import Source
    from kafkalite.traffic.columnar.file_parts import FilePart, Scanner
    from kafkalite.traffic.columnar.packet_index import Packets
    from kafkalite.traffic.columnar.packets import Segments
    from kafkalite.traffic.columnar.pcapng import Report


NOTHING = view(b"")

Part = tuple[Table, pa.RecordBatch]


def read_file(
    source: Source, name: str, options: Options = DEFAULT_OPTIONS, part: FilePart | None = None
) -> Iterator[Part]:
    """Yield batches of a capture's tables: pairs as they are found, other tables as they fill.

    `source` is the file's bytes or an open binary file, pcapng or pcap, gzipped or not. `part` is
    one of the parts from `split_file`, for which the file must be seekable.
    """
    # A file name may be invalid UTF-8; in tables it is escaped.
    escaped = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return Reading(escaped, options, part).of(source)


class ProblemCollector:
    """Collects the problems of one file and of its connections.

    It does not refer to the `Reading`, because a reference cycle would delay freeing its memory.
    """

    __slots__ = ("_is_later", "_name", "doubtful", "problems")

    def __init__(self, name: str, *, is_later: bool) -> None:
        self._name, self._is_later = name, is_later
        self.problems = Problems()
        self.doubtful: list[Problem] = []
        """NOT_KAFKA problems of a later part; the earlier part may show that it is Kafka."""

    def report(self, kind: ProblemKind, offset: int | None, detail: str, count: int = 1) -> None:
        """Add a problem of the file."""
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

    def report_connection(self, problem: Problem) -> None:
        """Add a problem of a connection."""
        # In a later part of a file, most connections began earlier, which is not a problem.
        if self._is_later and problem.kind is ProblemKind.NOT_KAFKA:
            self.doubtful.append(problem)
        elif not (self._is_later and problem.kind is ProblemKind.MID_CONNECTION):
            self.problems(problem)


class Reading:
    """One file that is being read, at once or as it grows."""

    def __init__(self, name: str, options: Options, part: FilePart | None = None) -> None:
        self._part = part
        self._name = name
        self._options = options
        self._memory = ChunkMemory()
        start = 0 if part is None else part.start
        self.position = start
        """The position up to which the file was read."""
        self.problems = ProblemCollector(name, is_later=start > 0)
        self.connections = Connections(
            f"{name} from {start}" if start else name, is_later_part=start > 0
        )
        report = self.problems.report_connection
        self.exchange_batches = ExchangeBatches(name, options, self.connections.states, report)
        self.irregular = IrregularSegments(
            name, self.connections, report, self.exchange_batches.open_requests
        )
        self.scanner: Scanner | None = None
        """None before anything was read, and if the file is not a capture."""
        self._segment_reader: SegmentReader | None = None
        self._clock = ClockWatch(self.problems.report, 0 if part is None else part.state.last_ns)

    def of(self, source: Source) -> Iterator[Part]:
        """Yield all batches of the file."""
        part = self._part
        limits = None if part is None else (part.start, part.stop)
        chunks = Chunks(source, self._options.chunk_bytes, self.problems.report, limits)
        yield from self.more(chunks, is_last=True)
        yield from self.finish()

    def more(self, chunks: Chunks, *, is_last: bool) -> Iterator[Part]:
        """Yield the rows of more chunks, except problems.

        Unless `is_last`, an incomplete block at the end is left for the next call.
        """
        for data, offset, is_end, memory in chunks:
            if self.scanner is None:
                self.scanner = self._scanner(data)
                if self.scanner is None:
                    break
                self._segment_reader = SegmentReader(self.problems.report, self.scanner.interfaces)
            packets, used = self.scanner.scan(data, offset, is_last=is_end and is_last)
            chunks.used(used)
            self.position = offset + used
            self._clock.watch(packets, offset)
            assert self._segment_reader is not None
            segments, ack_only = self._segment_reader.read(data, offset, packets)
            chunk = ChunkPackets(data, packets, segments, self.scanner.interfaces)
            buffer = Buffer(data, memory)
            found = self._frames(chunk, ack_only, offset, buffer)
            yield from self.exchange_batches.take(found, buffer)

    def finish(self) -> Iterator[Part]:
        """Yield the remaining rows at the end of the file."""
        buffer = Buffer(NOTHING)
        yield from self.exchange_batches.take(self.irregular.finish(buffer), buffer)
        yield from self.exchange_batches.finish()
        yield from self._partial_connections()
        yield from self._problem_rows()

    def _partial_connections(self) -> Iterator[Part]:
        """Yield the connections, and bytes that belong to frames of other files."""
        states, options = self.connections.states, self._options
        heads = [*self.irregular.fragments()]
        if Table.FRAGMENTS in options.tables:
            fragments = [*heads, *tails(states)]
            for each in batches(self._name, states.endpoints, fragments, options):
                yield Table.FRAGMENTS, each
        others = {head.connection_index for head in heads}
        if Table.CONNECTIONS in options.tables and states:
            yield Table.CONNECTIONS, connection_table(self._name, states, others)
        names = {states[number].names for number in others}
        for problem in self.problems.doubtful:
            ends = tuple((problem.connection or "").split(" > "))
            if not names & {ends, ends[::-1]}:
                self.problems.problems(problem)

    def _scanner(self, data: Bytes) -> Scanner | None:
        """Return the scanner of the file; report a problem and return None for other formats."""
        part = self._part
        magic = data[:4].tobytes() if part is None else part.magic
        scanner = new_scanner(magic, self.problems.report)
        if scanner is None:
            detail = f"neither pcap nor pcapng: begins with {magic.hex()}"
            detail = detail if magic else "an empty file"
            self.problems.report(ProblemKind.NOT_A_CAPTURE, 0, detail)
        elif part is not None:
            scanner.resume(part.state)
        return scanner

    def _frames(
        self, seen: ChunkPackets, ack_only: Segments, offset: int, buffer: Buffer
    ) -> FrameIndex:
        """Return the frames of a chunk, of regular and irregular connections."""
        direction_ids = self.connections.direction_ids(seen)
        states = self.connections.states
        chunk = Chunk(seen.data, offset, seen.packets, seen.segments, direction_ids, states)
        frames = ChunkFrames(chunk, self._memory)
        regular = frames.find(buffer)
        irregular = self.irregular.take(
            seen,
            ack_only,
            direction_ids,
            offset=offset,
            irregular_numbers=frames.irregular,
            buffer=buffer,
        )
        return FrameIndex.joined([regular, irregular])

    def _problem_rows(self) -> Iterator[Part]:
        rows = [astuple(each) for each in self.problems.problems]
        if Table.PROBLEMS in self._options.tables and rows:
            columns: Any = zip(*rows, strict=True)
            arrays = [
                pa.array(list(values), each.type)
                for values, each in zip(columns, PROBLEMS, strict=True)
            ]
            yield Table.PROBLEMS, pa.RecordBatch.from_arrays(arrays, schema=PROBLEMS)


class ClockWatch:
    """Compares the time of each packet with that of the previous one."""

    def __init__(self, report: Report, last_ns: int = 0) -> None:
        self._report = report
        self._last_ns = last_ns

    def watch(self, packets: Packets, offset: int) -> None:
        """Report where a chunk's times go back; jumps by the same number of seconds are counted."""
        if not len(packets):
            return
        back = -np.diff(packets.at_ns, prepend=self._last_ns)
        self._last_ns = int(packets.at_ns[-1])
        jumps = where(back > MIN_CLOCK_JUMP_NS)
        if not len(jumps):
            return
        sizes, firsts, counts = np.unique(
            back[jumps] // MIN_CLOCK_JUMP_NS, return_index=True, return_counts=True
        )
        for nth in np.argsort(firsts).tolist():
            position = offset + int(packets.at[jumps[firsts[nth]]])
            detail = f"time goes back by {sizes[nth]} s"
            self._report(ProblemKind.CLOCK_JUMP, position, detail, int(counts[nth]))
