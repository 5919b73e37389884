"""TimeSkipping: moves the clock of a broker to its next deadline while all its clients wait.

Requests whose answers are pending wait: long polls, joins of groups, throttled and delayed
requests. While there is one, and no request was received or answered for a while, nothing can
happen before the next deadline, unless a client acts. So the clock is moved there. The longer the
quiet time, the more of the clock's time is skipped: at most `rate` times as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.gateway.exchanges import Exchange

MIN_QUIET_S: Final = 0.01
"""The minimum quiet time: clients that got an answer may send another request."""
CHECK_INTERVAL_S: Final = 0.05
"""The maximum time between two checks whether the clock can be moved."""


class Cancellable(Protocol):
    """A call that is scheduled."""

    def cancel(self) -> None:
        """Do not make the call."""


class RealTime(Protocol):
    """The time of the machine, as an event loop has it."""

    def time(self) -> float:
        """Return the time in seconds since some moment."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Cancellable:
        """Call `callback` after a delay in seconds."""


class SkippedClock(Protocol):
    """A clock that can be moved."""

    def now_ms(self) -> int:
        """Return the time, in milliseconds since the Unix epoch."""

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a call, or None."""

    def advance(self, ms: int) -> None:
        """Move time forward, and make the calls that are due."""


class TimeSkipping:
    """Moves a clock while all clients of a broker wait, from its creation until `stop`.

    `observe` must be called with all exchanges. `is_busy()` returns whether requests are being
    handled, or wait for that.
    """

    def __init__(
        self, clock: SkippedClock, real_time: RealTime, rate: float, is_busy: Callable[[], bool]
    ) -> None:
        self.rate = rate
        """The highest speed of the clock relative to real time."""
        self._clock = clock
        self._real_time = real_time
        self._is_busy = is_busy
        self._waiting: set[Exchange] = set()
        self._quiet_since_s = real_time.time()
        self._skipped_ms = 0
        """The time that was skipped since then."""
        self._timer: Cancellable = real_time.call_later(MIN_QUIET_S, self._check)

    def observe(self, exchange: Exchange) -> None:
        """Note that a request waits for its answer, or has ended."""
        self._begin_quiet_time()
        if exchange.is_pending:
            self._waiting.add(exchange)
        else:
            self._waiting.discard(exchange)

    def stop(self) -> None:
        """Do not move the clock any more."""
        self._timer.cancel()

    def _begin_quiet_time(self) -> None:
        self._quiet_since_s, self._skipped_ms = self._real_time.time(), 0

    def _check(self) -> None:
        """Move the clock to its next deadline, if all clients have waited long enough for it."""
        clock = self._clock
        deadline_ms, delay_s = clock.next_deadline_ms, CHECK_INTERVAL_S
        if self._is_busy():
            self._begin_quiet_time()
        elif self._waiting and deadline_ms is not None:
            distance_ms = max(0, deadline_ms - clock.now_ms())
            needed_s = (self._skipped_ms + distance_ms) / 1000 / self.rate
            quiet_s = self._real_time.time() - self._quiet_since_s
            delay_s = min(delay_s, max(MIN_QUIET_S, needed_s) - quiet_s)
            if delay_s <= 0:
                self._skipped_ms += distance_ms
                clock.advance(distance_ms)
                delay_s = 0  # answers that are due now are sent before the next check
        self._timer = self._real_time.call_later(delay_s, self._check)
