"""What is old or too much: the segments that the topic's retention lets go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.config.log_config import LogConfig
    from kafkalite.storage.log import Log


class SegmentFacts(NamedTuple):
    """A segment as retention sees it; the time in milliseconds since the Unix epoch."""

    base_offset: int
    end_offset: int
    size: int
    newest_ms: int


def plan_retention(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    now_ms: int,
    start_offset: int,
    high_watermark: int,
) -> int:
    """Return how many of the oldest segments may go; all of them is an answer too.

    One that reaches beyond the high watermark stays, and so does an empty last one. Size and age
    count only where cleanup.policy has "delete"; what lies before the start offset always goes.
    """
    count = 0
    while count + 1 < len(segments) and segments[count].end_offset <= start_offset:
        count += 1
    if "delete" in config.cleanup_policy:
        count = _count_too_much(segments, config.retention_bytes, count)
        count = _count_too_old(segments, config.retention_ms, now_ms, count)
    while count and segments[count - 1].end_offset > high_watermark:
        count -= 1
    return count


def _count_too_much(segments: Sequence[SegmentFacts], limit: int, count: int) -> int:
    if limit < 0:
        return count
    excess = sum(segment.size for segment in segments[count:]) - limit
    # The log stays at least as large as it may be: the last segment goes only if it is all excess.
    while count < len(segments) and segments[count].size <= excess:
        if _is_empty_last(segments, count):
            break
        excess -= segments[count].size
        count += 1
    return count


def _count_too_old(segments: Sequence[SegmentFacts], limit_ms: int, now_ms: int, count: int) -> int:
    if limit_ms < 0:
        return count
    while count < len(segments) and now_ms - segments[count].newest_ms > limit_ms:
        if _is_empty_last(segments, count):
            break
        count += 1
    return count


def _is_empty_last(segments: Sequence[SegmentFacts], slot: int) -> bool:
    return slot + 1 == len(segments) and not segments[slot].size


def facts_of(log: Log) -> list[SegmentFacts]:
    """Return a log's segments as retention and compaction see them."""
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.end_offset]
    return [
        SegmentFacts(
            segment.base_offset,
            end,
            segment.size,
            segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms(),
        )
        for segment, end in zip(log.segments, ends, strict=False)
    ]


def enforce_retention(log: Log, *, now_ms: int, high_watermark: int) -> int:
    """Remove what the topic's retention lets go, and return how many segments that were."""
    count = plan_retention(
        facts_of(log),
        log.config,
        now_ms=now_ms,
        start_offset=log.start_offset,
        high_watermark=high_watermark,
    )
    if count and count == len(log.segments):
        log.roll(now_ms)
    if count:
        log.remove_segments(count)
    return count
