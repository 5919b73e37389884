"""Time comes in by this door: what the hour is, and a call when a later one strikes.

Every deadline in the broker is a `call_at` on one Clock, so that a clock driven by a test fires
them in order and in virtual time.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(Protocol):
    """A call that is due at some time, until cancelled."""

    def cancel(self) -> None:
        """Forget the call; harmless when it was made already."""


class Clock(Protocol):
    """Milliseconds since the Unix epoch, and deadlines in the same unit."""

    def now_ms(self) -> int:
        """Return the time, in milliseconds since the Unix epoch."""

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once when `deadline_ms` is reached, never within this call."""


class SystemClock:
    """The machine's own time; deadlines are kept by the running event loop.

    It never goes back. When the machine's time is set back, ours goes on at half its speed until
    that has caught up: deadlines come a little later, not by as much as the time was set back.
    """

    __slots__ = ("_latest_ns", "_slow_from_ns", "_slow_ns", "_slow_steady_ns")

    def __init__(self) -> None:
        self._latest_ns = 0
        # Where the half speed began, on our clock and on the machine's steady one, and where it is.
        self._slow_from_ns = 0
        self._slow_steady_ns = 0
        self._slow_ns = -1

    def now_ms(self) -> int:
        """Return the time, in milliseconds since the Unix epoch."""
        now_ns = time.time_ns()
        if now_ns < self._latest_ns:
            now_ns = self._go_slowly()
        self._latest_ns = now_ns
        return now_ns // 1_000_000

    def _go_slowly(self) -> int:
        """Return the time while the machine's is behind ours."""
        steady_ns = time.monotonic_ns()
        if self._slow_ns != self._latest_ns:
            self._slow_from_ns, self._slow_steady_ns = self._latest_ns, steady_ns
        self._slow_ns = self._slow_from_ns + (steady_ns - self._slow_steady_ns) // 2
        return self._slow_ns

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running loop once `deadline_ms` is reached."""
        delay_s = max(0, deadline_ms - self.now_ms()) / 1000
        return asyncio.get_running_loop().call_later(delay_s, callback)
