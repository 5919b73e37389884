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
    """The machine's own time; deadlines are kept by the running event loop."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the time, in milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running loop once `deadline_ms` is reached."""
        delay_s = max(0, deadline_ms - self.now_ms()) / 1000
        return asyncio.get_running_loop().call_later(delay_s, callback)
