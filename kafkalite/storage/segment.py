"""A segment: one file of batches, and the sparse indexes that find a batch in it."""

from __future__ import annotations

import errno
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from kafkalite.ports.files import join
from kafkalite.storage.aborted import AbortedIndex
from kafkalite.storage.batch import HEAD_SIZE, LENGTH_END, WALK, WALK_SIZE
from kafkalite.storage.folding import fold
from kafkalite.storage.index import TIME_ENTRY_SIZE, OffsetIndex, TimeIndex
from kafkalite.storage.recovery import believable_batches, placed_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.ports.files import Buffer, File, Files
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.folding import Folded

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

_WALK_CHUNK = 8192
_REMEMBERED, _FORGOTTEN = 256, 32


class DamagedLogError(OSError):
    """Bytes of a log that were good when they were written, and are not now."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(errno.EIO, f"no batch stands at position {position}", path)


def segment_name(base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file: its base offset in twenty digits."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """The batches from one base offset up to the next segment's.

    `size` is the length of the whole batches in bytes; `max_timestamp` and its offset are those of
    the batches so far, -1 without any.
    """

    __slots__ = (
        "_bytes_since_index",
        "_directory",
        "_files",
        "_first_timestamp",
        "_index_bytes",
        "_index_interval_bytes",
        "_indexes",
        "_log",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_recent",
        "aborted",
        "base_offset",
        "created_ms",
        "size",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        index_interval_bytes: int,
        *,
        create: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = 0
        self._files = files
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._log: File = files.open(self.path(LOG_SUFFIX), create=create)
        self.size = self._log.size
        self.aborted = AbortedIndex(files, self.path(TXN_INDEX_SUFFIX))
        self._indexes: tuple[OffsetIndex, TimeIndex] | None = None
        self._index_bytes = 0
        self._bytes_since_index = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self._first_timestamp: int | None = None
        # Where the batches appended last begin, and where reads were cut: the next read of a
        # consumer that keeps up starts exactly there.
        self._recent: dict[int, int] = {}

    def path(self, suffix: str) -> str:
        """Return the path of the segment's file with that suffix."""
        return join(self._directory, segment_name(self.base_offset, suffix))

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, or -1."""
        self._loaded_indexes()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """Last offset of the batch that holds the largest timestamp."""
        self._loaded_indexes()
        return self._max_timestamp_offset

    @property
    def index_bytes(self) -> int:
        """What the longer of the index files may hold by now, in bytes."""
        if self._indexes is None:
            self._load_indexes()
        return self._index_bytes

    def first_timestamp(self) -> int | None:
        """Return the first batch's largest timestamp, which segment.ms counts from, or None."""
        if self._first_timestamp is None:
            for _, batch in self.batches(0):
                self._first_timestamp = batch.max_timestamp
                break
        return self._first_timestamp

    def modified_ms(self) -> int:
        """Return when the log file last changed, in milliseconds since the Unix epoch."""
        return self._files.modified_ms(self.path(LOG_SUFFIX))

    # --- writing -----------------------------------------------------------------------------

    def append(self, buffers: Sequence[Buffer], batches: Sequence[BatchView]) -> None:
        """Write `buffers`, which are the bytes of `batches`, all or nothing.

        On OSError nothing was appended. What the disk took of it nevertheless lies beyond `size`,
        is never read, and is cut off before anything else is written.
        """
        if self._indexes is None:
            self._load_indexes()
        position = self.size
        if self._log.size != position:
            self._log.truncate(position)
        try:
            self._log.append(buffers)
        except OSError:
            with suppress(OSError):
                self._log.truncate(position)
            raise
        for batch in batches:
            self._note(batch, position)
            position += batch.size
        self.size = position

    def _note(self, batch: BatchView, position: int) -> None:
        """Take a batch that stands at `position` into the indexes."""
        if batch.max_timestamp > self._max_timestamp:
            self._max_timestamp = batch.max_timestamp
            self._max_timestamp_offset = batch.last_offset
        if position == 0:
            self._first_timestamp = batch.max_timestamp
        if self._bytes_since_index > self._index_interval_bytes and self._indexes:
            offsets, times = self._indexes
            offsets.append(batch.last_offset - self.base_offset, position)
            times.append(self._max_timestamp, self._max_timestamp_offset - self.base_offset)
            self._index_bytes += TIME_ENTRY_SIZE
            self._bytes_since_index = 0
        self._bytes_since_index += batch.size
        self._remember(batch.base_offset, position)

    def _remember(self, base_offset: int, position: int) -> None:
        recent = self._recent
        if len(recent) >= _REMEMBERED:
            # Some at once: this is done for every batch.
            for oldest in tuple(islice(recent, _FORGOTTEN)):
                del recent[oldest]
        recent[base_offset] = position

    def cut(self, position: int) -> None:
        """Cut off what stands behind the batches that `rebuild` believed."""
        if position < self._log.size:
            self._log.truncate(position)
        self.size = position

    def seal(self) -> None:
        """Save the indexes of a segment that gets no more batches, or none for now."""
        self.cut(self.size)
        offsets, times = self._loaded_indexes()
        times.append(self._max_timestamp, self._max_timestamp_offset - self.base_offset)
        offsets.save(self._files, self.path(INDEX_SUFFIX))
        times.save(self._files, self.path(TIME_INDEX_SUFFIX))
        self.aborted.save()

    def flush(self) -> None:
        """Return when the batches would survive a loss of power, and the indexes are saved."""
        self._log.sync()
        self.aborted.save()
        if self._indexes is not None:
            offsets, times = self._indexes
            offsets.save(self._files, self.path(INDEX_SUFFIX))
            times.save(self._files, self.path(TIME_INDEX_SUFFIX))

    def close(self) -> None:
        """Let the descriptor go."""
        self._log.close()

    def remove(self) -> None:
        """Remove the segment's files, the log first: an index without one is swept up on start."""
        self._log.close()
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            self._files.remove(self.path(suffix))

    # --- indexes -----------------------------------------------------------------------------

    def _loaded_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        if self._indexes is None:
            self._load_indexes()
            assert self._indexes is not None
        return self._indexes

    def _load_indexes(self) -> None:
        """Read the index files, and go on from there to the end; rebuild what is damaged."""
        try:
            offsets = OffsetIndex.load(self._files.read(self.path(INDEX_SUFFIX)), self.size)
            times = TimeIndex.load(self._files.read(self.path(TIME_INDEX_SUFFIX)))
        except FileNotFoundError:
            offsets = times = None
        if offsets is None or times is None:
            self.rebuild()
            return
        self._indexes = offsets, times
        self._index_bytes = len(offsets) * TIME_ENTRY_SIZE
        last = times.last
        if last is not None:
            self._max_timestamp, relative_offset = last
            self._max_timestamp_offset = self.base_offset + relative_offset
        self._bytes_since_index = 0
        for position, batch in self.batches(offsets.boundary_at_or_before(self.size)):
            # The batch at the last entry's position is in the index already.
            if batch.max_timestamp > self._max_timestamp:
                self._max_timestamp = batch.max_timestamp
                self._max_timestamp_offset = batch.last_offset
            self._bytes_since_index += batch.size
            self._remember(batch.base_offset, position)

    def rebuild(self, on_batch: Callable[[BatchView], None] | None = None) -> tuple[int, int]:
        """Index the log anew; return where it stops being believable, and the next offset there.

        `on_batch` sees every batch that is believed.
        """
        self._indexes = OffsetIndex(), TimeIndex()
        self._index_bytes = 0
        self._recent.clear()
        self._bytes_since_index = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = self.base_offset
        self._first_timestamp = None
        end, next_offset = 0, self.base_offset
        for position, batch in believable_batches(self._log.pread, self.size, self.base_offset):
            self._note(batch, position)
            if on_batch is not None:
                on_batch(batch)
            end, next_offset = position + batch.size, batch.last_offset + 1
        return end, next_offset

    # --- reading -----------------------------------------------------------------------------

    def end(self) -> tuple[int, int]:
        """Return where the last whole batch ends, and the offset after it.

        It is found from the end of the index, and ends before the file where its tail was lost.
        """
        offsets, _ = self._loaded_indexes()
        end, next_offset = offsets.boundary_at_or_before(self.size), self.base_offset
        for position, batch in self.batches(end):
            end, next_offset = position + batch.size, batch.last_offset + 1
        return end, next_offset

    def batches(self, position: int, end: int | None = None) -> Iterator[tuple[int, BatchView]]:
        """Yield the batches from a batch boundary on, each with its position."""
        return placed_batches(self._log.pread, position, self.size if end is None else end)

    def folded(self, position: int, end: int) -> Iterator[Folded | BatchView]:
        """Yield the batches between two batch boundaries, runs of plain ones folded."""
        return fold(self._log.pread, position, end)

    def locate(self, offset: int) -> int:
        """Return where the first batch that reaches `offset` begins, or the segment's size."""
        position = self._recent.get(offset)
        if position is not None:
            return position
        offsets, _ = self._loaded_indexes()
        position = offsets.position_before(offset - self.base_offset)
        while position < self.size:
            chunk = self._log.pread(_WALK_CHUNK, position)
            at = 0
            while len(chunk) - at >= WALK_SIZE:
                base, length, last_delta = WALK.unpack_from(chunk, at)
                if base + last_delta >= offset:
                    return position + at
                at += self._checked_size(length, position + at)
            if at <= 0:
                raise DamagedLogError(self.path(LOG_SUFFIX), position)
            position += at
        return self.size

    def offset_at_or_after(self, position: int) -> int | None:
        """Return an offset at or beyond the batch that begins at `position`, if one is indexed."""
        relative_offset = self._loaded_indexes()[0].offset_at_or_after(position)
        return None if relative_offset is None else self.base_offset + relative_offset

    def position_before_time(self, timestamp: int) -> int:
        """Return a batch boundary before which every timestamp is smaller than `timestamp`."""
        offsets, times = self._loaded_indexes()
        return offsets.position_before(times.offset_before(timestamp))

    def read(self, position: int, end: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """Return whole batches from a batch boundary on, up to `end` and to `max_bytes`.

        The first batch is given whatever its size when `at_least_one` is set.
        """
        size = end - position
        if size > max_bytes:
            cut = self._boundary(position, position + max_bytes)
            if cut == position and at_least_one:
                cut = position + self._batch_size(position)
            size = cut - position
        if size <= 0:
            return b""
        data = self._log.pread(size, position)
        if len(data) != size:
            raise DamagedLogError(self.path(LOG_SUFFIX), position + len(data))
        return data

    def _batch_size(self, position: int) -> int:
        head = self._log.pread(WALK_SIZE, position)
        if len(head) < WALK_SIZE:
            raise DamagedLogError(self.path(LOG_SUFFIX), position)
        return self._checked_size(WALK.unpack(head)[1], position)

    def _checked_size(self, length: int, position: int) -> int:
        """Return the size of the batch that says so of itself; a walk must always get on."""
        if length < HEAD_SIZE - LENGTH_END:
            raise DamagedLogError(self.path(LOG_SUFFIX), position)
        return LENGTH_END + length

    def _boundary(self, start: int, limit: int) -> int:
        """Return the last batch boundary between `start`, which is one, and `limit`."""
        offsets, _ = self._loaded_indexes()
        position = max(start, offsets.boundary_at_or_before(limit))
        while position < self.size:
            chunk = self._log.pread(_WALK_CHUNK, position)
            at = 0
            while len(chunk) - at >= WALK_SIZE:
                base, length, _ = WALK.unpack_from(chunk, at)
                size = self._checked_size(length, position + at)
                if position + at + size > limit:
                    self._remember(base, position + at)
                    return position + at
                at += size
            if at <= 0:
                raise DamagedLogError(self.path(LOG_SUFFIX), position)
            position += at
        return position
