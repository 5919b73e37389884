"""`GrowingFile`: reads a capture that is still being written; a read continues the previous one.

The state, including partial frames and open requests, is in memory only. After a restart the file
can be read again from its beginning, in any steps, with the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.traffic.columnar import headers
from kafkalite.traffic.columnar.chunked_files import Chunks
from kafkalite.traffic.columnar.connection_state import CLOSED, HAS_FRAMES
from kafkalite.traffic.columnar.connections import connection_table
from kafkalite.traffic.columnar.options import Table
from kafkalite.traffic.columnar.partial_frames import batches
from kafkalite.traffic.columnar.reading import Reading
from kafkalite.traffic.formats.pcap import MAGICS
from kafkalite.traffic.formats.pcapng_reader import MAGIC as SECTION_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

    from kafkalite.traffic.columnar.options import Options
    from kafkalite.traffic.columnar.reading import Part

HEAD_BYTES: Final = 4
"""Number of first bytes that show whether a file can be read while it grows; compressed files
cannot."""


def can_grow(head: bytes) -> bool:
    """Whether a file with these first bytes is a capture that can be read while it grows."""
    return head == SECTION_MAGIC or head in MAGICS


class GrowingFile:
    """One capture, as far as it has been read."""

    def __init__(self, name: str, options: Options) -> None:
        """Begin at the start of a file; `name` appears in rows."""
        self._name = name
        self._options = options
        self._reading = Reading(name, options)
        self._heads: set[tuple[int, int]] = set()
        """Connections and directions whose first bytes were already yielded."""
        self._closed: set[int] = set()
        """Connections that were already yielded as closed."""
        self.size = 0
        """Size of the file at the last read."""

    @property
    def position(self) -> int:
        """End of the blocks that were read; the bytes after it are read again."""
        return self._reading.position

    def read(self, source: IO[bytes], size: int) -> Iterator[Part]:
        """Yield the rows of new complete blocks in the first `size` bytes.

        This includes bytes before a connection's first frame, and the state of connections.
        """
        if size > self.size and size - self._reading.position >= HEAD_BYTES:
            yield from self._more(source, size, is_last=False)
        self.size = max(size, self.size)
        yield from self._unfinished()

    def finish(self, source: IO[bytes]) -> Iterator[Part]:
        """Yield the remaining rows of a file that does not grow any more."""
        yield from self._more(source, None, is_last=True)
        for table, batch in self._reading.finish():
            if table is Table.FRAGMENTS:
                yield table, self._without_yielded(batch)
            else:
                yield table, batch

    def open_since(self) -> Mapping[int, int]:
        """Return the time of the first open request in ns, by API key."""
        open_frames, data = self._reading.exchange_batches.open()
        found: dict[int, int] = {}
        if len(open_frames):
            found_headers = headers.read(data, open_frames)
            for key in np.unique(found_headers.api_key).tolist():
                found[key] = int(open_frames.at_ns[found_headers.api_key == key].min())
        return found

    def _more(self, source: IO[bytes], size: int | None, *, is_last: bool) -> Iterator[Part]:
        at = self._reading.position
        # A file from which nothing was read yet may be compressed.
        limits = (at, size) if at or not is_last else None
        source.seek(at)
        chunks = Chunks(source, self._options.chunk_bytes, self._reading.problems.report, limits)
        yield from self._reading.more(chunks, is_last=is_last)

    def _unfinished(self) -> Iterator[Part]:
        states, tables = self._reading.connections.states, self._options.tables
        fresh = [
            each
            for each in self._reading.irregular.fragments()
            if states[each.connection_index].is_marked(HAS_FRAMES)
            and (each.connection_index, each.direction) not in self._heads
        ]
        self._heads.update((each.connection_index, each.direction) for each in fresh)
        if Table.FRAGMENTS in tables:
            for batch in batches(self._name, states.endpoints, fresh, self._options):
                yield Table.FRAGMENTS, batch
        still_open = [state for state in states if state.number not in self._closed]
        self._closed.update(state.number for state in still_open if state.is_marked(CLOSED))
        if still_open and Table.CONNECTIONS in tables:
            yield Table.CONNECTIONS, connection_table(self._name, still_open)

    def _without_yielded(self, fragments: pa.RecordBatch) -> pa.RecordBatch:
        states = self._reading.connections.states
        yielded = {(states[index].connection, direction) for index, direction in self._heads}
        rows = zip(
            fragments["is_head"].to_pylist(),
            fragments["connection"].to_pylist(),
            fragments["direction"].to_pylist(),
            strict=True,
        )
        fresh = [not (is_head and tuple(key) in yielded) for is_head, *key in rows]
        return pc.filter(fragments, pa.array(fresh, pa.bool_()))
