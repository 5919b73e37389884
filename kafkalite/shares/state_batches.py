"""Combination of state batches: if they overlap, the higher delivery count wins (KIP-932)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from kafkalite.shares.state import NO_START_OFFSET, StateBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SortableBatch = tuple[int, int, int, int]
"""First and last offset, delivery count, state: the order of processing."""


def combine_batches(
    stored: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Return the combination of both, ordered and without overlaps, from `start_offset` on.

    If two overlap, the one with the larger delivery count wins; if the counts are equal, the one
    with the larger state. Adjacent equal batches are joined. A start offset of -1 removes nothing.
    """
    heap = [
        (max(batch.first_offset, start_offset), batch.last_offset, *_progress(batch))
        if start_offset != NO_START_OFFSET
        else (batch.first_offset, batch.last_offset, *_progress(batch))
        for source in (stored, new)
        for batch in source
        if start_offset == NO_START_OFFSET or batch.last_offset >= start_offset
    ]
    heapq.heapify(heap)
    return tuple(
        StateBatch(first, last, state, count)
        for first, last, count, state in _without_overlaps(heap)
    )


def _progress(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _without_overlaps(heap: list[_SortableBatch]) -> Iterator[_SortableBatch]:
    """Yield the batches of the heap, split so that none overlap; empties the heap."""
    if not heap:
        return
    earlier = heapq.heappop(heap)
    while heap:
        later = heapq.heappop(heap)
        have_equal_state = earlier[2:] == later[2:]
        # Batches with equal state are joined even if they are only adjacent: True counts as 1.
        if later[0] > earlier[1] + have_equal_state:
            yield earlier
            earlier = later
            continue
        if have_equal_state:
            heapq.heappush(heap, (earlier[0], max(earlier[1], later[1]), *earlier[2:]))
        else:
            _split_overlap(heap, earlier, later)
        earlier = heapq.heappop(heap)
    yield earlier


def _split_overlap(
    heap: list[_SortableBatch], earlier: _SortableBatch, later: _SortableBatch
) -> None:
    """Put two overlapping batches back; each offset goes to the one with more progress."""
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
