"""BrokerClock: reads and controls the clock of a broker from the test's thread."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kafkalite.control.commands.clock import AUTO, MANUAL, REAL, ChangeClock, ShowClock
from kafkalite.ports.times import datetime_ms, datetime_of, duration_ms, instant_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.control.command_table import Perform

_MILLISECOND = timedelta(milliseconds=1)


class BrokerClock:
    """Reads and controls the time of a broker; usable from any thread but the broker's.

    When a method returns, all timers that were due have run and their answers have been sent.
    Raises ValueError for a time before the broker's time and for an invalid rate.
    """

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def now(self) -> datetime:
        """Return the broker's time, in UTC."""
        return datetime_of(self.now_ms())

    def now_ms(self) -> int:
        """Return the broker's time, in milliseconds since the Unix epoch."""
        return self._perform(ShowClock()).now_ms

    @property
    def mode(self) -> str:
        """The mode of the clock: "real", "manual", "accelerated" or "auto"."""
        return self._perform(ShowClock()).mode

    @property
    def rate(self) -> float:
        """The speed relative to the system clock; 0 if stopped, the highest one in mode "auto"."""
        return self._perform(ShowClock()).rate

    def advance(
        self,
        by: timedelta | str | None = None,
        *,
        weeks: float | None = None,
        days: float | None = None,
        hours: float | None = None,
        minutes: float | None = None,
        seconds: float | None = None,
        milliseconds: float | None = None,
    ) -> datetime:
        """Move time forward and return the new time. All timers due on the way run, in order.

        Give a timedelta, or the arguments of one, or text such as "7d" or "1h30m". To the broker,
        connected clients were silent during this time: their sessions expire, and connections are
        closed if the time exceeds connections.max.idle.ms. Raises ValueError without an amount.
        """
        given = {
            "weeks": weeks,
            "days": days,
            "hours": hours,
            "minutes": minutes,
            "seconds": seconds,
            "milliseconds": milliseconds,
        }
        parts = {unit: value for unit, value in given.items() if value is not None}
        if by is None and not parts:
            raise ValueError('advance needs an amount of time, such as "7d" or hours=1')
        duration = _duration(by) + _duration_of_parts(parts)
        return datetime_of(self._perform(ChangeClock(advance_ms=duration // _MILLISECOND)).now_ms)

    def set(self, time: datetime | str) -> datetime:
        """Move time forward to `time` as `advance` does; the default time zone is UTC."""
        if not isinstance(time, str | datetime):
            raise ValueError(f"time must be a datetime, or text in ISO 8601, not {time!r}")  # noqa: TRY004 - as for other arguments
        now_ms = instant_ms(time) if isinstance(time, str) else datetime_ms(time)
        return datetime_of(self._perform(ChangeClock(now_ms=now_ms)).now_ms)

    def set_ms(self, now_ms: int) -> None:
        """Move time forward to `now_ms` milliseconds since the Unix epoch, as `advance` does."""
        self._perform(ChangeClock(now_ms=now_ms))

    def pause(self) -> None:
        """Stop the clock until it is advanced. Fetches still wait in real time for records."""
        self._perform(ChangeClock(mode=MANUAL))

    def resume(self) -> None:
        """Let time continue from here at the normal rate."""
        self._perform(ChangeClock(mode=REAL))

    def accelerate(self, rate: float) -> None:
        """Let time continue from here, `rate` times as fast as the system clock."""
        self._perform(ChangeClock(rate=rate))

    def auto(self, limit: float | None = None) -> None:
        """Let time continue at the normal rate, and faster while all clients wait.

        `limit` is the highest speed relative to the system clock, by default 5. The clock is moved
        to the next deadline when requests wait for their answers, and no other request arrives.
        """
        self._perform(ChangeClock(mode=AUTO, rate=limit))


def _duration(by: timedelta | str | None) -> timedelta:
    """Return a duration; raises ValueError for a value of another type."""
    if isinstance(by, str):
        return duration_ms(by) * _MILLISECOND
    if by is not None and not isinstance(by, timedelta):
        raise ValueError(f"a duration must be a timedelta, or text such as '1h30m', not {by!r}")
    return by or timedelta()


def _duration_of_parts(parts: Mapping[str, float]) -> timedelta:
    """Return the sum of these parts; raises ValueError for one that is no number, or too large."""
    for name, value in parts.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} must be a number, not {value!r}")  # noqa: TRY004 - as above
    try:
        return timedelta(**parts)
    except (OverflowError, ValueError) as error:
        given = ", ".join(f"{name}={value}" for name, value in parts.items() if value)
        raise ValueError(f"a duration has at most 999999999 days: {given}") from error
