"""A segment: one file of batches, and its sparse indexes."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from kafkalite.ports.files import join
from kafkalite.storage.aborted_transactions import AbortedTransactionIndex
from kafkalite.storage.batch import (
    BOUNDS,
    BOUNDS_SIZE,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC_2,
    PREFIX,
    PREFIX_SIZE,
)
from kafkalite.storage.disk_health import DamagedFileError
from kafkalite.storage.index import TIME_ENTRY_SIZE, OffsetIndex, TimeIndex, last_position
from kafkalite.storage.latest_by_key import DamagedBatchError, latest_by_key
from kafkalite.storage.recovery import (
    end_offset_after_damage,
    positioned_batches,
    valid_batches,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.ports.files import Buffer, File, Files
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.latest_by_key import LatestByKey

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

_LENGTH = struct.Struct(">8xi")
_SCAN_CHUNK_SIZE = 8192
_MIN_LENGTH = HEADER_SIZE - LENGTH_END
_MAX_RECENT_POSITIONS, _EVICTION_COUNT = 256, 32


class DamagedLogError(DamagedFileError):
    """A batch whose bytes differ from those written; `offset` is its expected offset, if known."""

    def __init__(self, path: str, position: int, offset: int | None = None) -> None:
        at_offset = "" if offset is None else f" (offset {offset})"
        super().__init__(f"the batch at position {position}{at_offset} is damaged", path)


def segment_name(base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file: its base offset in twenty digits."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """The batches from one base offset up to the next segment's.

    `size` is the length of the complete batches in bytes.
    """

    __slots__ = (
        "_bytes_since_index",
        "_directory",
        "_files",
        "_index_bytes",
        "_index_interval_bytes",
        "_indexes",
        "_log",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_recent_positions",
        "aborted",
        "base_offset",
        "created_ms",
        "known_first_timestamp",
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
        self.aborted = AbortedTransactionIndex(files, self.path(TXN_INDEX_SUFFIX))
        self._indexes: tuple[OffsetIndex, TimeIndex] | None = None
        self._index_bytes = 0
        self._bytes_since_index = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self.known_first_timestamp: int | None = None
        """What `first_timestamp` returns, or None as long as it has to read it."""
        # Positions of the latest batches, and the ends of recent reads: the next read of a consumer
        # that keeps up starts at one of them.
        self._recent_positions: dict[int, int] = {}

    def copy_to(self, files: Files) -> Segment:
        """Return the same segment in other files, which are a copy of these."""
        copy = Segment(files, self._directory, self.base_offset, self._index_interval_bytes)
        copy.created_ms, copy.size = self.created_ms, self.size
        copy.aborted = self.aborted.copy_to(files)
        if self._indexes is not None:
            offsets, times = self._indexes
            copy._indexes = offsets.copy(), times.copy()
        copy._index_bytes = self._index_bytes
        copy._bytes_since_index = self._bytes_since_index
        copy._max_timestamp = self._max_timestamp
        copy._max_timestamp_offset = self._max_timestamp_offset
        copy.known_first_timestamp = self.known_first_timestamp
        return copy

    def path(self, suffix: str) -> str:
        """Return the path of the segment's file with this suffix."""
        return join(self._directory, segment_name(self.base_offset, suffix))

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, or -1."""
        self._loaded_indexes()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """Last offset of the batch with the largest timestamp."""
        self._loaded_indexes()
        return self._max_timestamp_offset

    @property
    def index_bytes(self) -> int:
        """Upper bound of the size of the longer index file, in bytes."""
        if self._indexes is None:
            self._load_indexes()
        return self._index_bytes

    def first_timestamp(self) -> int | None:
        """Return the first batch's largest timestamp, from which segment.ms is counted, or None."""
        if self.known_first_timestamp is None:
            for _, batch in self.batches(0):
                self.known_first_timestamp = batch.max_timestamp
                break
        return self.known_first_timestamp

    def is_in_place(self) -> bool:
        """Whether the log file is still at its path."""
        return self._log.is_in_place()

    def probe(self) -> None:
        """Open the log file for writing if it is not open; raises OSError if that is refused."""
        self._log.pread(1, 0)

    def modified_ms(self) -> int:
        """Return when the log file last changed, in milliseconds since the Unix epoch."""
        return self._files.modified_ms(self.path(LOG_SUFFIX))

    # --- writing -----------------------------------------------------------------------------

    def append(self, buffers: Sequence[Buffer], batches: Sequence[BatchView]) -> None:
        """Write `buffers`, which are the bytes of `batches`, all or nothing.

        On OSError nothing was appended. Bytes that were written before the error are after `size`,
        are never read, and are truncated before the next write.
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
            self._index_batch(batch, position)
            position += batch.size
        self.size = position

    def _index_batch(self, batch: BatchView, position: int) -> None:
        """Add a batch at `position` to the indexes."""
        if batch.max_timestamp > self._max_timestamp:
            self._max_timestamp = batch.max_timestamp
            self._max_timestamp_offset = batch.base_offset + batch.last_offset_delta
        if position == 0:
            self.known_first_timestamp = batch.max_timestamp
        if self._bytes_since_index > self._index_interval_bytes and self._indexes:
            offsets, times = self._indexes
            offsets.append(batch.last_offset - self.base_offset, position)
            times.append(self._max_timestamp, self._max_timestamp_offset - self.base_offset)
            self._index_bytes += TIME_ENTRY_SIZE
            self._bytes_since_index = 0
        self._bytes_since_index += batch.size
        self._remember_position(batch.base_offset, position)

    def _remember_position(self, base_offset: int, position: int) -> None:
        recent = self._recent_positions
        if len(recent) >= _MAX_RECENT_POSITIONS:
            # Drop several at once, because this runs for every batch.
            for oldest in tuple(islice(recent, _EVICTION_COUNT)):
                del recent[oldest]
        recent[base_offset] = position

    def truncate(self, position: int) -> None:
        """Truncate everything after the batches that `rebuild` accepted."""
        if position < self._log.size:
            self._log.truncate(position)
        self.size = position

    def truncate_to(self, end_offset: int) -> None:
        """Remove the batches from `end_offset` on in memory; `truncate_files` does so on disk.

        Raises OSError if the segment cannot be read.
        """
        offsets, times = self._loaded_indexes()
        position = self.locate(end_offset) if end_offset > self.base_offset else 0
        self.aborted.truncate(end_offset)
        self.size = position
        self._recent_positions.clear()
        self.known_first_timestamp = None
        offsets.truncate(position)
        times.truncate(end_offset - self.base_offset)
        self._use_indexes(offsets, times)

    def truncate_files(self) -> None:
        """Remove from the disk what `truncate_to` removed; it does not come back after a crash.

        `save_indexes` writes new index files. A crash before that is followed by a recovery, which
        builds the indexes again. Raises OSError when the disk refuses.
        """
        self._files.remove(self.path(TXN_INDEX_SUFFIX))
        if self._log.size > self.size:
            self._log.truncate(self.size)
            self._files.sync(self.path(LOG_SUFFIX))

    def seal(self) -> None:
        """Save the indexes, before the next segment is begun or the log is closed."""
        self.truncate(self.size)
        _, times = self._loaded_indexes()
        times.append(self._max_timestamp, self._max_timestamp_offset - self.base_offset)
        self.save_indexes()

    def save_indexes(self) -> None:
        """Append the new entries to the index files, without a sync."""
        self.aborted.save()
        if self._indexes is not None:
            offsets, times = self._indexes
            offsets.save(self._files, self.path(INDEX_SUFFIX))
            times.save(self._files, self.path(TIME_INDEX_SUFFIX))

    def close(self) -> None:
        """Close the descriptor."""
        self._log.close()

    def remove(self) -> None:
        """Remove the files, the log first: the next start removes an index without a log."""
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
        """Read the index files, add the batches after their last entry; rebuild damaged ones."""
        try:
            offsets = OffsetIndex.load(self._files.read(self.path(INDEX_SUFFIX)), self.size)
            times = TimeIndex.load(self._files.read(self.path(TIME_INDEX_SUFFIX)))
        except FileNotFoundError:
            offsets = times = None
        if offsets is None or times is None:
            self.rebuild()
            return
        self._use_indexes(offsets, times)

    def _use_indexes(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Set the indexes, and read the batches after their last entry."""
        self._indexes = offsets, times
        self._index_bytes = len(offsets) * TIME_ENTRY_SIZE
        self._max_timestamp, relative_offset = times.last or (-1, 0)
        self._max_timestamp_offset = self.base_offset + relative_offset
        self._bytes_since_index = 0
        for position, batch in self.complete_batches(offsets.boundary_at_or_before(self.size)):
            # The batch at the last entry's position is already in the index.
            if batch.max_timestamp > self._max_timestamp:
                self._max_timestamp = batch.max_timestamp
                self._max_timestamp_offset = batch.last_offset
            self._bytes_since_index += batch.size
            self._remember_position(batch.base_offset, position)

    def rebuild(self, on_batch: Callable[[BatchView], None] | None = None) -> tuple[int, int]:
        """Index the log again; return the position and offset after the last valid batch.

        `on_batch` is called with every valid batch.
        """
        self._indexes = OffsetIndex(), TimeIndex()
        self._index_bytes = 0
        self._recent_positions.clear()
        self._bytes_since_index = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = self.base_offset
        self.known_first_timestamp = None
        end, next_offset = 0, self.base_offset
        for position, batch in valid_batches(self._log.pread, self.size, self.base_offset):
            self._index_batch(batch, position)
            if on_batch is not None:
                on_batch(batch)
            end, next_offset = position + batch.size, batch.last_offset + 1
        return end, next_offset

    # --- reading -----------------------------------------------------------------------------

    def end(self) -> tuple[int, int]:
        """Return the position and the offset after the last complete batch.

        The search begins at the last index entry. The position is before the end of the file if
        the last batch is incomplete.
        """
        offsets, _ = self._loaded_indexes()
        end, next_offset = offsets.boundary_at_or_before(self.size), self.base_offset
        for position, batch in self.complete_batches(end):
            end, next_offset = position + batch.size, batch.last_offset + 1
        return end, next_offset

    def complete_batches(self, position: int) -> Iterator[tuple[int, BatchView]]:
        """Yield the batches from a batch boundary to the first damaged length or the end."""
        return positioned_batches(self._log.pread, position, self.size)

    def batches(self, start: int, *, check_crc: bool = False) -> Iterator[tuple[int, BatchView]]:
        """Yield the batches from a batch boundary to the end, each with its position.

        Raises DamagedLogError at an impossible length and, with `check_crc`, at a batch that does
        not match its CRC.
        """
        end = start
        for position, batch in self.complete_batches(start):
            if check_crc and not (batch.magic == MAGIC_2 and batch.has_valid_crc()):
                break
            yield position, batch
            end = position + batch.size
        if end < self.size:
            raise self.damage_at(end)

    def read_latest_by_key(self, position: int, end: int) -> Iterator[LatestByKey | BatchView]:
        """Yield the batches between two batch boundaries, runs of plain ones as LatestByKey.

        Raises DamagedLogError for a batch that does not match its CRC or has an impossible length.
        """
        try:
            yield from latest_by_key(self._log.pread, position, end)
        except DamagedBatchError as damaged:
            raise self.damage_at(damaged.position) from None

    def end_offset_after_damage(self, position: int, next_offset: int) -> int | None:
        """Return the offset after the valid batches behind a damaged one, None without such.

        The damaged one is at `position`, and its expected offset is `next_offset`.
        """
        return end_offset_after_damage(self._log.pread, position, self.size, next_offset)

    def end_by_index_file(self) -> tuple[int, int]:
        """Return the result of `end`, but read only the last entry of the index file."""
        if self._indexes is not None:
            return self.end()
        try:
            index = self._files.open(self.path(INDEX_SUFFIX))
        except FileNotFoundError:
            return self.end()
        position = last_position(index)
        index.close()
        end, next_offset = position if position < self.size else 0, self.base_offset
        for position, batch in self.complete_batches(end):
            end, next_offset = position + batch.size, batch.last_offset + 1
        return end, next_offset

    def damage_at(self, position: int) -> DamagedLogError:
        """Return the error for the batch at `position`, with its expected offset."""
        offsets, _ = self._loaded_indexes()
        offset = None
        start = offsets.boundary_at_or_before(position)
        if start == 0:
            offset = self.base_offset
        for batch_position, batch in self.complete_batches(start):
            if batch_position >= position:
                break
            offset = batch.last_offset + 1
        return DamagedLogError(self.path(LOG_SUFFIX), position, offset)

    def leader_epoch_at(self, position: int) -> int | None:
        """Return the leader epoch of the batch at a batch boundary, None at the end."""
        prefix = self._log.pread(PREFIX_SIZE, position)
        if position >= self.size or len(prefix) < PREFIX_SIZE:
            return None
        leader_epoch: int = PREFIX.unpack(prefix)[2]
        return leader_epoch

    def locate(self, offset: int) -> int:
        """Return the position of the first batch that ends at or after `offset`, or the size."""
        position = self._recent_positions.get(offset)
        if position is not None:
            return position
        offsets, _ = self._loaded_indexes()
        position = offsets.position_before(offset - self.base_offset)
        while position < self.size:
            chunk = self._log.pread(_SCAN_CHUNK_SIZE, position)
            chunk_position = 0
            while len(chunk) - chunk_position >= BOUNDS_SIZE:
                base, length, last_delta = BOUNDS.unpack_from(chunk, chunk_position)
                if base + last_delta >= offset:
                    return position + chunk_position
                chunk_position += self._checked_size(length, position + chunk_position)
            if chunk_position <= 0:
                raise self.damage_at(position)
            position += chunk_position
        return self.size

    def offset_at_or_after(self, position: int) -> int | None:
        """Return an indexed offset at or after the batch at `position`, or None."""
        relative_offset = self._loaded_indexes()[0].offset_at_or_after(position)
        return None if relative_offset is None else self.base_offset + relative_offset

    def position_before_time(self, timestamp: int) -> int:
        """Return a batch boundary; all timestamps before it are smaller than `timestamp`."""
        offsets, times = self._loaded_indexes()
        return offsets.position_before(times.offset_before(timestamp))

    def read(self, position: int, end: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """Return complete batches from a batch boundary on, up to `end` and to `max_bytes`.

        With `at_least_one`, the first batch is returned even if it is larger.
        """
        size = end - position
        if size > max_bytes:
            read_end = self._last_boundary_between(position, position + max_bytes)
            if read_end == position and at_least_one:
                read_end = position + self._batch_size(position)
            size = read_end - position
        if size <= 0:
            return b""
        data = self._log.pread(size, position)
        if len(data) != size:
            raise self.damage_at(position + len(data))
        if (
            size < HEADER_SIZE
            or not _MIN_LENGTH <= _LENGTH.unpack_from(data)[0] <= size - LENGTH_END
        ):
            # Without this error, a consumer would fetch this batch again and again.
            raise self.damage_at(position)
        return data

    def _batch_size(self, position: int) -> int:
        header = self._log.pread(BOUNDS_SIZE, position)
        if len(header) < BOUNDS_SIZE:
            raise self.damage_at(position)
        return self._checked_size(BOUNDS.unpack(header)[1], position)

    def _checked_size(self, length: int, position: int) -> int:
        """Return a batch's size by its length field; raises DamagedLogError if it is invalid."""
        if length < _MIN_LENGTH or position + LENGTH_END + length > self.size:
            raise self.damage_at(position)
        return LENGTH_END + length

    def _last_boundary_between(self, start: int, limit: int) -> int:
        """Return the last batch boundary from `start`, a batch boundary itself, to `limit`.

        The search ends at a damaged batch. Raises DamagedLogError if that batch is the first.
        """
        offsets, _ = self._loaded_indexes()
        position = max(start, offsets.boundary_at_or_before(limit))
        while position < self.size:
            chunk = self._log.pread(_SCAN_CHUNK_SIZE, position)
            chunk_position = 0
            while len(chunk) - chunk_position >= BOUNDS_SIZE:
                base, length, _ = BOUNDS.unpack_from(chunk, chunk_position)
                batch_position = position + chunk_position
                if length >= _MIN_LENGTH and batch_position + LENGTH_END + length > limit:
                    self._remember_position(base, batch_position)
                    return batch_position
                if length < _MIN_LENGTH:
                    if batch_position > start:
                        return batch_position
                    raise self.damage_at(position)
                chunk_position += LENGTH_END + length
            if chunk_position <= 0:
                raise self.damage_at(position)
            position += chunk_position
        return position
