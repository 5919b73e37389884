"""Agenda: calls by the time they are due; pure, for it is told the time."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

_SLACK = 64
"""How many cancelled calls an agenda may carry besides as many as are wanted."""


class Due:
    """A call that is due at some time, until it is made or cancelled."""

    __slots__ = ("_agenda", "callback", "is_outside")

    def __init__(self, agenda: Agenda, callback: Callable[[], None]) -> None:
        self._agenda = agenda
        self.callback: Callable[[], None] | None = callback
        self.is_outside = False
        """Whether somebody waits for it who goes by another clock."""

    def make(self) -> None:
        """Make the call before it is due, if it is still wanted."""
        callback = self.callback
        self.cancel()
        if callback is not None:
            callback()

    def cancel(self) -> None:
        """Forget the call; harmless when it was made already."""
        if self.callback is not None:
            self.callback = None
            self._agenda.count_cancelled()


_Entry: TypeAlias = tuple[int, int, Due]


class Agenda:
    """Calls in the order of their deadlines, then in that in which they were asked for."""

    __slots__ = ("_cancelled", "_heap", "_held", "newest")

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._held: list[_Entry] = []
        self._cancelled = 0
        self.newest = 0
        """The number of the call that was asked for last; numbers only grow."""

    def __len__(self) -> int:
        """Count the calls that are still wanted."""
        return len(self._heap) + len(self._held) - self._cancelled

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> Due:
        """Have `callback` due at `deadline_ms`."""
        self.newest += 1
        due = Due(self, callback)
        heapq.heappush(self._heap, (deadline_ms, self.newest, due))
        return due

    def next_deadline_ms(self) -> int | None:
        """Return when the first call is due, or None when there is none."""
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def pop_due(
        self, until_ms: int, newest: int | None = None
    ) -> tuple[int, Callable[[], None]] | None:
        """Take out the first call due by `until_ms` and return it with its deadline.

        None when there is no more. Calls of a number above `newest` are passed over until then.
        """
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            entry = heapq.heappop(self._heap)
            if newest is not None and entry[1] > newest:
                self._held.append(entry)
                continue
            callback, entry[2].callback = entry[2].callback, None
            assert callback is not None
            return deadline_ms, callback
        for entry in self._held:
            heapq.heappush(self._heap, entry)
        self._held.clear()
        return None

    def waited_for_outside(self) -> list[tuple[int, Due]]:
        """Return the calls that somebody waits for who goes by another clock, with deadlines."""
        return [
            (deadline_ms, due)
            for deadline_ms, _, due in self._heap
            if due.is_outside and due.callback is not None
        ]

    def count_cancelled(self) -> None:
        """Take note that a call is wanted no more; to search for it would cost more than it does.

        Once cancelled calls outnumber the others, all of them are let go.
        """
        self._cancelled += 1
        if self._cancelled > len(self._heap) // 2 + _SLACK:
            # In place: somebody may be in the middle of it.
            self._heap[:] = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = sum(entry[2].callback is None for entry in self._held)
