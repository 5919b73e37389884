"""Compaction plans: the part of a log to compact, and whether its compaction is due.

A compacted log keeps the last value of every key, and all offsets stay valid. The part before the
first dirty offset was compacted already. The part from there to the active segment was not.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage.record_format import MalformedRecordsError, scan_records
from kafkalite.storage.retention import segment_properties

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.config.log_config import LogConfig
    from kafkalite.storage.aborted_transactions import AbortedTransaction
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.log import Log
    from kafkalite.storage.retention import SegmentProperties

_MAX_KEYS = 4_000_000  # some hundreds of megabytes; further keys wait for the next compaction


class CompactionPlan(NamedTuple):
    """The dirty part of a log that can be cleaned now.

    `dirty_ratio` is its share of the size of the clean and dirty parts together.
    `truncation_count` is that of the log when the plan was made: after a truncation the plan is
    invalid.
    """

    first_dirty_offset: int
    end_offset: int
    dirty_ratio: float
    is_due: bool
    truncation_count: int = 0


def plan_compaction(
    segments: Sequence[SegmentProperties],
    config: LogConfig,
    *,
    first_dirty_offset: int,
    start_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> CompactionPlan | None:
    """Return the part of a log that can be cleaned, or None.

    The part never contains the last segment, offsets from the last stable offset on, or segments
    younger than min.compaction.lag.ms. Compaction is due if the dirty ratio is above
    min.cleanable.dirty.ratio, or if the oldest dirty segment is older than max.compaction.lag.ms.
    """
    if "compact" not in config.cleanup_policy or len(segments) < 2:  # noqa: PLR2004
        return None
    end_offset = segments[-1].base_offset
    lag_ms = config.min_compaction_lag_ms
    for segment in segments[:-1]:
        is_too_young = lag_ms > 0 and now_ms - segment.newest_timestamp_ms < lag_ms
        if is_too_young or segment.end_offset > last_stable_offset:
            end_offset = segment.base_offset
            break
    # A checkpoint may be older than a deletion of records, or newer than a truncation.
    first_dirty_offset = max(first_dirty_offset, start_offset)
    if first_dirty_offset > segments[-1].end_offset:
        first_dirty_offset = start_offset
    dirty = [
        s for s in segments if s.end_offset > first_dirty_offset and s.base_offset < end_offset
    ]
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return None
    clean_bytes = sum(s.size for s in segments if s.end_offset <= first_dirty_offset)
    dirty_ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    is_overdue = now_ms - dirty[0].newest_timestamp_ms > config.max_compaction_lag_ms
    return CompactionPlan(
        first_dirty_offset,
        end_offset,
        dirty_ratio,
        is_due=is_overdue or dirty_ratio > config.min_cleanable_dirty_ratio,
    )


def plan_log_compaction(log: Log, *, last_stable_offset: int, now_ms: int) -> CompactionPlan | None:
    """Return the part of a log that can be cleaned, or None."""
    plan = plan_compaction(
        segment_properties(log),
        log.config,
        first_dirty_offset=log.first_dirty_offset,
        start_offset=log.start_offset,
        last_stable_offset=last_stable_offset,
        now_ms=now_ms,
    )
    return None if plan is None else plan._replace(truncation_count=log.truncation_count)


class LatestOffsets:
    """Key → the offset of its latest record before the offset `end`."""

    __slots__ = ("_offsets", "end")

    def __init__(self, end: int) -> None:
        self.end = end
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, batch: BatchView) -> None:
        """Add the records of a batch; ignore a batch that cannot be read.

        Such a batch was written when the topic was not compacted, so its records were not checked.
        """
        base_offset = batch.base_offset
        try:
            offsets = {
                record.key: base_offset + record.offset_delta
                for record in scan_records(batch.body(), batch.record_count)
                if record.key is not None
            }
        except MalformedRecordsError:
            return
        self._offsets.update(offsets)

    def is_latest(self, key: bytes, offset: int) -> bool:
        """Whether the record at `offset` is the latest known record of the key."""
        return offset >= self.end or offset >= self._offsets.get(key, -1)


class AbortedRanges:
    """The offset ranges of aborted transactions, by producer id."""

    __slots__ = ("_first_offsets", "_last_offsets")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        # The ranges of one producer do not overlap: it has only one transaction at a time.
        self._first_offsets: dict[int, list[int]] = {}
        self._last_offsets: dict[int, list[int]] = {}
        for transaction in aborted:
            producer_id = transaction.producer_id
            self._first_offsets.setdefault(producer_id, []).append(transaction.first_offset)
            self._last_offsets.setdefault(producer_id, []).append(transaction.last_offset)

    def contains(self, batch: BatchView) -> bool:
        """Whether the batch is data of an aborted transaction."""
        if not batch.is_transactional or batch.is_control:
            return False
        first_offsets = self._first_offsets.get(batch.producer_id)
        if first_offsets is None:
            return False
        slot = bisect_right(first_offsets, batch.base_offset) - 1
        return slot >= 0 and batch.base_offset <= self._last_offsets[batch.producer_id][slot]


def collect_latest_offsets(
    log: Log, plan: CompactionPlan, aborted: AbortedRanges, max_keys: int = _MAX_KEYS
) -> Iterator[LatestOffsets]:
    """Read the dirty part, and yield the collected offsets after every batch.

    Every yield is the same object, whose `end` is the offset reached. Stops at `max_keys`.
    """
    latest = LatestOffsets(plan.first_dirty_offset)
    for batch in log.batches(plan.first_dirty_offset):
        if batch.base_offset >= plan.end_offset:
            break
        if len(latest) >= max_keys:
            return
        if not batch.is_control and not aborted.contains(batch):
            latest.add(batch)
        latest.end = batch.last_offset + 1
        yield latest
    latest.end = plan.end_offset
    yield latest
