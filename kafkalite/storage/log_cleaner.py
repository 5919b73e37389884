"""Compaction of a log: segments are filtered and rewritten as fewer segments.

A batch from which no record is removed, or that cannot be read, is copied unchanged. If some
records are removed, the batch is rewritten with the same offsets. If all are removed, the batch is
dropped, unless it is the last batch of an idempotent producer, whose sequence number must stay in
the log, or the last of a segment, so that there is no gap between segments. Tombstones and
transaction markers stay for delete.retention.ms after the first compaction that reads them, which
sets the delete horizon of their batch (KIP-534).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.storage import compression
from kafkalite.storage.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    NO_TIMESTAMP,
    BatchProducer,
    assemble,
)
from kafkalite.storage.compaction import AbortedRanges, LatestOffsets, collect_latest_offsets
from kafkalite.storage.record_format import (
    MalformedRecordsError,
    ScannedRecord,
    frame_record,
    scan_records,
)
from kafkalite.storage.segment import Segment
from kafkalite.storage.segment_replacement import cleaned_path, commit_swap, finish_swap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.ports.background import Steps
    from kafkalite.ports.files import Buffer
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.compaction import CompactionPlan
    from kafkalite.storage.log import Log

_BATCHES_PER_WRITE = 64
_MAX_OFFSET_RANGE = 2**30
"""Limit of the base offsets in a group. An index entry can represent twice as much, so the offsets
of the last segment fit as well."""


class BatchFilter:
    """Decides for each batch, in the order of the log, which records compaction keeps."""

    __slots__ = (
        "_aborted",
        "_delete_retention_ms",
        "_latest",
        "_log",
        "_now_ms",
        "_producers_in_transaction",
    )

    def __init__(
        self, log: Log, latest: LatestOffsets, aborted: AbortedRanges, now_ms: int
    ) -> None:
        self._log = log
        self._latest = latest
        self._aborted = aborted
        self._now_ms = now_ms
        self._delete_retention_ms = log.config.delete_retention_ms
        # Producers of which transactional batches were read, and not yet the marker after them.
        self._producers_in_transaction: set[int] = set()

    def apply(self, batch: BatchView, *, is_last: bool) -> Buffer | None:
        """Return the bytes of a batch after compaction, or None if it is dropped.

        `is_last`: it is the last batch of its group of segments.
        """
        if batch.is_control:
            filtered = self._apply_to_marker(batch)
        else:
            if batch.is_transactional:
                self._producers_in_transaction.add(batch.producer_id)
            filtered = None if self._aborted.contains(batch) else self._apply_to_data(batch)
        if filtered is None and (is_last or self._is_last_of_producer(batch)):
            return _empty_batch(batch)
        return filtered

    def _apply_to_marker(self, batch: BatchView) -> Buffer | None:
        if not batch.record_count:
            return None
        if batch.producer_id in self._producers_in_transaction:
            self._producers_in_transaction.discard(batch.producer_id)
            return batch.data
        horizon_ms = batch.delete_horizon_ms
        if horizon_ms is None:
            # The transaction's records are removed, but active readers still need the marker.
            records = list(scan_records(batch.body(), batch.record_count))
            return _rebuild_batch(batch, records, self._now_ms + self._delete_retention_ms)
        return batch.data if self._now_ms < horizon_ms else None

    def _apply_to_data(self, batch: BatchView) -> Buffer | None:
        if not batch.record_count:
            return None
        horizon_ms = batch.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms
        latest, base_offset = self._latest, batch.base_offset
        try:
            records = [
                record
                for record in scan_records(batch.body(), batch.record_count)
                if record.key is not None
                and latest.is_latest(record.key, base_offset + record.offset_delta)
                and (record.value is not None or keeps_tombstones)
            ]
        except MalformedRecordsError:
            return batch.data
        if not records:
            return None
        sets_horizon = horizon_ms is None and any(record.value is None for record in records)
        if sets_horizon:
            return _rebuild_batch(batch, records, self._now_ms + self._delete_retention_ms)
        if len(records) == batch.record_count:
            return batch.data
        return _rebuild_batch(batch, records, None)

    def _is_last_of_producer(self, batch: BatchView) -> bool:
        entry = self._log.producers.get(batch.producer_id) if batch.has_producer_id else None
        if entry is None:
            return False
        if entry.batches:
            return not batch.is_control and entry.batches[-1].last_offset == batch.last_offset
        return batch.is_control and batch.producer_epoch == entry.producer_epoch


def _rebuild_batch(
    batch: BatchView, records: Sequence[ScannedRecord], horizon_ms: int | None
) -> bytes:
    """Return the batch with some of its records; `horizon_ms` becomes its base timestamp."""
    body = batch.body()
    old_base_timestamp = batch.base_timestamp
    base_timestamp = old_base_timestamp if horizon_ms is None else horizon_ms
    shift_ms = old_base_timestamp - base_timestamp
    payload = b"".join(
        frame_record(
            record.offset_delta,
            record.timestamp_delta + shift_ms,
            body[record.body_position : record.end_position],
        )
        for record in records
    )
    newest_timestamp = max(old_base_timestamp + record.timestamp_delta for record in records)
    return assemble(
        compression.compress(batch.compression, payload),
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes if horizon_ms is None else batch.attributes | DELETE_HORIZON,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=batch.max_timestamp if batch.is_log_append_time else newest_timestamp,
        producer=_producer_of(batch),
        record_count=len(records),
    )


def _empty_batch(batch: BatchView) -> bytes:
    return assemble(
        b"",
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON),
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        producer=_producer_of(batch),
        record_count=0,
    )


def _producer_of(batch: BatchView) -> BatchProducer:
    return BatchProducer(batch.producer_id, batch.producer_epoch, batch.base_sequence)


def clean(log: Log, plan: CompactionPlan, *, now_ms: int) -> Steps:
    """Compact a log in steps; appends and reads continue between the steps.

    Each step handles one batch, or yields a job that waits for the disk. After an OSError the
    log is in the state after the last complete group of segments. Compaction ends early if a
    segment is removed, or the log is truncated, after the plan was made: then records may be
    missing that were the latest of their keys.
    """
    if log.truncation_count != plan.truncation_count:
        return
    try:
        yield from _clean(log, plan, now_ms)
    except FileNotFoundError:
        return


def _clean(log: Log, plan: CompactionPlan, now_ms: int) -> Steps:
    aborted = AbortedRanges(log.aborted_transactions(log.start_offset, plan.end_offset))
    latest = LatestOffsets(plan.first_dirty_offset)
    for collected in collect_latest_offsets(log, plan, aborted):
        latest = collected
        yield None
        if log.truncation_count != plan.truncation_count:
            return
    batch_filter = BatchFilter(log, latest, aborted, now_ms)
    segments = [segment for segment in log.segments[:-1] if segment.base_offset < latest.end]
    for group in group_segments(segments, log.config.segment_bytes):
        yield from _clean_group(log, group, batch_filter, plan.truncation_count)
        if group[0] in log.segments or log.truncation_count != plan.truncation_count:
            # Another task removed a segment, or truncated the log: the rest is left to the next
            # compaction.
            return
    log.first_dirty_offset = max(log.first_dirty_offset, latest.end)


def group_segments(segments: Sequence[Segment], max_bytes: int) -> list[list[Segment]]:
    """Return groups of segments that fit into one segment."""
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        offset_range = segment.base_offset - groups[-1][0].base_offset if groups else 0
        if groups and size + segment.size <= max_bytes and offset_range < _MAX_OFFSET_RANGE:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def _clean_group(
    log: Log, group: Sequence[Segment], batch_filter: BatchFilter, truncation_count: int
) -> Steps:
    """Write the filtered batches of a group, and replace the group if it is still in the log.

    A group that was truncated is not read any further: its batches may begin elsewhere.
    """
    base_offset = group[0].base_offset
    path = cleaned_path(log.directory, base_offset)
    log.files.remove(path)
    file = log.files.open(path, create=True)
    try:
        pending: list[Buffer] = []
        for number, filtered in enumerate(_filter_batches(group, batch_filter)):
            if filtered is not None:
                pending.append(filtered)
            if number % _BATCHES_PER_WRITE == 0:
                file.append(pending)
                pending = []
            yield None
            if log.truncation_count != truncation_count:
                break
        file.append(pending)
    finally:
        file.close()
    yield lambda: log.files.sync(path)
    slot = log.segments.index(group[0]) if group[0] in log.segments else None
    is_in_log = slot is not None and list(log.segments[slot : slot + len(group)]) == list(group)
    if not is_in_log or log.truncation_count != truncation_count:
        log.files.remove(path)
        return
    for segment in group:
        segment.close()
    commit_swap(log.files, log.directory, base_offset)
    finish_swap(log.files, log.directory, base_offset, [segment.base_offset for segment in group])
    new_segment = Segment(log.files, log.directory, base_offset, log.config.index_interval_bytes)
    new_segment.created_ms = group[0].created_ms
    log.replace_segments(group, new_segment)


def _filter_batches(group: Sequence[Segment], batch_filter: BatchFilter) -> Iterator[Buffer | None]:
    for segment in group:
        for position, batch in segment.batches(0):
            is_last = segment is group[-1] and position + batch.size == segment.size
            yield batch_filter.apply(batch, is_last=is_last)
