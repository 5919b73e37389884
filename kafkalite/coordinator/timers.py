"""TimerQueue: what is due when, for one shard; pure, for it is told the time."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CancelTimer, SetTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from kafkalite.coordinator.contract import TimerChange

_SLACK = 64
"""How many forgotten entries a heap may carry besides as many as live ones."""


class TimerQueue:
    """Events by deadline; a key holds at most one.

    Cancelled and replaced entries stay in the heap until they surface or outnumber the live
    ones, so that setting and cancelling cost no search.
    """

    __slots__ = ("_heap", "_live", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Hashable]] = []
        self._live: dict[Hashable, tuple[int, object]] = {}
        self._order = itertools.count()

    def __len__(self) -> int:
        """Count the events that are still wanted."""
        return len(self._live)

    def set(self, key: Hashable, deadline_ms: int, event: object) -> None:
        """Make `event` due at `deadline_ms`, instead of what `key` held before."""
        order = next(self._order)
        self._live[key] = (order, event)
        heapq.heappush(self._heap, (deadline_ms, order, key))
        if len(self._heap) > 2 * len(self._live) + _SLACK:
            self._forget_dead()

    def cancel(self, key: Hashable) -> None:
        """Forget what `key` held, if anything."""
        self._live.pop(key, None)

    def apply(
        self, changes: Iterable[TimerChange], tick_ms: Callable[[int], int] | None = None
    ) -> None:
        """Carry out what a decision asked for, in its order; `tick_ms` says when ticks are due."""
        for change in changes:
            if isinstance(change, SetTimer):
                deadline_ms = change.deadline_ms
                if change.is_tick and tick_ms is not None:
                    deadline_ms = tick_ms(deadline_ms)
                self.set(change.key, deadline_ms, change.event)
            elif isinstance(change, CancelTimer):
                self.cancel(change.key)

    def next_deadline_ms(self) -> int | None:
        """Return when the first event is due, or None when there is none."""
        heap = self._heap
        while heap and not self._is_live(heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: int) -> object | None:
        """Take out and return the first event due by `now_ms`; None: nothing is due yet.

        One at a time, since carrying out one event may cancel the next.
        """
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        return self._live.pop(key)[1]

    def _is_live(self, entry: tuple[int, int, Hashable]) -> bool:
        _, order, key = entry
        held = self._live.get(key)
        return held is not None and held[0] == order

    def _forget_dead(self) -> None:
        self._heap = [entry for entry in self._heap if self._is_live(entry)]
        heapq.heapify(self._heap)
