"""One partition's log: append, read, roll, delete before an offset.

A directory in Kafka's own form, made when the first batch comes: a partition that holds nothing
costs no file. Offsets are given by writing a new head of sixteen bytes before a payload that is
not looked at. There is no high watermark here: who asks says up to where it may read.
"""

from __future__ import annotations

import errno
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from kafkalite.ports.files import join
from kafkalite.storage.batch import FIRST_SIZE, LOG_APPEND_TIME
from kafkalite.storage.checkpoint import write_partition_metadata
from kafkalite.storage.loading import EPOCHS_FILE, load_log
from kafkalite.storage.naming import deleted_directory, remove_tree
from kafkalite.storage.rolling import must_roll
from kafkalite.storage.segment import Segment
from kafkalite.storage.snapshot import remove_snapshots, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.config.log_config import LogConfig
    from kafkalite.ports.files import Buffer, Files
    from kafkalite.storage.aborted import AbortedTransaction
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.folding import Folded
    from kafkalite.storage.loading import LoadedLog

PARTITION_METADATA_FILE = "partition.metadata"

_LAST_OFFSET = attrgetter("last_offset")


class OffsetOutOfRangeError(LookupError):
    """An offset before the start of the log or beyond its end."""


class AppendInfo(NamedTuple):
    """What an append did; `append_time_ms` is -1 unless the records carry the append time."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    append_time_ms: int


class Log:
    """The log of one partition."""

    __slots__ = (
        "_bases",
        "_flush_failure",
        "_is_created",
        "_segments",
        "_topic_id",
        "config",
        "cut_bytes",
        "directory",
        "end_offset",
        "epochs",
        "files",
        "first_dirty_offset",
        "producers",
        "recovery_point",
        "start_offset",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        loaded: LoadedLog,
        *,
        start_offset: int,
        recovery_point: int,
        topic_id: str | None,
    ) -> None:
        self.directory = directory
        self.config = config
        self.cut_bytes = loaded.cut_bytes
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.end_offset = loaded.end_offset
        self.recovery_point = recovery_point
        self.first_dirty_offset = 0
        self.files = files
        self._topic_id = topic_id
        self._segments = loaded.segments
        self._bases = [segment.base_offset for segment in loaded.segments]
        self._flush_failure: OSError | None = None
        self._is_created = bool(loaded.segments)
        self.start_offset = max(start_offset, self._bases[0] if self._bases else 0)

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        now_ms: int,
        clean_shutdown: bool = False,
        start_offset: int = 0,
        recovery_point: int = 0,
        topic_id: str | None = None,
    ) -> Log:
        """Return the log in `directory`, which need not exist yet.

        `start_offset` and `recovery_point` are what the checkpoints say, 0 without one; `topic_id`
        is the text for partition.metadata. OSError when the directory cannot be read.
        """
        loaded = load_log(
            files,
            directory,
            config,
            now_ms=now_ms,
            clean_shutdown=clean_shutdown,
            start_offset=start_offset,
            recovery_point=recovery_point,
        )
        return cls(
            files,
            directory,
            config,
            loaded,
            start_offset=start_offset,
            recovery_point=loaded.end_offset if clean_shutdown else recovery_point,
            topic_id=topic_id,
        )

    @property
    def size_bytes(self) -> int:
        """Length of all segments in bytes."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first; batches are appended to the last."""
        return self._segments

    # --- appending ---------------------------------------------------------------------------

    def append(
        self,
        batches: Sequence[BatchView],
        *,
        leader_epoch: int,
        now_ms: int,
        are_placed: bool = False,
    ) -> AppendInfo:
        """Append at least one checked batch, all or nothing; OSError when the disk refuses.

        Each batch gets the next offsets, and is told so by its `base_offset` and `leader_epoch`;
        with `are_placed` they say so already, in their bytes too.
        """
        if self._flush_failure is not None:
            self._refuse()
        base_offset = offset = self.end_offset
        max_timestamp = -1
        size = 0
        buffers: list[Buffer] = []
        for batch in batches:
            if are_placed:
                buffers.append(batch.data)
            else:
                buffers += (batch.first(offset, leader_epoch), memoryview(batch.data)[FIRST_SIZE:])
                batch.base_offset = offset
                batch.leader_epoch = leader_epoch
            offset += batch.last_offset_delta + 1
            size += batch.size
            max_timestamp = max(max_timestamp, batch.max_timestamp)
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        segment = self._segment_for(size, offset - 1, max_timestamp, now_ms)
        if not self.epochs.is_saved:
            self.epochs.save(self.files, join(self.directory, EPOCHS_FILE))
        segment.append(buffers, batches)
        self.end_offset = offset
        for batch in batches:
            if batch.producer_id >= 0:
                self._update_producers(batch, segment)
        if offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        append_time_ms = max_timestamp if batches[-1].attributes & LOG_APPEND_TIME else -1
        return AppendInfo(base_offset, offset - 1, max_timestamp, append_time_ms)

    def _refuse(self) -> NoReturn:
        problem = "the log failed before"
        raise OSError(errno.EIO, problem, self.directory) from self._flush_failure

    def _update_producers(self, batch: BatchView, segment: Segment) -> None:
        ended = self.producers.update(batch)
        if ended is not None and ended.is_aborted:
            segment.aborted.append(ended)

    def _segment_for(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """Return the segment that an append goes to, a new one when the last is full."""
        if self._segments:
            active = self._segments[-1]
            if not must_roll(active, self.config, size, last_offset, max_timestamp, now_ms):
                return active
        return self._roll(now_ms)

    def _roll(self, now_ms: int) -> Segment:
        """Begin a segment at the end of the log."""
        if not self._is_created:
            self._create()
        if self._segments:
            self._segments[-1].seal()
            take_snapshot(self.files, self.directory, self.end_offset, self.producers)
            if "compact" in self.config.cleanup_policy:
                # Compaction makes gaps, so recovery cannot tell a lost tail by one.
                self.flush()
        interval = self.config.index_interval_bytes
        segment = Segment(self.files, self.directory, self.end_offset, interval, create=True)
        segment.created_ms = now_ms
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        return segment

    def _create(self) -> None:
        self.files.makedirs(self.directory)
        if self._topic_id is not None:
            path = join(self.directory, PARTITION_METADATA_FILE)
            write_partition_metadata(self.files, path, self._topic_id)
        self._is_created = True

    # --- reading -----------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, limit_offset: int, at_least_one: bool) -> bytes:
        """Return whole batches from the one that holds `offset`, of records below the limit.

        All from one segment, `max_bytes` at most; the first batch whatever its size when
        `at_least_one` is set. Raises OffsetOutOfRangeError outside of the log.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(offset)
        if offset >= limit_offset:
            return b""
        for segment in self._segments_from(offset):
            position = segment.locate(offset)
            if position < segment.size:
                is_whole = limit_offset >= self.end_offset
                end = segment.size if is_whole else segment.locate(limit_offset)
                return segment.read(position, end, max_bytes, at_least_one=at_least_one)
        return b""

    def slot_of(self, offset: int) -> int:
        """Return which segment holds `offset`, counted from the oldest."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def _segments_from(self, offset: int) -> Iterator[Segment]:
        slot = self.slot_of(offset)
        while slot < len(self._segments):
            yield self._segments[slot]
            slot += 1

    def batches(self, from_offset: int = 0) -> Iterator[BatchView]:
        """Yield the batches from the one that holds `from_offset` on, as they are on disk."""
        for segment in self._segments_from(from_offset):
            for _, batch in segment.batches(segment.locate(from_offset)):
                yield batch

    def folded(self, from_offset: int, to_offset: int) -> Iterator[Folded | BatchView]:
        """Yield the batches from the one that holds `from_offset` on, runs of plain ones folded.

        The batch that holds `to_offset`, if it is there yet, comes no more.
        """
        for segment in self._segments_from(from_offset):
            if segment.base_offset < to_offset:
                yield from segment.folded(segment.locate(from_offset), segment.locate(to_offset))

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records between two offsets."""
        found = []
        for segment in self._segments_from(offset):
            entries = segment.aborted.entries
            # In the order of their ends: a reader near the end of the log passes over nearly all.
            first = bisect_left(entries, offset, key=_LAST_OFFSET)
            for slot in range(first, len(entries)):
                aborted = entries[slot]
                if aborted.first_offset < end_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return found
        return found

    # --- cutting -----------------------------------------------------------------------------

    def delete_before(self, offset: int) -> None:
        """Let the log start at `offset`; segments wholly before it are removed.

        Raises OffsetOutOfRangeError beyond the end; an offset before the start changes nothing.
        """
        if offset > self.end_offset:
            raise OffsetOutOfRangeError(offset)
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)
        count = bisect_right(self._bases, offset) - 1
        if count > 0:
            self.remove_segments(count)

    def remove_segments(self, count: int) -> None:
        """Remove the oldest `count` segments, never the one that is appended to."""
        doomed = self._segments[:count]
        assert len(doomed) < len(self._segments)
        # Oldest first, so that what a crash leaves is always one run of offsets.
        for segment in doomed:
            segment.remove()
            del self._segments[0], self._bases[0]
        self.start_offset = max(self.start_offset, self._bases[0])
        self.epochs.truncate_from_start(self.start_offset)
        remove_snapshots(self.files, self.directory, keep={*self._bases, self.end_offset})

    def roll(self, now_ms: int) -> None:
        """Begin a new segment now, unless the last one is empty."""
        if self._segments and self._segments[-1].size:
            self._roll(now_ms)

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Let `new` stand where `old` stood; the files are in place already."""
        slot = self._segments.index(old[0])
        self._segments[slot : slot + len(old)] = [new]
        self._bases[slot : slot + len(old)] = [new.base_offset]

    # --- ending ------------------------------------------------------------------------------

    def flush(self) -> None:
        """Return when all that was appended would survive a loss of power.

        OSError when the disk fails; then nothing more is appended, since what the system could
        not write it may have dropped, and a later flush that succeeds would prove nothing.
        """
        if self.recovery_point >= self.end_offset:
            return
        try:
            for segment in self._segments_from(self.recovery_point):
                segment.flush()
            self.files.sync_directory(self.directory)
        except OSError as error:
            self._flush_failure = error
            raise
        self.recovery_point = self.end_offset

    def close(self) -> None:
        """Flush, save indexes and producers, and let the descriptors go; a clean end.

        OSError when that cannot be, and for a log that failed and needs to be recovered.
        """
        if self._flush_failure is not None:
            self._refuse()
        if self._segments:
            self._segments[-1].seal()
            self.flush()
            if not self.epochs.is_saved:
                self.epochs.save(self.files, join(self.directory, EPOCHS_FILE))
            take_snapshot(self.files, self.directory, self.end_offset, self.producers)
            remove_snapshots(self.files, self.directory, keep={*self._bases, self.end_offset})
        self.abandon()

    def abandon(self) -> None:
        """Let the descriptors go and leave the files as they are."""
        for segment in self._segments:
            segment.close()

    def delete(self) -> None:
        """Remove the log and its directory; what a crash leaves of it is swept up on start."""
        self.abandon()
        self._segments, self._bases = [], []
        if self._is_created or self.files.list(self.directory):
            doomed = deleted_directory(self.directory)
            remove_tree(self.files, doomed)
            self.files.rename(self.directory, doomed)
            remove_tree(self.files, doomed)
            self._is_created = False
