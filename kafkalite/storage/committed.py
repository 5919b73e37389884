"""What readers of committed records need to know of a log: how much there is, what was aborted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.storage.aborted import AbortedTransaction
    from kafkalite.storage.log import Log


def readable_bytes(log: Log, offset: int, limit_offset: int) -> int | None:
    """Return how much lies between two offsets, None where one read does not reach so far."""
    place = _place_of(log, offset)
    if place is None:
        return 0
    slot, position = place
    if limit_offset > _end_of(log, slot):
        return None
    return log.segments[slot].locate(limit_offset) - position


def aborted_in_read(log: Log, offset: int, size: int) -> list[AbortedTransaction]:
    """Return the aborted transactions with records in the `size` bytes from `offset` on.

    And those of some records more, as many as Kafka does: up to the next entry of the index.
    """
    place = _place_of(log, offset)
    if place is None:
        return []
    slot, position = place
    end_offset = log.segments[slot].offset_at_or_after(position + size)
    if end_offset is None:
        end_offset = _end_of(log, slot)
    return log.aborted_transactions(offset, end_offset)


def _place_of(log: Log, offset: int) -> tuple[int, int] | None:
    """Return the segment and the position of the batch that a read of `offset` begins with."""
    for slot in range(log.slot_of(offset), len(log.segments)):
        segment = log.segments[slot]
        position = segment.locate(offset)
        if position < segment.size:
            return slot, position
    return None


def _end_of(log: Log, slot: int) -> int:
    """Return where the next segment begins, or where the log ends."""
    is_last = slot + 1 == len(log.segments)
    return log.end_offset if is_last else log.segments[slot + 1].base_offset
