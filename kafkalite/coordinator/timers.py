"""TimerQueue: the timers of one shard, by deadline. The caller passes the time."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CancelTimer, SetTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from kafkalite.coordinator.contract import TimerChange

_MAX_EXTRA_ENTRIES = 64
"""The heap may hold as many cancelled entries as live ones, and this number more."""


class TimerQueue:
    """Events by deadline; a key holds at most one.

    Cancelled and replaced entries stay in the heap until they are first in it or outnumber
    the live ones. So setting and cancelling need no search.
    """

    __slots__ = ("_heap", "_live", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Hashable]] = []
        self._live: dict[Hashable, tuple[int, object]] = {}
        self._order = itertools.count()

    def __len__(self) -> int:
        """Return the number of events that are set."""
        return len(self._live)

    def set(self, key: Hashable, deadline_ms: int, event: object) -> None:
        """Make `event` due at `deadline_ms`. Replaces an earlier event of `key`."""
        order = next(self._order)
        self._live[key] = (order, event)
        heapq.heappush(self._heap, (deadline_ms, order, key))
        if len(self._heap) > 2 * len(self._live) + _MAX_EXTRA_ENTRIES:
            self._remove_cancelled()

    def cancel(self, key: Hashable) -> None:
        """Remove the event of `key`, if it has one."""
        self._live.pop(key, None)

    def apply(
        self,
        changes: Iterable[TimerChange],
        periodic_deadline_ms: Callable[[int], int] | None = None,
    ) -> None:
        """Apply timer changes in order; `periodic_deadline_ms` is the method of the clock."""
        for change in changes:
            if isinstance(change, SetTimer):
                deadline_ms = change.deadline_ms
                if change.is_periodic and periodic_deadline_ms is not None:
                    deadline_ms = periodic_deadline_ms(deadline_ms)
                self.set(change.key, deadline_ms, change.event)
            elif isinstance(change, CancelTimer):
                self.cancel(change.key)

    def next_deadline_ms(self) -> int | None:
        """Return when the first event is due, or None."""
        heap = self._heap
        while heap and not self._is_live(heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: int) -> object | None:
        """Remove and return the first event due by `now_ms`, or None.

        Only one, because handling an event may cancel the next.
        """
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        return self._live.pop(key)[1]

    def _is_live(self, entry: tuple[int, int, Hashable]) -> bool:
        _, order, key = entry
        current = self._live.get(key)
        return current is not None and current[0] == order

    def _remove_cancelled(self) -> None:
        self._heap = [entry for entry in self._heap if self._is_live(entry)]
        heapq.heapify(self._heap)
