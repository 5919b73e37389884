"""State batches put together: of what overlaps, the more often delivered counts (KIP-932)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from kafkalite.shares.state import NO_START_OFFSET, StateBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Sorted = tuple[int, int, int, int]
"""First and last offset, delivery count, state: in this order batches are gone through."""


def combine_batches(
    kept: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Return batches without overlaps, in order, that say what both say from `start_offset` on.

    Where two overlap, the one with the larger delivery count holds, and of equal counts the one
    with the larger state: records only ever go that way. Neighbours alike are joined. -1 as start
    offset leaves nothing out.
    """
    heap = [
        (max(batch.first_offset, start_offset), batch.last_offset, *_fared(batch))
        if start_offset != NO_START_OFFSET
        else (batch.first_offset, batch.last_offset, *_fared(batch))
        for source in (kept, new)
        for batch in source
        if start_offset == NO_START_OFFSET or batch.last_offset >= start_offset
    ]
    heapq.heapify(heap)
    return tuple(
        StateBatch(first, last, state, count) for first, last, count, state in _apart(heap)
    )


def _fared(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _apart(heap: list[_Sorted]) -> Iterator[_Sorted]:
    """Yield what is in the heap, cut so that nothing overlaps; empties it."""
    if not heap:
        return
    earlier = heapq.heappop(heap)
    while heap:
        later = heapq.heappop(heap)
        is_alike = earlier[2:] == later[2:]
        if later[0] > earlier[1] + is_alike:
            yield earlier
            earlier = later
            continue
        if is_alike:
            heapq.heappush(heap, (earlier[0], max(earlier[1], later[1]), *earlier[2:]))
        else:
            _settle(heap, earlier, later)
        earlier = heapq.heappop(heap)
    yield earlier


def _settle(heap: list[_Sorted], earlier: _Sorted, later: _Sorted) -> None:
    """Put two overlapping batches back so that each offset is where it fared further."""
    if later[2:] < earlier[2:]:
        heapq.heappush(heap, earlier)
        if later[1] > earlier[1]:
            heapq.heappush(heap, (earlier[1] + 1, *later[1:]))
        return
    if later[0] > earlier[0]:
        heapq.heappush(heap, (earlier[0], later[0] - 1, *earlier[2:]))
    heapq.heappush(heap, later)
    if earlier[1] > later[1]:
        heapq.heappush(heap, (later[1] + 1, *earlier[1:]))
