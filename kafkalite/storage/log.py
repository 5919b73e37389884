"""The log of a partition: append, read, roll, delete before an offset, and truncate at one.

The directory has Kafka's format. It is created with the first batch, so an empty partition has no
files. Offsets are assigned by replacing the first sixteen bytes of a batch. The log has no high
watermark: callers pass the offset up to which they may read.
"""

from __future__ import annotations

import errno
from bisect import bisect_left, bisect_right
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NoReturn
from zlib import crc32

from kafkalite.ports.files import join
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage.batch import LOG_APPEND_TIME, PREFIX, PREFIX_SIZE
from kafkalite.storage.checkpoint import write_partition_metadata
from kafkalite.storage.disk_health import DamagedFileError, DiskHealth, FileUse, MissingFileError
from kafkalite.storage.file_names import deleted_directory, remove_directory_and_files
from kafkalite.storage.flushing import plan_flush, sync
from kafkalite.storage.leader_epochs import NO_EPOCH
from kafkalite.storage.log_loader import (
    EPOCHS_FILE,
    UNFLUSHED_SUFFIX,
    LoadedLog,
    Recovery,
    load_log,
    load_producers,
    no_files,
)
from kafkalite.storage.producer_snapshot import remove_snapshots, take_snapshot
from kafkalite.storage.producer_state import ProducerStateTable
from kafkalite.storage.segment import LOG_SUFFIX, Segment, segment_name
from kafkalite.storage.segment_replacement import SWAP_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.config.log_config import LogConfig
    from kafkalite.ports.files import Buffer, Files
    from kafkalite.storage.aborted_transactions import AbortedTransaction
    from kafkalite.storage.append_times import LogAppends
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.flushing import Flush
    from kafkalite.storage.latest_by_key import LatestByKey

PARTITION_METADATA_FILE = "partition.metadata"

_new = tuple.__new__  # the constructor of a NamedTuple is a function in Python
_LAST_OFFSET = attrgetter("last_offset")
_PERMANENT_FAILURES = (DamagedFileError, MissingFileError)
"""Failures that remain even if a later append would succeed."""
_PROBE_FILE = "probe.tmp"  # files with this name are removed when the log is loaded
_MAX_PROBE_BYTES = 1 << 20
_INT32_MAX = 2**31 - 1
_INDEX_ENTRY_SIZE = 12  # of the time index, whose entries are larger


class OffsetOutOfRangeError(LookupError):
    """An offset before the start of the log or beyond its end."""


class AppendInfo(NamedTuple):
    """Result of an append; `append_time_ms` is -1 unless the topic uses LogAppendTime."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    append_time_ms: int


class Log:
    """The log of one partition: its segments, leader epochs and producers."""

    __slots__ = (
        "_append_failure",
        "_are_checkpoints_synced",
        "_base_offsets",
        "_flush_failure",
        "_is_created",
        "_segments",
        "_topic_id",
        "_unflushed_offsets",
        "appends",
        "config",
        "damage_errors",
        "directory",
        "end_offset",
        "epochs",
        "files",
        "first_dirty_offset",
        "health",
        "is_unchanged",
        "logs_to_flush",
        "producers",
        "recovery_point",
        "start_offset",
        "truncated_bytes",
        "truncated_end_offset",
        "truncation_count",
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
        health: DiskHealth | None = None,
    ) -> None:
        self.directory = directory
        self.health = DiskHealth() if health is None else health
        self.config = config
        self.truncated_bytes = loaded.truncated_bytes
        self.truncated_end_offset = loaded.truncated_end_offset
        self.truncation_count = 0
        """How often the end was truncated; work that began before a truncation is discarded."""
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.end_offset = loaded.end_offset
        self.recovery_point = recovery_point
        self.first_dirty_offset = 0
        self.appends: LogAppends | None = None
        """When batches were appended; None if that is not noted."""
        self.files = files
        self._topic_id = topic_id
        self._segments = loaded.segments
        self._base_offsets = [segment.base_offset for segment in loaded.segments]
        self._flush_failure: OSError | None = None
        self._unflushed_offsets = loaded.unflushed_offsets
        self.logs_to_flush: set[Log] | None = None
        """Set to which this log adds itself if it must be flushed; None: it flushes immediately."""
        self._are_checkpoints_synced = False
        self._append_failure: OSError | None = loaded.damage
        self._is_created = bool(loaded.segments)
        self.is_unchanged = loaded.is_clean
        """Whether the files have everything that a clean start needs."""
        self.start_offset = max(start_offset, self._base_offsets[0] if self._base_offsets else 0)
        self.damage_errors = loaded.gaps if loaded.damage is None else (loaded.damage, *loaded.gaps)
        """Damage that was found when the log was loaded; reads may find more."""
        for damage in self.damage_errors:
            self.health.report_failure(directory, damage, FileUse.READING)

    @property
    def has_disk_failure(self) -> bool:
        """Whether the last append failed, or the log refuses appends."""
        return self._append_failure is not None or self._flush_failure is not None

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        now_ms: int,
        clean_shutdown: bool = False,
        may_have_lost_writes: bool = True,
        start_offset: int = 0,
        recovery_point: int = 0,
        topic_id: str | None = None,
        health: DiskHealth | None = None,
        is_internal: bool = False,
    ) -> Log:
        """Return the log in `directory`, which need not exist yet.

        `start_offset` and `recovery_point` come from the checkpoints, 0 without one; `topic_id` is
        the text for partition.metadata. Disk failures are reported to `health`. A log whose
        acknowledged records are damaged accepts no records. `may_have_lost_writes` and
        `is_internal` are those of `Recovery`. Raises OSError when the directory cannot be read.
        """
        loaded = load_log(
            files,
            directory,
            config,
            now_ms=now_ms,
            start_offset=start_offset,
            recovery=Recovery(
                recovery_point,
                is_clean=clean_shutdown,
                may_have_lost_writes=may_have_lost_writes and not clean_shutdown,
                is_internal=is_internal,
            ),
        )
        return cls(
            files,
            directory,
            config,
            loaded,
            start_offset=start_offset,
            recovery_point=loaded.end_offset if clean_shutdown else recovery_point,
            topic_id=topic_id,
            health=health,
        )

    @classmethod
    def without_files(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        topic_id: str | None,
        health: DiskHealth,
    ) -> Log:
        """Return an empty log; `directory` does not exist or is empty, and is not read."""
        return cls(
            files,
            directory,
            config,
            no_files(),
            start_offset=0,
            recovery_point=0,
            topic_id=topic_id,
            health=health,
        )

    def copy_to(self, files: Files, health: DiskHealth | None = None) -> Log:
        """Return the same log in other files, which are a copy of these files.

        The log has not failed, and its files have everything that a clean start needs. Without
        `health`, it is only a source of other copies.
        """
        loaded = LoadedLog(
            [segment.copy_to(files) for segment in self._segments],
            self.end_offset,
            self.epochs.copy(),
            self.producers.copy() if len(self.producers) else ProducerStateTable(),
            0,
            self.end_offset,
            is_clean=True,
            unflushed_offsets=self._unflushed_offsets,
        )
        copy = Log(
            files,
            self.directory,
            self.config,
            loaded,
            start_offset=self.start_offset,
            recovery_point=self.recovery_point,
            topic_id=self._topic_id,
            health=health,
        )
        copy._are_checkpoints_synced = self._are_checkpoints_synced
        copy.first_dirty_offset = self.first_dirty_offset
        if self.appends is not None:
            copy.appends = self.appends.copy(self.appends.times)
        return copy

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether a segment was begun before the previous one was flushed."""
        return bool(self._unflushed_offsets)

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
        are_offsets_assigned: bool = False,
    ) -> AppendInfo:
        """Append at least one checked batch, all or nothing; raises OSError when the disk refuses.

        Each batch gets the next offset as its `base_offset`, and its `leader_epoch`. With
        `are_offsets_assigned`, the attributes and bytes of the batches have these values already. A
        failure is reported to `health`, and so is the first append that succeeds after it.
        """
        if self._flush_failure is not None or self._append_failure is not None:
            return self._append_after_failure(batches, leader_epoch, now_ms, are_offsets_assigned)
        base_offset = offset = self.end_offset
        size, max_timestamp = 0, -1
        buffers: list[Buffer] = []
        for batch in batches:
            if are_offsets_assigned:
                buffers.append(batch.data)
            else:
                prefix = PREFIX.pack(offset, batch.length, leader_epoch)
                buffers += prefix, memoryview(batch.data)[PREFIX_SIZE:]
                batch.base_offset = offset
                batch.leader_epoch = leader_epoch
            offset += batch.last_offset_delta + 1
            size += batch.size
            max_timestamp = max(max_timestamp, batch.max_timestamp)
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        try:
            segment = self._segment_for(size, offset - 1, max_timestamp, now_ms)
            self.is_unchanged = False
            segment.append(buffers, batches)
        except OSError as error:
            self._append_failed(error, size)
            raise
        self.end_offset = offset
        if (own := self.appends) and (own.number != own.times.number or now_ms > own.times.last_ms):
            own.add(now_ms, base_offset)
        for batch in batches:
            ended = self.producers.update(batch) if batch.producer_id >= 0 else None
            if ended is not None and ended.is_aborted:
                segment.aborted.append(ended)
        if offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        append_time_ms = max_timestamp if batches[-1].attributes & LOG_APPEND_TIME else -1
        return _new(AppendInfo, (base_offset, offset - 1, max_timestamp, append_time_ms))

    def _append_after_failure(
        self,
        batches: Sequence[BatchView],
        leader_epoch: int,
        now_ms: int,
        are_offsets_assigned: bool,  # noqa: FBT001 - a parameter of `append`
    ) -> AppendInfo:
        """Append to a log whose last append failed, unless the failure is permanent."""
        if self._flush_failure is not None:
            self._raise_failure()
        failure, self._append_failure = self._append_failure, None
        if isinstance(failure, _PERMANENT_FAILURES):
            self._append_failure = failure
            raise OSError(failure.errno, failure.strerror, failure.filename) from failure
        info = self.append(
            batches,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
            are_offsets_assigned=are_offsets_assigned,
        )
        self.health.report_success(self.directory, FileUse.WRITING)
        return info

    def _append_failed(self, error: OSError, size: int) -> None:
        if self._flush_failure is not None:
            return
        self._append_failure = error
        # After EFBIG, a small write would succeed, but a large one might still fail.
        retry = None if error.errno == errno.EFBIG else partial(self._probe, size)
        self.health.report_failure(self.directory, error, FileUse.WRITING, retry)

    def _probe(self, size: int) -> None:
        """Write and remove a file in the log's directory; raises OSError when the disk refuses."""
        directory = self.directory if self._is_created else self.directory.rpartition("/")[0]
        path = join(directory, _PROBE_FILE)
        if self._segments:
            self._segments[-1].probe()
        try:
            self.files.write(path, bytes(min(size, _MAX_PROBE_BYTES)))
            self.files.sync(path)
        finally:
            self.files.remove(path)

    def check_in_place(self) -> None:
        """Refuse appends if the log's files were deleted or moved away while in use.

        Appends are accepted again when the same files are back: no acknowledged record was lost.
        """
        if not self._segments or isinstance(self._append_failure, DamagedFileError):
            return
        is_missing = isinstance(self._append_failure, MissingFileError)
        for segment in (self._segments[-1], self._segments[0]):
            if not segment.is_in_place():
                if not is_missing:
                    self._append_failure = MissingFileError(segment.path(LOG_SUFFIX))
                    self.health.report_failure(
                        self.directory, self._append_failure, FileUse.WRITING
                    )
                return
        if is_missing:
            self._append_failure = None
            self.health.report_success(self.directory, FileUse.WRITING)

    def _raise_failure(self) -> NoReturn:
        problem = "an earlier write to this log failed"
        failure = self._flush_failure or self._append_failure
        raise OSError(errno.EIO, problem, self.directory) from failure

    def _segment_for(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """Return the segment for an append; a new one when the last is full."""
        if self._segments:
            active = self._segments[-1]
            if not must_roll(active, self.config, size, last_offset, max_timestamp, now_ms):
                return active
        return self._roll(now_ms)

    def _roll(self, now_ms: int) -> Segment:
        """Begin a new segment at the end of the log."""
        self.is_unchanged = False
        if not self._is_created:
            self._create()
        if self._segments:
            self._segments[-1].seal()
            take_snapshot(self.files, self.directory, self.end_offset, self.producers)
            if "compact" in self.config.cleanup_policy:
                self._flush_or_mark_unflushed()
        interval = self.config.index_interval_bytes
        segment = Segment(self.files, self.directory, self.end_offset, interval, create=True)
        segment.created_ms = now_ms
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        return segment

    def _flush_or_mark_unflushed(self) -> None:
        """Flush before a segment is begun, or mark the new segment and request a flush.

        Kafka's compaction leaves gaps between segments. Without the mark, recovery could not
        distinguish such a gap from the end of a segment that was lost in a power failure.
        """
        if self.logs_to_flush is None:
            self.flush()
            return
        self.files.write(self._unflushed_path(self.end_offset), b"")
        self._unflushed_offsets = (*self._unflushed_offsets, self.end_offset)
        self.logs_to_flush.add(self)

    def _unflushed_path(self, base_offset: int) -> str:
        return join(self.directory, segment_name(base_offset, UNFLUSHED_SUFFIX))

    def _create(self) -> None:
        # A missing data directory is not recreated: a user deleted it.
        self.files.mkdir(self.directory)
        if self._topic_id is not None:
            path = join(self.directory, PARTITION_METADATA_FILE)
            write_partition_metadata(self.files, path, self._topic_id)
        self._is_created = True

    # --- reading -----------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, limit_offset: int, at_least_one: bool) -> bytes:
        """Return complete batches from the one that contains `offset`, up to `limit_offset`.

        All are from one segment, `max_bytes` at most. With `at_least_one`, the first batch is
        returned even if it is larger. Raises OffsetOutOfRangeError outside of the log.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(offset)
        if offset >= limit_offset:
            return b""
        for segment in self._segments_from(offset):
            position = segment.locate(offset)
            if position < segment.size:
                is_read_to_end = limit_offset >= self.end_offset
                end = segment.size if is_read_to_end else segment.locate(limit_offset)
                return segment.read(position, end, max_bytes, at_least_one=at_least_one)
        return b""

    def segment_index(self, offset: int) -> int:
        """Return the index of the segment that contains `offset`; 0 is the oldest."""
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def _segments_from(self, offset: int) -> Iterator[Segment]:
        slot = self.segment_index(offset)
        while slot < len(self._segments):
            yield self._segments[slot]
            slot += 1

    def batches(self, from_offset: int = 0, *, check_crc: bool = False) -> Iterator[BatchView]:
        """Yield the batches as they are on disk, from the one that contains `from_offset`.

        Raises the errors of `Segment.batches`.
        """
        for segment in self._segments_from(from_offset):
            for _, batch in segment.batches(segment.locate(from_offset), check_crc=check_crc):
                yield batch

    def read_latest_by_key(
        self, from_offset: int, to_offset: int
    ) -> Iterator[LatestByKey | BatchView]:
        """Yield the batches from the one that contains `from_offset`; plain ones as LatestByKey.

        Ends before the batch that contains `to_offset`; `latest_by_key` defines plain batches.
        Raises DamagedLogError for a batch that does not match its CRC.
        """
        for segment in self._segments_from(from_offset):
            if segment.base_offset < to_offset:
                yield from segment.read_latest_by_key(
                    segment.locate(from_offset), segment.locate(to_offset)
                )

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records between two offsets."""
        transactions = []
        for segment in self._segments_from(offset):
            entries = segment.aborted.entries
            # Ordered by their last offsets: a reader near the end of the log skips nearly all.
            first = bisect_left(entries, offset, key=_LAST_OFFSET)
            for slot in range(first, len(entries)):
                aborted = entries[slot]
                if aborted.first_offset < end_offset:
                    transactions.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return transactions
        return transactions

    # --- deleting and rolling ----------------------------------------------------------------

    def skip_to(self, offset: int) -> None:
        """Let the next batch begin at `offset`, which is the end of the log or after it.

        The offsets before it have no records, as after compaction. An empty log starts there.
        """
        if not self.end_offset:
            self.start_offset = offset
        self.end_offset = offset

    def delete_before(self, offset: int) -> None:
        """Make `offset` the start of the log; segments that are entirely before it are removed.

        Raises OffsetOutOfRangeError for an offset beyond the end. An offset before the start
        changes nothing.
        """
        if offset > self.end_offset:
            raise OffsetOutOfRangeError(offset)
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)
        count = bisect_right(self._base_offsets, offset) - 1
        if count > 0:
            self.remove_segments(count)

    def prepare_truncation(self, end_offset: int) -> None:
        """Lower the offsets in checkpoints, because records from `end_offset` on will be removed.

        Recovery then reads the segment that will be the last one, whose indexes are written again.
        """
        end_offset = max(end_offset, self.start_offset)
        if end_offset >= self.end_offset:
            return
        last = self._base_offsets[self._last_segment_index(end_offset)]
        self.recovery_point = min(self.recovery_point, last)
        self.first_dirty_offset = min(self.first_dirty_offset, end_offset)

    def truncate_to(self, end_offset: int) -> None:
        """Remove the records from `end_offset` on, where a batch or the log begins.

        The caller calls `prepare_truncation` and writes the checkpoints first. After a crash, the
        log ends at `end_offset` or later, and contains all records before its end. When this
        returns, the removed records do not come back after a crash.

        Raises OSError when the disk fails, or has failed before: then readers see no removed
        record, no append is accepted, and the files may still contain removed records. An offset
        beyond the end changes nothing.
        """
        end_offset = max(end_offset, self.start_offset)
        if end_offset >= self.end_offset:
            return
        self.is_unchanged = False
        self.truncation_count += 1
        self.prepare_truncation(end_offset)
        try:
            removed = self._truncate_in_memory(end_offset)
            if self._flush_failure or isinstance(self._append_failure, _PERMANENT_FAILURES):
                self._raise_failure()
            self._truncate_files(removed)
            self.producers = load_producers(
                self.files, self.directory, self._segments, end_offset, None
            )
        except OSError as error:
            self.fail(error)
            raise

    def _last_segment_index(self, end_offset: int) -> int:
        """Return the index of the last segment of a log that is truncated to `end_offset`."""
        return max(0, bisect_left(self._base_offsets, end_offset) - 1)

    def _truncate_in_memory(self, end_offset: int) -> list[Segment]:
        """Remove the records from `end_offset` on in memory; return the segments to remove."""
        count = self._last_segment_index(end_offset) + 1
        self._segments[count - 1].truncate_to(end_offset)
        removed = self._segments[count:]
        del self._segments[count:], self._base_offsets[count:]
        self.epochs.truncate_from_end(end_offset)
        self.end_offset = end_offset
        if self.appends is not None:
            self.appends.truncate(end_offset)
        return removed

    def _truncate_files(self, removed: Sequence[Segment]) -> None:
        """Remove segments from the disk, and the removed part of the last remaining one."""
        if any(name.endswith(SWAP_SUFFIX) for name in self.files.list(self.directory)):
            # The next start completes the compaction, which would restore removed records.
            reason = "a failed compaction prevents the truncation"
            raise OSError(errno.EIO, reason, self.directory)
        # Newest first, and the remaining one last, so that the log has no gap after a crash.
        for segment in reversed(removed):
            segment.remove()
        if removed:
            self.files.sync_directory(self.directory)
        last = self._segments[-1]
        last.truncate_files()
        for base_offset in self._unflushed_offsets:
            if base_offset > last.base_offset:
                self.files.remove(self._unflushed_path(base_offset))
        self._unflushed_offsets = tuple(
            base for base in self._unflushed_offsets if base <= last.base_offset
        )

    def leader_epoch_at(self, offset: int) -> int:
        """Return the leader epoch of the first batch that ends at or after `offset`, or -1.

        It is read from the batch. Raises OSError if that cannot be read.
        """
        for segment in self._segments_from(offset):
            leader_epoch = segment.leader_epoch_at(segment.locate(offset))
            if leader_epoch is not None:
                return leader_epoch
        return NO_EPOCH

    def remove_segments(self, count: int) -> None:
        """Remove the oldest `count` segments, never the active one."""
        self.is_unchanged = False
        removed = self._segments[:count]
        assert len(removed) < len(self._segments)
        # Oldest first, so that the remaining offsets are contiguous after a crash.
        try:
            for segment in removed:
                segment.remove()
                del self._segments[0], self._base_offsets[0]
        except OSError as error:
            self.health.report_failure(self.directory, error, FileUse.DELETING)
            raise
        self.health.report_success(self.directory, FileUse.DELETING)
        self.start_offset = max(self.start_offset, self._base_offsets[0])
        self.epochs.truncate_from_start(self.start_offset)
        remove_snapshots(self.files, self.directory, keep={*self._base_offsets, self.end_offset})

    def roll(self, now_ms: int) -> None:
        """Begin a new segment now, unless the last is empty or accepts no records."""
        if (
            self._segments
            and self._segments[-1].size
            and self._flush_failure is None
            and not isinstance(self._append_failure, _PERMANENT_FAILURES)
        ):
            try:
                self._roll(now_ms)
            except OSError as error:
                self._append_failed(error, 0)
                raise

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace the segments `old` by `new`, whose files are in place already."""
        self.is_unchanged = False
        slot = self._segments.index(old[0])
        self._segments[slot : slot + len(old)] = [new]
        self._base_offsets[slot : slot + len(old)] = [new.base_offset]

    # --- flushing and closing ----------------------------------------------------------------

    def flush(self) -> None:
        """Sync the log, so that everything appended so far survives a loss of power.

        After an OSError no append is accepted: the system may have dropped data that it could not
        write, and a later flush would succeed without this data.
        """
        try:
            flush = self.begin_flush()
            if flush is None:
                return
            sync(self.files, flush)
        except OSError as failure:
            self.fail(failure)
            raise
        self.end_flush(flush, None)

    def begin_flush(self) -> Flush | None:
        """Write the files that a flush needs, and return the flush; None if all is flushed.

        `end_flush` must be called afterwards. Raises OSError when the disk refuses.
        """
        if self._flush_failure is not None:
            self._raise_failure()
        if self.recovery_point >= self.end_offset or not self._segments:
            return None
        return self._plan_flush()

    def _plan_flush(self) -> Flush:
        flushed = list(self._segments_from(self.recovery_point))
        for segment in flushed:
            segment.save_indexes()
        if not self.epochs.is_saved and not self.epochs.save(
            self.files, join(self.directory, EPOCHS_FILE)
        ):
            self._are_checkpoints_synced = False
        return plan_flush(
            self.files,
            self.directory,
            [segment.base_offset for segment in flushed],
            self.end_offset,
            truncation_count=self.truncation_count,
            other_names=()
            if self._are_checkpoints_synced
            else (PARTITION_METADATA_FILE, EPOCHS_FILE),
        )

    def end_flush(self, flush: Flush, failure: OSError | None) -> None:
        """Record that `flush` was synced, or refuse all further appends after a `failure`.

        The flush proves nothing if the log was truncated in the meantime. Missing files are no
        failure if the log was truncated or segments were removed.
        """
        was_truncated = flush.truncation_count != self.truncation_count
        if failure is None:
            if was_truncated:
                return
            self.recovery_point = max(self.recovery_point, flush.end_offset)
            self._are_checkpoints_synced = True
            for base_offset in self._unflushed_offsets:
                if base_offset <= flush.end_offset:
                    # A remaining mark does no harm: there is no gap before its segment.
                    with suppress(OSError):
                        self.files.remove(self._unflushed_path(base_offset))
            self._unflushed_offsets = tuple(
                base for base in self._unflushed_offsets if base > flush.end_offset
            )
        elif not isinstance(failure, FileNotFoundError) or (
            not was_truncated and flush.base_offsets.issubset(self._base_offsets)
        ):
            self.fail(failure)

    def fail(self, failure: OSError) -> None:
        """Accept no more records, because the files may differ from the log in memory."""
        if self._flush_failure is None:
            self._flush_failure = failure
            self.health.report_failure(self.directory, failure, FileUse.WRITING)

    def close(self) -> None:
        """Flush, save indexes and producers, and close all descriptors: a clean shutdown.

        Raises OSError when that fails, and for a log that failed before and needs recovery.
        """
        flush = self.begin_close()
        if flush is not None:
            sync(self.files, flush)
            self.end_flush(flush, None)
        self.close_files()

    def begin_close(self) -> Flush | None:
        """Write the files that a clean start needs, and return the flush to be synced, or None.

        Nothing may be appended afterwards. Raises the errors of `close`.
        """
        if isinstance(self._append_failure, DamagedFileError):
            return None
        if self._flush_failure is not None or isinstance(self._append_failure, MissingFileError):
            self._raise_failure()
        if not self._segments or (self.is_unchanged and self.epochs.is_saved):
            return None
        self._segments[-1].seal()
        take_snapshot(self.files, self.directory, self.end_offset, self.producers)
        remove_snapshots(self.files, self.directory, keep={*self._base_offsets, self.end_offset})
        return self._plan_flush()

    def close_files(self) -> None:
        """Close all descriptors without writing."""
        for segment in self._segments:
            segment.close()

    def delete(self) -> str | None:
        """Rename the log's directory, and return its new path if there are files to remove.

        If the process ends before they are removed, the next start removes them.
        """
        self.close_files()
        self.health.forget(self.directory)
        self._segments, self._base_offsets = [], []
        if not self._is_created and not self.files.list(self.directory):
            return None
        removed = deleted_directory(self.directory, self._topic_id)
        remove_directory_and_files(self.files, removed)
        self.files.rename(self.directory, removed)
        self._is_created = False
        return removed


def must_roll(  # noqa: PLR0917 - called for every append
    active: Segment,
    config: LogConfig,
    size: int,
    last_offset: int,
    max_timestamp: int,
    now_ms: int,
) -> bool:
    """Whether `size` bytes of batches up to `last_offset` belong in a segment after `active`."""
    active_bytes = active.size
    return active_bytes > 0 and (
        active_bytes + size > config.segment_bytes
        or last_offset - active.base_offset > _INT32_MAX
        or active.index_bytes + _INDEX_ENTRY_SIZE > config.segment_index_bytes
        or is_overdue(active, config, max_timestamp, now_ms)
    )


def is_overdue(active: Segment, config: LogConfig, max_timestamp: int, now_ms: int) -> bool:
    """Whether the segment is too old, by its records' timestamps or, without them, by the clock."""
    first_timestamp = active.known_first_timestamp
    if first_timestamp is None:
        first_timestamp = active.first_timestamp()
    if first_timestamp is not None and first_timestamp >= 0 <= max_timestamp:
        age_ms = max_timestamp - first_timestamp
    else:
        age_ms = now_ms - active.created_ms
    limit_ms = config.segment_ms
    if 0 < config.max_compaction_lag_ms < limit_ms and "compact" in config.cleanup_policy:
        # Records in the active segment cannot be compacted.
        limit_ms = config.max_compaction_lag_ms
    jitter_ms = config.segment_jitter_ms
    if jitter_ms <= 0 or age_ms <= limit_ms - jitter_ms:
        return age_ms > limit_ms
    return age_ms > limit_ms - _jitter_ms(active, jitter_ms)


def _jitter_ms(segment: Segment, max_ms: int) -> int:
    # The partitions of a topic must not all roll at the same time, but a repeated test must roll
    # at the same times. So the jitter is computed from the name and is not random.
    return crc32(segment.path("").encode()) % (max_ms + 1)
