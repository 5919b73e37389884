"""LateLoop: log lines about times in which the event loop, or the whole process, did not run.

Timers are then late, and clients wait. The cause may be a long task here, a machine with too much
work, or a process that was stopped.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalite.server.logging import Log

INTERVAL_S: Final = 10.0
"""The minimum time between two lines; the second includes the maximum of the time between."""


class LateLoop:
    """Logs how late the event loop was, at most once in INTERVAL_S."""

    __slots__ = ("_count", "_log", "_max_lateness_s", "_next_line_s")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._next_line_s = -inf
        self._count = 0
        self._max_lateness_s = 0.0

    def report(self, lateness_s: float, now_s: float) -> None:
        """Log that a timer was late by `lateness_s` at `now_s`, or count it for the next line."""
        self._count += 1
        self._max_lateness_s = max(self._max_lateness_s, lateness_s)
        if now_s >= self._next_line_s:
            self._next_line_s = now_s + INTERVAL_S
            late_by_ms = round(self._max_lateness_s * 1000)
            self._log.debug("the event loop was late", late_by_ms=late_by_ms, times=self._count)
            self._count, self._max_lateness_s = 0, 0.0
