"""A capture that is still being written: read on, as often as it has grown, from where it ended.

What is known at that place, half frames and open requests included, is the reading itself, and
stays in memory. None of it has to last: read again from its beginning, in whatever steps, a file
comes to the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.classic import MAGICS
from kafkalite.capture.sections import MAGIC as SECTION_MAGIC
from kafkalite.columnar import heads
from kafkalite.columnar.connections import table_of
from kafkalite.columnar.files import Chunks
from kafkalite.columnar.lines import APPEARED, OVER
from kafkalite.columnar.options import Table
from kafkalite.columnar.reading import Reading
from kafkalite.columnar.remnants import batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

    from kafkalite.columnar.options import Options
    from kafkalite.columnar.reading import Part

HEAD_BYTES: Final = 4
"""How many bytes say whether a file can be read while it grows: one that is packed cannot."""


def can_grow(head: bytes) -> bool:
    """Whether a file that begins so is a capture that can be read while it grows."""
    return head == SECTION_MAGIC or head in MAGICS


class GrowingFile:
    """One capture, as far as it has been read."""

    def __init__(self, name: str, options: Options) -> None:
        """Begin at the beginning of a file; its name is what rows say of it."""
        self._name = name
        self._options = options
        self._reading = Reading(name, options)
        self._heads: set[tuple[int, int]] = set()
        """The beginnings of connections, by line and direction, that were given out."""
        self._over: set[int] = set()
        """Connections that were given out as ended."""
        self.size = 0
        """How much of the file was there the last time."""

    @property
    def position(self) -> int:
        """How many bytes its blocks have that were read: what is behind them may be cut again."""
        return self._reading.position

    def read(self, source: IO[bytes], size: int) -> Iterator[Part]:
        """Yield what its whole blocks among the first `size` bytes make known and did not yet.

        What connections have before their first frames here is among it, and how these are.
        """
        if size > self.size and size - self._reading.position >= HEAD_BYTES:
            yield from self._more(source, size, is_last=False)
        self.size = max(size, self.size)
        yield from self._loose()

    def finish(self, source: IO[bytes]) -> Iterator[Part]:
        """Yield the rest of a file that does not grow any more."""
        yield from self._more(source, None, is_last=True)
        for table, batch in self._reading.finish():
            if table is Table.FRAGMENTS:
                yield table, self._without_given(batch)
            else:
                yield table, batch

    def open_since(self) -> Mapping[int, int]:
        """Return when the first request of each API was asked that is not answered yet, in ns."""
        waiting, data = self._reading.exchanging.open()
        found: dict[int, int] = {}
        if len(waiting):
            asked = heads.read(data, waiting)
            for key in np.unique(asked.api_key).tolist():
                found[key] = int(waiting.at_ns[asked.api_key == key].min())
        return found

    def _more(self, source: IO[bytes], size: int | None, *, is_last: bool) -> Iterator[Part]:
        at = self._reading.position
        # A file of which nothing was read yet may well be packed.
        limits = (at, size) if at or not is_last else None
        source.seek(at)
        chunks = Chunks(source, self._options.chunk_bytes, self._reading.telling.tell, limits)
        yield from self._reading.more(chunks, is_last=is_last)

    def _loose(self) -> Iterator[Part]:
        lines, wanted = self._reading.connections.lines, self._options.tables
        fresh = [
            each
            for each in self._reading.following.fragments()
            if lines[each.line].is_marked(APPEARED)
            and (each.line, each.direction) not in self._heads
        ]
        self._heads.update((each.line, each.direction) for each in fresh)
        if Table.FRAGMENTS in wanted:
            for batch in batches(self._name, lines.told, fresh, self._options):
                yield Table.FRAGMENTS, batch
        still = [line for line in lines if line.number not in self._over]
        self._over.update(line.number for line in still if line.is_marked(OVER))
        if still and Table.CONNECTIONS in wanted:
            yield Table.CONNECTIONS, table_of(self._name, still)

    def _without_given(self, fragments: pa.RecordBatch) -> pa.RecordBatch:
        lines = self._reading.connections.lines
        given = {(lines[line].connection, direction) for line, direction in self._heads}
        rows = zip(
            fragments["is_head"].to_pylist(),
            fragments["connection"].to_pylist(),
            fragments["direction"].to_pylist(),
            strict=True,
        )
        fresh = [not (is_head and tuple(key) in given) for is_head, *key in rows]
        return pc.filter(fragments, pa.array(fresh, pa.bool_()))
