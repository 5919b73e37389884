"""ManualClock: time that moves only when a test says so; it needs no event loop."""

from __future__ import annotations

from kafkalite.ports.clock import StandingClock


class ManualClock(StandingClock):
    """A Clock that stands still until advanced, from a day in November 2023 on."""

    __slots__ = ()

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        super().__init__(now_ms)
