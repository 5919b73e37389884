"""ManualClock: a clock without an event loop that moves only when a test advances it."""

from __future__ import annotations

from kafkalite.ports.clock import SteppedClock


class ManualClock(SteppedClock):
    """A Clock that moves only when advanced; it begins on 14 November 2023."""

    __slots__ = ()

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        super().__init__(now_ms)
