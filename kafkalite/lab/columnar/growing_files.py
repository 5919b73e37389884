"""`GrowingFile`: reads a capture that is still being written; a read continues the previous one.

The state, including partial frames and open requests, is in memory only. After a restart, the file
is read again from its beginning. The result does not depend on the sizes of the reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.formats.pcap import MAGICS
from kafkalite.capture.formats.pcapng_reader import MAGIC as SECTION_MAGIC
from kafkalite.lab.columnar.files.chunked_files import Chunks
from kafkalite.lab.columnar.frames import headers
from kafkalite.lab.columnar.frames.partial_frames import fragment_batches
from kafkalite.lab.columnar.options import Table
from kafkalite.lab.columnar.reading import CaptureReader
from kafkalite.lab.columnar.segments.connection_state import CLOSED, HAS_FRAMES
from kafkalite.lab.columnar.segments.connections import connection_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

    from kafkalite.lab.columnar.options import Options
    from kafkalite.lab.columnar.reading import TableBatch

MAGIC_BYTES: Final = 4
"""Number of bytes at the start of a file that `can_grow` needs."""


def can_grow(first_bytes: bytes) -> bool:
    """Whether a file with these first bytes can be read while it grows.

    It must be a capture that is not compressed.
    """
    return first_bytes == SECTION_MAGIC or first_bytes in MAGICS


class GrowingFile:
    """Reads one capture that grows; each read continues the previous one."""

    def __init__(self, name: str, options: Options) -> None:
        """Begin at the start of a file; `name` appears in rows."""
        self._name = name
        self._options = options
        self._reader = CaptureReader(name, options)
        self._yielded_heads: set[tuple[int, int]] = set()
        """Connections and directions whose first bytes were already yielded."""
        self._yielded_closed: set[int] = set()
        """Connections that were already yielded as closed."""
        self.size = 0
        """Size of the file at the last read."""

    @property
    def position(self) -> int:
        """End of the last complete block; the next read starts there."""
        return self._reader.position

    def read(self, source: IO[bytes], size: int) -> Iterator[TableBatch]:
        """Yield the rows of new complete blocks in the first `size` bytes.

        This includes bytes before a connection's first frame, and the state of connections.
        """
        if size > self.size and size - self._reader.position >= MAGIC_BYTES:
            yield from self._read_chunks(source, size, is_last=False)
        self.size = max(size, self.size)
        yield from self._new_connection_rows()

    def finish(self, source: IO[bytes]) -> Iterator[TableBatch]:
        """Yield the remaining rows of a file that has stopped growing."""
        yield from self._read_chunks(source, None, is_last=True)
        for table, batch in self._reader.finish():
            if table is Table.FRAGMENTS:
                yield table, self._without_yielded_heads(batch)
            else:
                yield table, batch

    def first_open_request_ns(self) -> Mapping[int, int]:
        """Return the time of the first open request in ns, by API key."""
        open_frames, data = self._reader.exchange_batches.open_frames()
        first_ns_by_api: dict[int, int] = {}
        if len(open_frames):
            open_headers = headers.read(data, open_frames)
            for key in np.unique(open_headers.api_key).tolist():
                first_ns_by_api[key] = int(open_frames.at_ns[open_headers.api_key == key].min())
        return first_ns_by_api

    def _read_chunks(
        self, source: IO[bytes], size: int | None, *, is_last: bool
    ) -> Iterator[TableBatch]:
        at = self._reader.position
        # A file from which nothing was read yet may be compressed.
        limits = (at, size) if at or not is_last else None
        source.seek(at)
        chunks = Chunks(source, self._options.chunk_bytes, self._reader.problems.report, limits)
        yield from self._reader.read_chunks(chunks, is_last=is_last)

    def _new_connection_rows(self) -> Iterator[TableBatch]:
        states, tables = self._reader.connections.states, self._options.tables
        new_fragments = [
            each
            for each in self._reader.irregular.fragments()
            if states[each.connection_index].is_marked(HAS_FRAMES)
            and (each.connection_index, each.direction) not in self._yielded_heads
        ]
        self._yielded_heads.update(
            (each.connection_index, each.direction) for each in new_fragments
        )
        if Table.FRAGMENTS in tables:
            for batch in fragment_batches(
                self._name, states.endpoints, new_fragments, self._options
            ):
                yield Table.FRAGMENTS, batch
        still_open = [state for state in states if state.number not in self._yielded_closed]
        self._yielded_closed.update(state.number for state in still_open if state.is_marked(CLOSED))
        if still_open and Table.CONNECTIONS in tables:
            yield Table.CONNECTIONS, connection_table(self._name, still_open)

    def _without_yielded_heads(self, fragments: pa.RecordBatch) -> pa.RecordBatch:
        states = self._reader.connections.states
        yielded = {
            (states[index].connection_id, direction) for index, direction in self._yielded_heads
        }
        rows = zip(
            fragments["is_before_first_frame"].to_pylist(),
            fragments["connection"].to_pylist(),
            fragments["direction"].to_pylist(),
            strict=True,
        )
        is_new = [
            not (is_before_first_frame and tuple(key) in yielded)
            for is_before_first_frame, *key in rows
        ]
        return pc.filter(fragments, pa.array(is_new, pa.bool_()))
