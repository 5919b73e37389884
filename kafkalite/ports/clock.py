"""Time comes in by this door: what the hour is, and a call when a later one strikes.

Every deadline in the broker is a `call_at` on one Clock, so that time can be driven: it stands,
runs, runs faster, and jumps, and what is due on the way is done in order and in virtual time.

What a client waits for it counts by a clock of its own: so a long poll ends here when its time has
come by this clock, and while this one stands, by the machine's. Two waits are the machine's alone:
how long a socket that closes lingers for its last bytes, and how long the end of the process waits
for that.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

from kafkalite.ports.agenda import Agenda

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.agenda import Due

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since the Unix epoch; no clock is set beyond it."""

MIN_RATE = 0.001
MAX_RATE = 1_000_000
"""Between these time may run, in times as fast as the machine's."""

MAX_EXACT_CALLS = 250_000
"""Calls of one jump that are made each in its own right."""
COARSE_ROUNDS = 1_000
"""What is left of a jump after these is done in so many rounds."""
TICK_ROUNDS = 32
"""How often work that comes round is done in one jump, at most; one more time is possible."""

_NEVER_MS = 1 << 62
_NS = 1_000_000


class Timer(Protocol):
    """A call that is due at some time, until cancelled."""

    def cancel(self) -> None:
        """Forget the call; harmless when it was made already."""


class Clock(Protocol):
    """Milliseconds since the Unix epoch, and deadlines in the same unit."""

    def now_ms(self) -> int:
        """Return the time, in milliseconds since the Unix epoch; it never goes back."""

    def now_ns(self) -> int:
        """Return the same time in nanoseconds, as exactly as is known."""

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once when `deadline_ms` is reached, never within this call."""

    def wait_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """As `call_at`, for the end of a client's wait, which a client counts by its own clock.

        While time stands here, it is made when the wait has taken its length by the machine's time.
        """

    def tick_ms(self, deadline_ms: int) -> int:
        """Return when to do work that comes round, whose next round is due at `deadline_ms`.

        Then, but for a jump over many rounds of work that makes up for rounds left out: the first
        and the last are done, and some of those between.
        """


class StandingClock:
    """A Clock that stands still until advanced, and then makes the calls that are due, in order."""

    __slots__ = ("_agenda", "_grain_ms", "_now_ms", "_until_ms")

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._agenda = Agenda()
        self._until_ms: int | None = None
        """Where the jump that is going on ends; None when there is none."""
        self._grain_ms = 0

    def now_ms(self) -> int:
        """Return the virtual time, in milliseconds since the Unix epoch."""
        return self._now_ms

    def now_ns(self) -> int:
        """Return the virtual time, in nanoseconds since the Unix epoch."""
        return self._now_ms * _NS

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` in the first `advance` that reaches `deadline_ms`."""
        return self._agenda.add(deadline_ms, callback)

    def wait_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` in the first `advance` that reaches `deadline_ms`: nobody is outside."""
        return self.call_at(deadline_ms, callback)

    def tick_ms(self, deadline_ms: int) -> int:
        """Return when to do work that comes round; in a jump TICK_ROUNDS at most are done."""
        until_ms = self._until_ms
        if until_ms is not None and deadline_ms <= until_ms:
            return min(max(deadline_ms, self._now_ms + self._grain_ms), until_ms)
        return deadline_ms

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline still wanted, or None."""
        return self._agenda.next_deadline_ms()

    def advance(self, ms: int) -> None:
        """Move time forward by `ms`; each call that is due finds the time it was due at.

        Calls that are asked for on the way are made too, when they are due. Were that more than
        MAX_EXACT_CALLS, the rest of the way is gone in COARSE_ROUNDS rounds: a call that is asked
        for in one of them is made in the next at the earliest, so that work that comes round every
        instant comes round that often, and later than it wished. ValueError for a time before now
        or beyond LATEST_MS; nothing was done then.
        """
        until_ms = self.now_ms() + ms
        if ms < 0 or until_ms > LATEST_MS:
            raise ValueError(f"time cannot move by {ms} ms: it goes forward, up to the year 9999")
        if self._until_ms is not None:
            raise RuntimeError("time is on its way already")
        self._until_ms = until_ms
        self._grain_ms = max(1, ms // TICK_ROUNDS)
        try:
            self._go_to(until_ms)
            self._now_ms = until_ms
        finally:
            self._until_ms = None

    def _go_to(self, until_ms: int) -> None:
        for _ in range(MAX_EXACT_CALLS):
            due = self._agenda.pop_due(until_ms)
            if due is None:
                return
            self._make(*due)
        start_ms = self._now_ms
        for number in range(1, COARSE_ROUNDS + 1):
            newest = self._agenda.newest
            boundary_ms = start_ms + (until_ms - start_ms) * number // COARSE_ROUNDS
            while (due := self._agenda.pop_due(boundary_ms, newest)) is not None:
                self._make(*due)
            self._now_ms = boundary_ms

    def _make(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self._now_ms = max(self._now_ms, deadline_ms)
        callback()


class DrivenClock(StandingClock):
    """The broker's clock: the machine's time until somebody drives it; the running loop calls.

    It has a rate: 1 is the machine's own pace, 0 stands until advanced, anything else is so many
    times as fast. It never goes back, whatever is done to it: after a jump it goes on from there.
    When the machine's time is set back, ours goes on at half its speed until that has caught up:
    deadlines come a little later, not by as much as the time was set back.
    """

    __slots__ = (
        "_ahead_ns", "_armed", "_armed_ms", "_is_real", "_latest_ns", "_rate", "_slow_from_ns",
        "_slow_ns", "_slow_steady_ns", "_steady_from_ns", "_wanted_rate",
    )  # fmt: skip

    def __init__(self, rate: float = 1, now_ms: int | None = None) -> None:
        """Let time begin at `now_ms`, by default the machine's."""
        super().__init__(time.time_ns() // _NS if now_ms is None else now_ms)
        self._ahead_ns = 0
        """What is added to the machine's time; only a jump, a pause or a rate makes it not 0."""
        self._latest_ns = 0
        self._armed: Timer | None = None
        self._armed_ms = _NEVER_MS
        # Where the half speed began, on our clock and on the machine's steady one, and where it is.
        self._slow_from_ns = 0
        self._slow_steady_ns = 0
        self._slow_ns = -1
        self._steady_from_ns = 0
        self._is_real = False
        self._rate: float = 0
        """As `rate`, and 0 while the time is the machine's or on its way to another."""
        self._wanted_rate = _checked_rate(rate)
        self._go_on()
        if now_ms is None and self._is_real:
            self._ahead_ns = 0

    def now_ms(self) -> int:
        """Return the time, in milliseconds since the Unix epoch."""
        if self._is_real:
            now_ns = time.time_ns() + self._ahead_ns
            if now_ns < self._latest_ns:
                now_ns = self._go_slowly()
            self._latest_ns = now_ns
            return now_ns // _NS
        if self._rate:
            gone_ns = time.monotonic_ns() - self._steady_from_ns
            return min(self._now_ms + int(gone_ns * self._rate) // _NS, LATEST_MS)
        return self._now_ms

    def now_ns(self) -> int:
        """Return the time, in nanoseconds since the Unix epoch; driven, it goes in milliseconds."""
        if self._is_real:  # as above once more: a recording asks for every few bytes
            now_ns = time.time_ns() + self._ahead_ns
            if now_ns < self._latest_ns:
                now_ns = self._go_slowly()
            self._latest_ns = now_ns
            return now_ns
        return self.now_ms() * _NS

    @property
    def rate(self) -> float:
        """How many times as fast as the machine's the time goes; 0 when it stands."""
        return self._wanted_rate

    def run(self, rate: float) -> None:
        """Go on from now `rate` times as fast as the machine's time.

        0 stands still. ValueError for any other rate that is not between MIN_RATE and MAX_RATE.
        """
        was_standing = not self._wanted_rate
        self._wanted_rate = _checked_rate(rate)
        if self._until_ms is None:
            self._stand()
            self._go_on()
            self._arm_anew()
        if not was_standing and not rate:
            for deadline_ms, due in self._agenda.waited_for_outside():
                self._end_outside(deadline_ms, due)

    def advance(self, ms: int) -> None:
        """Move time forward by `ms`, see StandingClock, and go on from there at the same rate.

        A call that fails is told to the loop, and hurts no other.
        """
        if self._until_ms is None:
            self._stand()
        try:
            super().advance(ms)
        finally:
            if self._until_ms is None:
                self._go_on()
                self._arm_anew()

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running loop once `deadline_ms` is reached."""
        due = self._agenda.add(deadline_ms, callback)
        if deadline_ms < self._armed_ms and self._until_ms is None:
            self._arm(deadline_ms)
        return due

    def wait_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """As `call_at`; while time stands, by the machine's time if that comes first."""
        due = self._agenda.add(deadline_ms, callback)
        due.is_outside = True
        if deadline_ms < self._armed_ms and self._until_ms is None:
            self._arm(deadline_ms)
        if not self._wanted_rate:
            self._end_outside(deadline_ms, due)
        return due

    def _end_outside(self, deadline_ms: int, due: Due) -> None:
        """End a wait by the machine's time, unless something else does before."""
        left_ms = max(0, deadline_ms - self._now_ms)
        asyncio.get_running_loop().call_later(left_ms / 1000, due.make)

    def _stand(self) -> None:
        self._now_ms = self.now_ms()
        self._is_real = False
        self._rate = 0

    def _go_on(self) -> None:
        """Go on from where time stands, at the rate that is wanted."""
        rate = self._wanted_rate
        if rate == 1:
            self._latest_ns = self._now_ms * _NS
            self._ahead_ns = self._latest_ns - time.time_ns()
            self._is_real = True
        else:
            self._steady_from_ns = time.monotonic_ns()
            self._rate = rate

    def _go_slowly(self) -> int:
        """Return the time while the machine's is behind ours."""
        steady_ns = time.monotonic_ns()
        if self._slow_ns != self._latest_ns:
            self._slow_from_ns, self._slow_steady_ns = self._latest_ns, steady_ns
        self._slow_ns = self._slow_from_ns + (steady_ns - self._slow_steady_ns) // 2
        return self._slow_ns

    def _arm_anew(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        self._armed_ms = _NEVER_MS
        deadline_ms = self._agenda.next_deadline_ms()
        if deadline_ms is not None:
            self._arm(deadline_ms)

    def _arm(self, deadline_ms: int) -> None:
        """Have the loop call at the first deadline; while time stands, only if that has passed.

        A call that comes early finds nothing due and arms anew, which is cheaper than moving it
        whenever the first deadline is cancelled.
        """
        left_ms = max(0, deadline_ms - self.now_ms())
        if left_ms and not self._wanted_rate:
            return
        if self._armed is not None:
            self._armed.cancel()
        self._armed_ms = deadline_ms
        delay_s = left_ms / 1000 / (self._wanted_rate or 1)
        self._armed = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def _fire(self) -> None:
        """Make the calls that are due; those asked for on the way wait for the loop's next turn."""
        self._armed = None
        self._armed_ms = _NEVER_MS
        newest = self._agenda.newest
        now_ms = self.now_ms()
        while (due := self._agenda.pop_due(now_ms, newest)) is not None:
            self._make(*due)
        self._arm_anew()

    def _make(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        if self._until_ms is not None:
            self._now_ms = max(self._now_ms, deadline_ms)
        try:
            callback()
        except Exception as fault:  # noqa: BLE001 - one call must not cost the others their time
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a call that was due failed", "exception": fault}
            )


def _checked_rate(rate: float) -> float:
    if rate and not MIN_RATE <= rate <= MAX_RATE:
        raise ValueError(f"time cannot run at rate {rate}: from {MIN_RATE} to {MAX_RATE}, or 0")
    return rate or 0  # and no -0.0
