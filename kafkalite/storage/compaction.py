"""What compaction would do to a log, and when it is worth doing.

A compacted log keeps the last value of every key and every offset it ever gave. The part up to the
first dirty offset has been through it; what was appended since, up to the active segment, has not.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.storage.records import MalformedRecordsError, scan_records
from kafkalite.storage.retention import facts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.config.log_config import LogConfig
    from kafkalite.storage.aborted import AbortedTransaction
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.log import Log
    from kafkalite.storage.retention import SegmentFacts

_MOST_KEYS = 4_000_000  # some hundreds of megabytes; what does not fit waits for the next time


class CompactionPlan(NamedTuple):
    """The dirty part of a log that can be cleaned now, its share in all of it, and whether to."""

    first_dirty_offset: int
    end_offset: int
    dirty_ratio: float
    is_due: bool


def plan_compaction(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    first_dirty_offset: int,
    start_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> CompactionPlan | None:
    """Return what can be cleaned, or None when nothing can.

    Never the last segment, nothing at or beyond the last stable offset, nothing younger than
    min.compaction.lag.ms. It is due when it is dirtier than min.cleanable.dirty.ratio or older
    than max.compaction.lag.ms.
    """
    if "compact" not in config.cleanup_policy or len(segments) < 2:  # noqa: PLR2004
        return None
    end_offset = segments[-1].base_offset
    lag_ms = config.min_compaction_lag_ms
    for segment in segments[:-1]:
        is_young = lag_ms > 0 and now_ms - segment.newest_ms < lag_ms
        if is_young or segment.end_offset > last_stable_offset:
            end_offset = segment.base_offset
            break
    # A checkpoint may be older than a deletion of records, or younger than a truncation.
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
    is_overdue = now_ms - dirty[0].newest_ms > config.max_compaction_lag_ms
    return CompactionPlan(
        first_dirty_offset,
        end_offset,
        dirty_ratio,
        is_due=is_overdue or dirty_ratio > config.min_cleanable_dirty_ratio,
    )


def compaction_of(log: Log, *, last_stable_offset: int, now_ms: int) -> CompactionPlan | None:
    """Return what can be cleaned in a log, or None when nothing can."""
    return plan_compaction(
        facts_of(log),
        log.config,
        first_dirty_offset=log.first_dirty_offset,
        start_offset=log.start_offset,
        last_stable_offset=last_stable_offset,
        now_ms=now_ms,
    )


class LatestOffsets:
    """Key → the offset of its latest record, for the records from `start` up to `end`."""

    __slots__ = ("_offsets", "end")

    def __init__(self, end: int) -> None:
        self.end = end
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, batch: BatchView) -> None:
        """Take in the records of a batch, unless they cannot be read: then all of it stays.

        Such a batch comes from a time when the topic was not compacted, and nobody looked into it.
        """
        base_offset = batch.base_offset
        try:
            found = {
                record.key: base_offset + record.offset_delta
                for record in scan_records(batch.body(), batch.record_count)
                if record.key is not None
            }
        except MalformedRecordsError:
            return
        self._offsets.update(found)

    def is_latest(self, key: bytes, offset: int) -> bool:
        """Whether no later record of the key is known."""
        return offset >= self.end or offset >= self._offsets.get(key, -1)


class AbortedRanges:
    """Which batches belong to transactions that were aborted."""

    __slots__ = ("_first_offsets", "_last_offsets")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        # One behind the other, for a producer has but one at a time.
        self._first_offsets: dict[int, list[int]] = {}
        self._last_offsets: dict[int, list[int]] = {}
        for transaction in aborted:
            producer_id = transaction.producer_id
            self._first_offsets.setdefault(producer_id, []).append(transaction.first_offset)
            self._last_offsets.setdefault(producer_id, []).append(transaction.last_offset)

    def contain(self, batch: BatchView) -> bool:
        """Whether the batch is data of an aborted transaction."""
        if not batch.is_transactional or batch.is_control:
            return False
        firsts = self._first_offsets.get(batch.producer_id)
        if firsts is None:
            return False
        place = bisect_right(firsts, batch.base_offset) - 1
        return place >= 0 and batch.base_offset <= self._last_offsets[batch.producer_id][place]


def gather_latest_offsets(
    log: Log, plan: CompactionPlan, aborted: AbortedRanges, most_keys: int = _MOST_KEYS
) -> Iterator[LatestOffsets]:
    """Go through the dirty part, yielding what is gathered so far after every batch.

    Stops at `most_keys`; what is yielded last says by its `end` how far it got.
    """
    latest = LatestOffsets(plan.first_dirty_offset)
    for batch in log.batches(plan.first_dirty_offset):
        if batch.base_offset >= plan.end_offset:
            break
        if len(latest) >= most_keys:
            return
        if not batch.is_control and not aborted.contain(batch):
            latest.add(batch)
        latest.end = batch.last_offset + 1
        yield latest
    latest.end = plan.end_offset
    yield latest
