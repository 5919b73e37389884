"""Reads of committed records: the number of readable bytes, and the aborted transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.storage.aborted_transactions import AbortedTransaction
    from kafkalite.storage.log import Log


def readable_bytes(log: Log, offset: int, limit_offset: int) -> int | None:
    """Return the number of bytes between two offsets; None if one read cannot cover them."""
    location = _locate(log, offset)
    if location is None:
        return 0
    slot, position = location
    if limit_offset > _segment_end_offset(log, slot):
        return None
    return log.segments[slot].locate(limit_offset) - position


def aborted_in_read(log: Log, offset: int, size: int) -> list[AbortedTransaction]:
    """Return the aborted transactions with records in the `size` bytes from `offset` on.

    As in Kafka, the range is extended to the next entry of the index.
    """
    location = _locate(log, offset)
    if location is None:
        return []
    slot, position = location
    end_offset = log.segments[slot].offset_at_or_after(position + size)
    if end_offset is None:
        end_offset = _segment_end_offset(log, slot)
    return log.aborted_transactions(offset, end_offset)


def _locate(log: Log, offset: int) -> tuple[int, int] | None:
    """Return the segment and the position of the batch at which a read of `offset` begins."""
    for slot in range(log.segment_index(offset), len(log.segments)):
        segment = log.segments[slot]
        position = segment.locate(offset)
        if position < segment.size:
            return slot, position
    return None


def _segment_end_offset(log: Log, slot: int) -> int:
    """Return the base offset of the next segment, or the end of the log."""
    is_last = slot + 1 == len(log.segments)
    return log.end_offset if is_last else log.segments[slot + 1].base_offset
