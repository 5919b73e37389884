"""Retention: the segments to delete because of their age or the size of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.config.log_config import LogConfig
    from kafkalite.storage.log import Log


class SegmentProperties(NamedTuple):
    """The properties of a segment that retention and compaction need.

    The timestamp is in milliseconds since the Unix epoch.
    """

    base_offset: int
    end_offset: int
    size: int
    newest_timestamp_ms: int


def plan_retention(
    segments: Sequence[SegmentProperties],
    config: LogConfig,
    *,
    now_ms: int,
    start_offset: int,
    high_watermark: int,
) -> int:
    """Return the number of oldest segments to delete, possibly all.

    A segment with offsets at or above the high watermark stays, and so does an empty last
    segment. Size and age matter only if cleanup.policy contains "delete"; segments before the start
    offset are always deleted.
    """
    count = 0
    while count + 1 < len(segments) and segments[count].end_offset <= start_offset:
        count += 1
    if "delete" in config.cleanup_policy:
        count = _count_excess(segments, config.retention_bytes, count)
        count = _count_expired(segments, config.retention_ms, now_ms, count)
    while count and segments[count - 1].end_offset > high_watermark:
        count -= 1
    return count


def _count_excess(segments: Sequence[SegmentProperties], limit_bytes: int, count: int) -> int:
    if limit_bytes < 0:
        return count
    excess_bytes = sum(segment.size for segment in segments[count:]) - limit_bytes
    # As in Kafka, the remaining segments are at least as large as the limit.
    while count < len(segments) and segments[count].size <= excess_bytes:
        if _is_empty_last(segments, count):
            break
        excess_bytes -= segments[count].size
        count += 1
    return count


def _count_expired(
    segments: Sequence[SegmentProperties], limit_ms: int, now_ms: int, count: int
) -> int:
    if limit_ms < 0:
        return count
    while count < len(segments) and now_ms - segments[count].newest_timestamp_ms > limit_ms:
        if _is_empty_last(segments, count):
            break
        count += 1
    return count


def _is_empty_last(segments: Sequence[SegmentProperties], slot: int) -> bool:
    return slot + 1 == len(segments) and not segments[slot].size


def segment_properties(log: Log) -> list[SegmentProperties]:
    """Return the properties of a log's segments for retention and compaction."""
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.end_offset]
    return [
        SegmentProperties(
            segment.base_offset,
            end,
            segment.size,
            segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms(),
        )
        for segment, end in zip(log.segments, ends, strict=False)
    ]


def enforce_retention(log: Log, *, now_ms: int, high_watermark: int) -> int:
    """Delete segments according to the topic's retention, and return their number."""
    count = plan_retention(
        segment_properties(log),
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
