"""When a segment is full and the next one begins; Kafka's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from kafkalite.config.log_config import LogConfig
    from kafkalite.storage.segment import Segment

_INT32_MAX = 2**31 - 1
_INDEX_ENTRY_SIZE = 12  # of the larger kind


def must_roll(  # noqa: PLR0917 - asked for every append
    active: Segment,
    config: LogConfig,
    size: int,
    last_offset: int,
    max_timestamp: int,
    now_ms: int,
) -> bool:
    """Whether `size` bytes of batches up to `last_offset` belong in a segment after `active`."""
    filled = active.size
    return filled > 0 and (
        filled + size > config.segment_bytes
        or last_offset - active.base_offset > _INT32_MAX
        or active.index_bytes + _INDEX_ENTRY_SIZE > config.segment_index_bytes
        or is_overdue(active, config, max_timestamp, now_ms)
    )


def is_overdue(active: Segment, config: LogConfig, max_timestamp: int, now_ms: int) -> bool:
    """Whether the segment's time is up, by its records' timestamps or else by the clock."""
    first_timestamp = active.first_timestamp()
    if first_timestamp is not None and first_timestamp >= 0 and max_timestamp >= 0:
        waited_ms = max_timestamp - first_timestamp
    else:
        waited_ms = now_ms - active.created_ms
    limit_ms = config.segment_ms
    if "compact" in config.cleanup_policy and config.max_compaction_lag_ms > 0:
        # What is in the active segment cannot be compacted.
        limit_ms = min(limit_ms, config.max_compaction_lag_ms)
    jitter_ms = config.segment_jitter_ms
    if jitter_ms <= 0 or waited_ms <= limit_ms - jitter_ms:
        return waited_ms > limit_ms
    return waited_ms > limit_ms - _jitter_ms(active, jitter_ms)


def _jitter_ms(segment: Segment, most_ms: int) -> int:
    # Partitions of one topic must not all roll at once, yet each must do the same again when a
    # test repeats it: the spread comes from the name instead of from dice.
    return crc32(segment.path("").encode()) % (most_ms + 1)
