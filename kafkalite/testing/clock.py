"""ManualClock: time that moves only when a test says so."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class _Due:
    """One call on a ManualClock."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Forget the call."""
        self.callback = None


class ManualClock:
    """A Clock that stands still until advanced, and then fires what is due, in order."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._queue: list[tuple[int, int, _Due]] = []
        self._order = itertools.count()

    def now_ms(self) -> int:
        """Return the virtual time, in milliseconds since the Unix epoch."""
        return self._now_ms

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> _Due:
        """Call `callback` in the first `advance` that reaches `deadline_ms`."""
        due = _Due(callback)
        heapq.heappush(self._queue, (deadline_ms, next(self._order), due))
        return due

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline still wanted, or None."""
        while self._queue and self._queue[0][2].callback is None:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def advance(self, ms: int) -> None:
        """Move time forward by `ms`; each due call sees the time it was due at."""
        until_ms = self._now_ms + ms
        while (deadline_ms := self.next_deadline_ms) is not None and deadline_ms <= until_ms:
            _, _, due = heapq.heappop(self._queue)
            self._now_ms = max(self._now_ms, deadline_ms)
            callback, due.callback = due.callback, None
            if callback is not None:
                callback()
        self._now_ms = until_ms
