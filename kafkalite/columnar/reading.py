"""A capture file → batches of its tables, in bounded memory and without Spark.

What a file says is the same as what `capture.reading` says of it, by test. What it cannot say
alone, because a connection goes on in another file, is left to `stitching`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkalite.columnar.blocks import BlockScanner
from kafkalite.columnar.chunks import Chunk, ChunkFrames
from kafkalite.columnar.connections import Connections
from kafkalite.columnar.exchanging import Exchanging
from kafkalite.columnar.files import Chunks
from kafkalite.columnar.found import Buffer, Found
from kafkalite.columnar.options import EVERYTHING, Options, Table
from kafkalite.columnar.packets import SegmentReader, flows
from kafkalite.columnar.tables import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.capture.model import ProblemKind
    from kafkalite.columnar.files import Source

Part = tuple[Table, pa.RecordBatch]


def read_file(source: Source, name: str, options: Options = EVERYTHING) -> Iterator[Part]:
    """Yield batches of a capture's tables: of pairs as they are found, the others as they fill.

    `source` is the file's bytes or an open binary file, pcapng or pcap, gzipped or not.
    """
    return _Reading(name, options).of(source)


class _Reading:
    """One file that is being read."""

    def __init__(self, name: str, options: Options) -> None:
        self._name = name
        self._options = options
        self._problems: list[tuple[str, str, int | None, str | None, str, int]] = []
        self._connections = Connections(name)
        self._exchanging = Exchanging(name, options, self._connections.lines)

    def tell(self, kind: ProblemKind, offset: int | None, detail: str, count: int = 1) -> None:
        """Take a problem of the file."""
        self._problems.append((kind.value, self._name, offset, None, detail, count))

    def of(self, source: Source) -> Iterator[Part]:
        chunks = Chunks(source, self._options.chunk_bytes, self.tell)
        scanner = BlockScanner(self.tell)
        segment_reader = SegmentReader(self.tell, scanner.interfaces)
        for data, offset, is_last in chunks:
            packets, used = scanner.scan(data, offset, is_last=is_last)
            chunks.used(used)
            segments = segment_reader.read(data, offset, packets)
            if not len(segments):
                continue
            codes, firsts = flows(data, segments)
            groups = self._connections.groups(data, packets, segments, firsts, scanner.interfaces)
            buffer = Buffer(data)
            chunk = Chunk(data, offset, packets, segments, self._connections.lines)
            frames = ChunkFrames(chunk, groups[codes])
            found = frames.find(buffer)
            yield from self._exchanging.take(found, buffer)
        yield from self._exchanging.finish()
        yield from self._told()

    def _told(self) -> Iterator[Part]:
        if Table.PROBLEMS in self._options.tables and self._problems:
            columns: Any = zip(*self._problems, strict=True)
            arrays = [
                pa.array(list(values), each.type)
                for values, each in zip(columns, PROBLEMS, strict=True)
            ]
            yield Table.PROBLEMS, pa.RecordBatch.from_arrays(arrays, schema=PROBLEMS)
            self._problems.clear()


__all__ = ["Found", "Part", "read_file"]
