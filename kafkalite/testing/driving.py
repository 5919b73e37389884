"""BrokerClock: the clock of a broker under test, driven from the test's own thread."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kafkalite.control.commands import (
    MANUAL,
    REAL,
    AdvanceClock,
    RunClock,
    SetClock,
    ShowClock,
    rate_of,
)
from kafkalite.control.times import datetime_ms, datetime_of, duration_ms, instant_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.control.commands import ClockCommand, ClockState

_MS = timedelta(milliseconds=1)


class BrokerClock:
    """Tells and drives the time of a broker; may be used from any thread but the broker's.

    When a call returns, all that was due has been done and answered. ValueError for a time before
    the broker's and for a rate out of bounds.
    """

    def __init__(self, perform: Callable[[ClockCommand], ClockState]) -> None:
        self._perform = perform

    def now(self) -> datetime:
        """Return the broker's time, in UTC."""
        return datetime_of(self.now_ms())

    def now_ms(self) -> int:
        """Return the broker's time, in milliseconds since the Unix epoch."""
        return self._perform(ShowClock()).now_ms

    @property
    def mode(self) -> str:
        """How time goes: "real", "manual" or "accelerated"."""
        return self._perform(ShowClock()).mode

    @property
    def rate(self) -> float:
        """How many times as fast as the machine's the time goes; 0 when it stands."""
        return self._perform(ShowClock()).rate

    def advance(
        self,
        by: timedelta | str | None = None,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> datetime:
        """Move time forward, do all that is due on the way, in order, and return the time then.

        The arguments are those of a timedelta, or are one, or text such as "7d" or "1h30m". A live
        client finds that it was silent for as long: its sessions are over, and connections past
        connections.max.idle.ms are closed.
        """
        span = timedelta(
            weeks=weeks,
            days=days,
            hours=hours,
            minutes=minutes,
            seconds=seconds,
            milliseconds=milliseconds,
        )
        if isinstance(by, str):
            by = duration_ms(by) * _MS
        span += by or timedelta()
        return datetime_of(self._perform(AdvanceClock(span // _MS)).now_ms)

    def set(self, moment: datetime | str) -> datetime:
        """Move time forward to `moment`, which is UTC's unless it says otherwise; as `advance`."""
        now_ms = instant_ms(moment) if isinstance(moment, str) else datetime_ms(moment)
        return datetime_of(self._perform(SetClock(now_ms)).now_ms)

    def set_ms(self, now_ms: int) -> None:
        """Move time forward to this many milliseconds since the Unix epoch; as `advance`."""
        self._perform(SetClock(now_ms))

    def pause(self) -> None:
        """Let time stand until it is advanced; a fetch that waits does so by the client's time."""
        self._perform(RunClock(rate_of(MANUAL)))

    def resume(self) -> None:
        """Let time go on from here at the machine's pace."""
        self._perform(RunClock(rate_of(REAL)))

    def accelerate(self, rate: float) -> None:
        """Let time go on from here, `rate` times as fast as the machine's."""
        self._perform(RunClock(rate))
