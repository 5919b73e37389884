"""Reads of committed records: the number of readable bytes, and the aborted transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.storage.aborted_transactions import AbortedTransaction
    from kafkalite.storage.log import Log


def readable_bytes(log: Log, offset: int, limit_offset: int) -> int | None:
    """Return the number of bytes between two offsets; None if one read cannot cover them."""
    location = _locate_batch(log, offset)
    if location is None:
        return 0
    segment_index, position = location
    if limit_offset > _segment_end_offset(log, segment_index):
        return None
    return log.segments[segment_index].locate(limit_offset) - position


def aborted_in_read(log: Log, offset: int, size: int) -> list[AbortedTransaction]:
    """Return the aborted transactions with records in the `size` bytes from `offset` on.

    As in Kafka, the range is extended to the next entry of the index.
    """
    location = _locate_batch(log, offset)
    if location is None:
        return []
    segment_index, position = location
    end_offset = log.segments[segment_index].offset_at_or_after(position + size)
    if end_offset is None:
        end_offset = _segment_end_offset(log, segment_index)
    return log.aborted_transactions(offset, end_offset)


def _locate_batch(log: Log, offset: int) -> tuple[int, int] | None:
    """Return where a read of `offset` begins: the index of a segment, and a position in it."""
    for segment_index in range(log.segment_index(offset), len(log.segments)):
        segment = log.segments[segment_index]
        position = segment.locate(offset)
        if position < segment.size:
            return segment_index, position
    return None


def _segment_end_offset(log: Log, segment_index: int) -> int:
    """Return the base offset of the next segment, or the end of the log."""
    is_last = segment_index + 1 == len(log.segments)
    return log.end_offset if is_last else log.segments[segment_index + 1].base_offset
