"""Compaction carried out: segments go through the filter and come back as fewer.

A batch that loses no record, or cannot be read, is copied as it is. One that loses some is written
anew with the offsets it had; one that loses all goes, unless it is the last that an idempotent
producer wrote, whose sequence number the log must remember, or the last of a segment, so that
segments still join without a gap. Tombstones and transaction markers stay for delete.retention.ms
after the first pass that met them, which sets the horizon in their batch (KIP-534).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.storage import compression
from kafkalite.storage.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    NO_TIMESTAMP,
    Producer,
    assemble,
)
from kafkalite.storage.compaction import AbortedRanges, LatestOffsets, gather_latest_offsets
from kafkalite.storage.records import (
    MalformedRecordsError,
    ScannedRecord,
    frame_record,
    scan_records,
)
from kafkalite.storage.segment import Segment
from kafkalite.storage.swap import cleaned_path, commit_swap, finish_swap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.ports.files import Buffer
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.compaction import CompactionPlan
    from kafkalite.storage.log import Log

_BATCHES_PER_STEP = 64
_MOST_OFFSETS = 2**30  # well within what an index entry can say, whatever the last segment adds


class BatchFilter:
    """Decides, batch by batch in the order of the log, what compaction leaves of each."""

    __slots__ = ("_aborted", "_delete_retention_ms", "_latest", "_log", "_now_ms", "_with_data")

    def __init__(
        self, log: Log, latest: LatestOffsets, aborted: AbortedRanges, now_ms: int
    ) -> None:
        self._log = log
        self._latest = latest
        self._aborted = aborted
        self._now_ms = now_ms
        self._delete_retention_ms = log.config.delete_retention_ms
        # Producers with batches of a transaction whose marker has not been met yet.
        self._with_data: set[int] = set()

    def apply(self, batch: BatchView, *, is_last: bool) -> Buffer | None:
        """Return the bytes that stay of a batch, or None; `is_last` of its segments."""
        if batch.is_control:
            kept = self._apply_to_marker(batch)
        else:
            if batch.is_transactional:
                self._with_data.add(batch.producer_id)
            kept = None if self._aborted.contain(batch) else self._apply_to_data(batch)
        if kept is None and (is_last or self._is_last_of_producer(batch)):
            return _emptied(batch)
        return kept

    def _apply_to_marker(self, batch: BatchView) -> Buffer | None:
        if not batch.record_count:
            return None
        if batch.producer_id in self._with_data:
            self._with_data.discard(batch.producer_id)
            return batch.data
        horizon_ms = batch.delete_horizon_ms
        if horizon_ms is None:
            # The transaction's data is gone; readers that are under way still need to be told.
            records = list(scan_records(batch.body(), batch.record_count))
            return _rebuilt(batch, records, self._now_ms + self._delete_retention_ms)
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
            return _rebuilt(batch, records, self._now_ms + self._delete_retention_ms)
        if len(records) == batch.record_count:
            return batch.data
        return _rebuilt(batch, records, None)

    def _is_last_of_producer(self, batch: BatchView) -> bool:
        entry = self._log.producers.get(batch.producer_id) if batch.has_producer_id else None
        if entry is None:
            return False
        if entry.batches:
            return not batch.is_control and entry.batches[-1].last_offset == batch.last_offset
        return batch.is_control and batch.producer_epoch == entry.producer_epoch


def _rebuilt(batch: BatchView, records: Sequence[ScannedRecord], horizon_ms: int | None) -> bytes:
    """Return the batch with some of its records, at their offsets; a new horizon is its base."""
    body = batch.body()
    old_base = batch.base_timestamp
    base_timestamp = old_base if horizon_ms is None else horizon_ms
    shift_ms = old_base - base_timestamp
    payload = b"".join(
        frame_record(
            record.offset_delta,
            record.timestamp_delta + shift_ms,
            body[record.body : record.end],
        )
        for record in records
    )
    newest = max(old_base + record.timestamp_delta for record in records)
    return assemble(
        compression.compress(batch.compression, payload),
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes if horizon_ms is None else batch.attributes | DELETE_HORIZON,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=batch.max_timestamp if batch.is_log_append_time else newest,
        producer=_producer_of(batch),
        record_count=len(records),
    )


def _emptied(batch: BatchView) -> bytes:
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


def _producer_of(batch: BatchView) -> Producer:
    return Producer(batch.producer_id, batch.producer_epoch, batch.base_sequence)


def clean(log: Log, plan: CompactionPlan, *, now_ms: int) -> Iterator[None]:
    """Compact a log step by step; between steps the log goes on.

    Each step goes through a few dozen batches. OSError leaves the log as the last whole group of
    segments left it. It ends early when a segment is removed under it.
    """
    try:
        yield from _clean(log, plan, now_ms)
    except FileNotFoundError:
        return


def _clean(log: Log, plan: CompactionPlan, now_ms: int) -> Iterator[None]:
    aborted = AbortedRanges(log.aborted_transactions(log.start_offset, plan.end_offset))
    latest = LatestOffsets(plan.first_dirty_offset)
    for number, gathered in enumerate(gather_latest_offsets(log, plan, aborted)):
        latest = gathered
        if number % _BATCHES_PER_STEP == 0:
            yield
    batch_filter = BatchFilter(log, latest, aborted, now_ms)
    segments = [segment for segment in log.segments[:-1] if segment.base_offset < latest.end]
    for group in group_segments(segments, log.config.segment_bytes):
        yield from _clean_group(log, group, batch_filter)
        if group[0] in log.segments:
            # Something else removed a segment meanwhile: the rest waits for another time.
            return
    log.first_dirty_offset = max(log.first_dirty_offset, latest.end)


def group_segments(segments: Sequence[Segment], most_bytes: int) -> list[list[Segment]]:
    """Return runs of segments that fit in one together."""
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        spans = segment.base_offset - groups[-1][0].base_offset if groups else 0
        if groups and size + segment.size <= most_bytes and spans < _MOST_OFFSETS:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def _clean_group(log: Log, group: Sequence[Segment], batch_filter: BatchFilter) -> Iterator[None]:
    """Write what stays of a run of segments, and put it in their place if they still stand."""
    base_offset = group[0].base_offset
    path = cleaned_path(log.directory, base_offset)
    log.files.remove(path)
    file = log.files.open(path, create=True)
    try:
        pending: list[Buffer] = []
        for number, kept in enumerate(_filtered(group, batch_filter)):
            if kept is not None:
                pending.append(kept)
            if number % _BATCHES_PER_STEP == 0:
                file.append(pending)
                pending = []
                yield
        file.append(pending)
        file.sync()
    finally:
        file.close()
    slot = log.segments.index(group[0]) if group[0] in log.segments else None
    is_standing = slot is not None and list(log.segments[slot : slot + len(group)]) == list(group)
    if not is_standing:
        log.files.remove(path)
        return
    for segment in group:
        segment.close()
    commit_swap(log.files, log.directory, base_offset)
    finish_swap(log.files, log.directory, base_offset, [segment.base_offset for segment in group])
    created = Segment(log.files, log.directory, base_offset, log.config.index_interval_bytes)
    created.created_ms = group[0].created_ms
    log.replace_segments(group, created)


def _filtered(group: Sequence[Segment], batch_filter: BatchFilter) -> Iterator[Buffer | None]:
    for segment in group:
        for position, batch in segment.batches(0):
            is_last = segment is group[-1] and position + batch.size == segment.size
            yield batch_filter.apply(batch, is_last=is_last)
