"""Reading of a capture file into batches of its tables, in bounded memory and without Spark.

Tests check that the results equal those of `capture.reading.captures`. Connections that continue in
another file are combined by `stitching`.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.capture.reading.packets import MIN_CLOCK_JUMP_NS
from kafkalite.capture.reading.problems import Problems
from kafkalite.lab.columnar.arrays import byte_array, true_indexes
from kafkalite.lab.columnar.exchanges.exchange_batches import ExchangeBatches
from kafkalite.lab.columnar.files.chunked_files import Chunks
from kafkalite.lab.columnar.files.file_parts import new_scanner
from kafkalite.lab.columnar.frames.chunk_frames import Chunk, ChunkFrames, ChunkMemory
from kafkalite.lab.columnar.frames.frame_index import FrameBuffer, FrameIndex
from kafkalite.lab.columnar.frames.irregular_segments import IrregularSegments
from kafkalite.lab.columnar.frames.partial_frames import fragment_batches, tail_fragments
from kafkalite.lab.columnar.options import DEFAULT_OPTIONS, Options, Table
from kafkalite.lab.columnar.segments.connections import ChunkPackets, Connections, connection_table
from kafkalite.lab.columnar.segments.packets import SegmentReader
from kafkalite.lab.columnar.tables import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.columnar.arrays import Bytes
    from kafkalite.lab.columnar.files.chunked_files import Source
    from kafkalite.lab.columnar.files.file_parts import FilePart, Scanner
    from kafkalite.lab.columnar.files.packet_index import Packets
    from kafkalite.lab.columnar.files.pcapng import Report
    from kafkalite.lab.columnar.segments.packets import Segments


_NO_BYTES = byte_array(b"")

TableBatch = tuple[Table, pa.RecordBatch]


def read_file(
    source: Source, name: str, options: Options = DEFAULT_OPTIONS, part: FilePart | None = None
) -> Iterator[TableBatch]:
    """Yield batches of a capture's tables: pairs as they are found, other tables as they fill.

    `source` is the file's bytes or an open binary file, pcapng or pcap, also compressed. `part` is
    one of the parts from `split_file`, for which the file must be seekable.
    """
    # A file name may be invalid UTF-8; in tables it is escaped.
    escaped = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return CaptureReader(escaped, options, part).read_all(source)


class ProblemCollector:
    """Collects the problems of one file and of its connections.

    It does not refer to the `CaptureReader`, because a reference cycle would delay the release of
    its memory.
    """

    __slots__ = ("_is_later_part", "_name", "doubtful", "problems")

    def __init__(self, name: str, *, is_later_part: bool) -> None:
        self._name, self._is_later_part = name, is_later_part
        self.problems = Problems()
        self.doubtful: list[Problem] = []
        """NOT_KAFKA problems of a later part of a file. They are dropped if the part has fragments
        of the connection."""

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
        if self._is_later_part and problem.kind is ProblemKind.NOT_KAFKA:
            self.doubtful.append(problem)
        elif not (self._is_later_part and problem.kind is ProblemKind.MID_CONNECTION):
            self.problems(problem)


class CaptureReader:
    """Reads one file, at once or while it grows."""

    def __init__(self, name: str, options: Options, part: FilePart | None = None) -> None:
        self._part = part
        self._name = name
        self._options = options
        self._memory = ChunkMemory()
        start = 0 if part is None else part.start
        self.position = start
        """File offset up to which the file was read."""
        self.problems = ProblemCollector(name, is_later_part=start > 0)
        self.connections = Connections(
            f"{name} from {start}" if start else name,
            is_later_part=start > 0,
            has_later_part=part is not None and part.stop is not None,
        )
        report = self.problems.report_connection
        self.exchange_batches = ExchangeBatches(name, options, self.connections.states, report)
        self.irregular = IrregularSegments(
            name, self.connections, report, self.exchange_batches.open_requests
        )
        self.scanner: Scanner | None = None
        """None before anything was read, and if the file is not a capture."""
        self._segment_reader: SegmentReader | None = None
        self._clock_jumps = ClockJumpDetector(
            self.problems.report, 0 if part is None else part.state.last_ns
        )

    def read_all(self, source: Source) -> Iterator[TableBatch]:
        """Yield all batches of the file."""
        part = self._part
        limits = None if part is None else (part.start, part.stop)
        chunks = Chunks(source, self._options.chunk_bytes, self.problems.report, limits)
        yield from self.read_chunks(chunks, is_last=True)
        yield from self.finish()

    def read_chunks(self, chunks: Chunks, *, is_last: bool) -> Iterator[TableBatch]:
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
            chunks.set_used_bytes(used)
            self.position = offset + used
            self._clock_jumps.check(packets, offset)
            assert self._segment_reader is not None
            segments, ack_only = self._segment_reader.read(data, offset, packets)
            chunk = ChunkPackets(data, packets, segments, self.scanner.interfaces)
            buffer = FrameBuffer(data, memory)
            frame_index = self._frames(chunk, ack_only, offset, buffer)
            yield from self.exchange_batches.process(frame_index, buffer)

    def finish(self) -> Iterator[TableBatch]:
        """Yield the remaining rows at the end of the file."""
        buffer = FrameBuffer(_NO_BYTES)
        yield from self.exchange_batches.process(self.irregular.finish(buffer), buffer)
        yield from self.exchange_batches.finish()
        yield from self._connection_rows()
        yield from self._problem_rows()

    def _connection_rows(self) -> Iterator[TableBatch]:
        """Yield the connections, and bytes that may belong to frames of other files."""
        states, options = self.connections.states, self._options
        heads = [*self.irregular.fragments()]
        if Table.FRAGMENTS in options.tables:
            fragments = [*heads, *tail_fragments(states)]
            for each in fragment_batches(self._name, states.endpoints, fragments, options):
                yield Table.FRAGMENTS, each
        head_connections = {head.connection_index for head in heads}
        included = set(head_connections)
        if self.connections.has_later_part:
            # The later part needs the sequence numbers of connections that have just opened.
            included |= {state.number for state in states if state.has_opening}
        if Table.CONNECTIONS in options.tables and states:
            yield Table.CONNECTIONS, connection_table(self._name, states, included)
        names = {states[number].endpoint_names for number in head_connections}
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
        self, chunk_packets: ChunkPackets, ack_only: Segments, offset: int, buffer: FrameBuffer
    ) -> FrameIndex:
        """Return the frames of a chunk, of regular and irregular connections."""
        direction_ids = self.connections.direction_ids(chunk_packets)
        states = self.connections.states
        chunk = Chunk(
            chunk_packets.data,
            offset,
            chunk_packets.packets,
            chunk_packets.segments,
            direction_ids,
            states,
        )
        frames = ChunkFrames(chunk, self._memory)
        regular = frames.find(buffer)
        irregular = self.irregular.process(
            chunk_packets,
            ack_only,
            direction_ids,
            offset=offset,
            irregular_numbers=frames.irregular,
            buffer=buffer,
        )
        return FrameIndex.concatenate([regular, irregular])

    def _problem_rows(self) -> Iterator[TableBatch]:
        rows = [astuple(each) for each in self.problems.problems]
        if Table.PROBLEMS in self._options.tables and rows:
            columns: Any = zip(*rows, strict=True)
            arrays = [
                pa.array(list(values), each.type)
                for values, each in zip(columns, PROBLEMS, strict=True)
            ]
            yield Table.PROBLEMS, pa.RecordBatch.from_arrays(arrays, schema=PROBLEMS)


class ClockJumpDetector:
    """Finds packets that are earlier than the previous packet."""

    def __init__(self, report: Report, last_ns: int = 0) -> None:
        self._report = report
        self._last_ns = last_ns

    def check(self, packets: Packets, offset: int) -> None:
        """Report the packets of a chunk whose time goes back; equal jumps are one problem."""
        if not len(packets):
            return
        decrease_ns = -np.diff(packets.at_ns, prepend=self._last_ns)
        self._last_ns = int(packets.at_ns[-1])
        jumps = true_indexes(decrease_ns > MIN_CLOCK_JUMP_NS)
        if not len(jumps):
            return
        sizes, firsts, counts = np.unique(
            decrease_ns[jumps] // MIN_CLOCK_JUMP_NS, return_index=True, return_counts=True
        )
        for index in np.argsort(firsts).tolist():
            position = offset + int(packets.block_start[jumps[firsts[index]]])
            detail = f"time goes back by {sizes[index]} s"
            self._report(ProblemKind.CLOCK_JUMP, position, detail, int(counts[index]))
