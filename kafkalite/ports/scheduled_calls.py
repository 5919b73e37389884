"""A queue of calls, ordered by the time they are due. The caller passes the time."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_EXTRA_CANCELLED = 64
"""Cancelled calls that may stay in the queue in addition to half of its length."""


class ScheduledCall:
    """A call that is due at some time, unless it is made or cancelled before."""

    __slots__ = ("_calls", "callback", "is_external")

    def __init__(self, calls: ScheduledCalls, callback: Callable[[], None]) -> None:
        self._calls = calls
        self.callback: Callable[[], None] | None = callback
        self.is_external = False
        """Whether the call ends the wait of a client, which measures time with its own clock."""

    def make(self) -> None:
        """Make the call before it is due, unless it was cancelled."""
        callback = self.callback
        self.cancel()
        if callback is not None:
            callback()

    def cancel(self) -> None:
        """Cancel the call; no effect if it was made already."""
        if self.callback is not None:
            self.callback = None
            self._calls.count_cancelled()


_Entry: TypeAlias = tuple[int, int, ScheduledCall]


class ScheduledCalls:
    """Calls in the order of their deadlines; calls with equal deadlines in the order of `add`."""

    __slots__ = ("_cancelled", "_heap", "_skipped", "latest_number")

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._skipped: list[_Entry] = []
        self._cancelled = 0
        self.latest_number = 0
        """The number of the latest added call; numbers only grow."""

    def __len__(self) -> int:
        """Return the number of calls that are not cancelled."""
        return len(self._heap) + len(self._skipped) - self._cancelled

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> ScheduledCall:
        """Make `callback` due at `deadline_ms`."""
        self.latest_number += 1
        call = ScheduledCall(self, callback)
        heapq.heappush(self._heap, (deadline_ms, self.latest_number, call))
        return call

    def shift(self, ms: int) -> None:
        """Move the deadlines of all calls by `ms`."""
        for entries in (self._heap, self._skipped):
            entries[:] = [(deadline_ms + ms, number, call) for deadline_ms, number, call in entries]

    def next_deadline_ms(self) -> int | None:
        """Return when the first call is due, or None."""
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def pop_due(
        self, until_ms: int, latest_number: int | None = None
    ) -> tuple[int, Callable[[], None]] | None:
        """Remove the first call due by `until_ms` and return it with its deadline; None if none is.

        Calls with a number above `latest_number` are skipped, and stay in the queue.
        """
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            entry = heapq.heappop(self._heap)
            if latest_number is not None and entry[1] > latest_number:
                self._skipped.append(entry)
                continue
            callback, entry[2].callback = entry[2].callback, None
            assert callback is not None
            return deadline_ms, callback
        for entry in self._skipped:
            heapq.heappush(self._heap, entry)
        self._skipped.clear()
        return None

    def external_waits(self) -> list[tuple[int, ScheduledCall]]:
        """Return the calls that clients wait for by their own clock, with deadlines."""
        return [
            (deadline_ms, call)
            for deadline_ms, _, call in self._heap
            if call.is_external and call.callback is not None
        ]

    def count_cancelled(self) -> None:
        """Count a cancelled call, which stays in the heap because searching for it would cost more.

        When cancelled calls outnumber the others, all of them are removed.
        """
        self._cancelled += 1
        if self._cancelled > len(self._heap) // 2 + _MAX_EXTRA_CANCELLED:
            # In place, because a caller may hold a reference to the list.
            self._heap[:] = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = sum(entry[2].callback is None for entry in self._skipped)
