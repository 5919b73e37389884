"""Clock: the time, and calls at a later time.

Every deadline in the broker is a `call_at` on one Clock, so that the time can be set: paused, run
faster or slower, and moved forward. Calls that are due in a jump are made in order, each at its
own virtual time.

A client measures its own timeouts with a clock of its own. So a long poll ends when its deadline
has passed by this clock or, while this clock is paused, by the machine's clock. Two delays always
use the machine's time: the time that a closing socket has to send its last bytes, and the time for
which a stopping process waits for such sockets.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.scheduled_calls import ScheduledCalls
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.scheduled_calls import ScheduledCall

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since the Unix epoch; no clock goes beyond it."""

MIN_RATE = 0.001
MAX_RATE = 1_000_000
"""Range of rates; a rate is the speed of this clock relative to the machine's clock."""

MAX_EXACT_CALLS = 250_000
"""Maximum number of calls of one jump that are made at their own times."""
COARSE_ROUNDS = 1_000
"""Number of rounds in which the rest of a jump is done."""
MAX_PERIODIC_ROUNDS = 32
"""Maximum number of rounds of periodic work in one jump, without the last round."""

_MAX_LATENESS_S = 0.02
"""If the loop makes a call later than this, in seconds, sockets are read first."""

REPORTED_LATENESS_S = 0.5
"""If the loop makes a call later than this, in seconds, an AdjustableClock reports it."""

_NEVER_MS = 1 << 62
_MAX_OFFSET_NS = 1_000_000_000
"""A clock at the speed of the machine's clock that differs by less has the machine's time."""


class Timer(Protocol):
    """A call that is due at some time, unless it is cancelled."""

    def cancel(self) -> None:
        """Cancel the call; no effect if it was made already."""


class Clock(Protocol):
    """Milliseconds since the Unix epoch, and deadlines in the same unit."""

    def now_ms(self) -> int:
        """Return the time, in milliseconds since the Unix epoch; it never goes back."""

    def now_ns(self) -> int:
        """Return the same time in nanoseconds, as exactly as is known."""

    def after_due_calls(self, callback: Callable[[], None]) -> Timer | None:
        """Call `callback` after the calls that are due and not made yet.

        Returns None if there are none; `callback` is then not called.
        """

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once when `deadline_ms` is reached, never within this call."""

    def wait_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Do the same as `call_at`, for the end of a wait that the client measures itself.

        While this clock is paused, the call is made after the same duration of the machine's time.
        """

    def periodic_deadline_ms(self, deadline_ms: int) -> int:
        """Return the time of the next round of periodic work, which is due at `deadline_ms`.

        Usually that is `deadline_ms`. In a jump over many rounds, only the first round, the last
        and some in between are done.
        """


class ClockState(NamedTuple):
    """The time and the speed of an AdjustableClock."""

    now_ms: int | None
    """None for the machine's time."""
    rate: float
    skip_rate: float


class ClockReports(Protocol):
    """Learns about problems of an AdjustableClock."""

    def late_loop(self, lateness_s: float, now_s: float) -> None:
        """Report at `now_s` that the loop, or the whole process, did not run in time."""

    def failed_call(self, error: Exception) -> None:
        """Report that a call raised an exception."""


class SteppedClock:
    """A Clock that moves only when advanced, and then makes the calls that are due, in order."""

    __slots__ = ("_calls", "_now_ms", "_round_interval_ms", "_until_ms")

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._calls = ScheduledCalls()
        self._until_ms: int | None = None
        """The time at which the current jump ends; None outside of a jump."""
        self._round_interval_ms = 0

    def now_ms(self) -> int:
        """Return the virtual time, in milliseconds since the Unix epoch."""
        return self._now_ms

    def now_ns(self) -> int:
        """Return the virtual time, in nanoseconds since the Unix epoch."""
        return self._now_ms * NANOSECONDS_PER_MILLISECOND

    def after_due_calls(self, callback: Callable[[], None]) -> Timer | None:
        """Return None: `advance` makes all calls that are due."""
        del callback
        return None

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` in the first `advance` that reaches `deadline_ms`."""
        return self._calls.add(deadline_ms, callback)

    def wait_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` in the first `advance` that reaches `deadline_ms`, as `call_at` does."""
        return self.call_at(deadline_ms, callback)

    def periodic_deadline_ms(self, deadline_ms: int) -> int:
        """Return when the next round is done; in a jump, MAX_PERIODIC_ROUNDS limits the rounds."""
        until_ms = self._until_ms
        if until_ms is not None and deadline_ms <= until_ms:
            return min(max(deadline_ms, self._now_ms + self._round_interval_ms), until_ms)
        return deadline_ms

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a call that is not cancelled, or None."""
        return self._calls.next_deadline_ms()

    def advance(self, ms: int) -> None:
        """Move time forward by `ms`; each call that is due sees its own deadline as the time.

        Calls that are requested during the jump are made too, when they are due. After
        MAX_EXACT_CALLS calls, the rest of the jump is done in COARSE_ROUNDS rounds: a call that is
        requested in one round is made in the next at the earliest. So work with a very short period
        is done once per round. Raises ValueError for a negative duration or a time beyond
        LATEST_MS, and then does nothing.
        """
        until_ms = self.now_ms() + ms
        if ms < 0 or until_ms > LATEST_MS:
            raise ValueError(f"time cannot move by {ms} ms: it goes forward, up to the year 9999")
        if self._until_ms is not None:
            raise RuntimeError("the clock is already advancing")
        self._until_ms = until_ms
        self._round_interval_ms = max(1, ms // MAX_PERIODIC_ROUNDS)
        try:
            self._advance_to(until_ms)
            self._now_ms = until_ms
        finally:
            self._until_ms = None

    def _advance_to(self, until_ms: int) -> None:
        for _ in range(MAX_EXACT_CALLS):
            call = self._calls.pop_due(until_ms)
            if call is None:
                return
            self._make_call(*call)
        start_ms = self._now_ms
        for number in range(1, COARSE_ROUNDS + 1):
            latest_number = self._calls.latest_number
            boundary_ms = start_ms + (until_ms - start_ms) * number // COARSE_ROUNDS
            while (call := self._calls.pop_due(boundary_ms, latest_number)) is not None:
                self._make_call(*call)
            self._now_ms = boundary_ms

    def _make_call(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self._now_ms = max(self._now_ms, deadline_ms)
        callback()


class AdjustableClock(SteppedClock):
    """The broker's clock: the machine's time until it is adjusted; it makes calls on the loop.

    At rate 1 it runs at the machine's speed, at rate 0 it is paused until advanced, and at any
    other rate it runs that many times as fast. It never goes back: after a jump it continues from
    the new time. When the machine's time is set back, this clock runs at half speed until the
    machine's time has caught up. Deadlines are then a little late, but not by as much as the time
    was set back.
    """

    __slots__ = (
        "_follows_machine",
        "_latest_ns",
        "_loop_timer",
        "_loop_timer_due_s",
        "_loop_timer_ms",
        "_monotonic_start_ns",
        "_offset_ns",
        "_rate",
        "_reads_sockets_first",
        "_reports",
        "_requested_rate",
        "_slow_latest_ns",
        "_slow_start_monotonic_ns",
        "_slow_start_ns",
        "skip_rate",
    )  # fmt: skip

    def __init__(self, rate: float = 1, now_ms: int | None = None, skip_rate: float = 0) -> None:
        """Start at `now_ms`, by default the machine's time.

        A broker moves the clock while all its clients wait, at most at `skip_rate`, unless that
        is 0.
        """
        super().__init__(
            time.time_ns() // NANOSECONDS_PER_MILLISECOND if now_ms is None else now_ms
        )
        self._offset_ns = 0
        """Difference to the machine's time; 0 until the first jump, pause or other rate."""
        self._latest_ns = 0
        self._loop_timer: Timer | None = None
        self._loop_timer_ms = _NEVER_MS
        self._reads_sockets_first = False
        """Whether the due calls will be made after the sockets were read once."""
        self._loop_timer_due_s = 0.0
        """Time at which the loop should call `_wake`, by the loop's clock."""
        self._reports: tuple[ClockReports, ...] = ()
        # The start of half speed by this clock and by the machine's monotonic clock, and the latest
        # time of this clock.
        self._slow_start_ns = 0
        self._slow_start_monotonic_ns = 0
        self._slow_latest_ns = -1
        self._monotonic_start_ns = 0
        self._follows_machine = False
        self._rate: float = 0
        """Equals `rate`, but is 0 while the clock follows the machine's time or is in a jump."""
        self._requested_rate = _validate_rate(rate)
        self.skip_rate = _validate_rate(skip_rate)
        """The highest speed while all clients wait; 0 if the clock is not moved then."""
        self._resume()
        if now_ms is None and self._follows_machine:
            self._offset_ns = 0

    def subscribe(self, reports: ClockReports) -> None:
        """Report late and failed calls to a broker that uses this clock; several may use it."""
        self._reports = (*self._reports, reports)

    def unsubscribe(self, reports: ClockReports) -> None:
        """End the reports to a broker that has stopped."""
        self._reports = tuple(each for each in self._reports if each is not reports)

    def now_ms(self) -> int:
        """Return the time, in milliseconds since the Unix epoch."""
        if self._follows_machine:
            now_ns = time.time_ns() + self._offset_ns
            if now_ns < self._latest_ns:
                now_ns = self._half_speed_ns()
            self._latest_ns = now_ns
            return now_ns // NANOSECONDS_PER_MILLISECOND
        if self._rate:
            elapsed_ns = time.monotonic_ns() - self._monotonic_start_ns
            return min(
                self._now_ms + int(elapsed_ns * self._rate) // NANOSECONDS_PER_MILLISECOND,
                LATEST_MS,
            )
        return self._now_ms

    def now_ns(self) -> int:
        """Return the time, in nanoseconds since the Unix epoch; whole milliseconds if adjusted."""
        if self._follows_machine:  # as in `now_ms`, for speed: recordings call this often
            now_ns = time.time_ns() + self._offset_ns
            if now_ns < self._latest_ns:
                now_ns = self._half_speed_ns()
            self._latest_ns = now_ns
            return now_ns
        return self.now_ms() * NANOSECONDS_PER_MILLISECOND

    @property
    def rate(self) -> float:
        """The speed of this clock relative to the machine's clock; 0 when it is paused."""
        return self._requested_rate

    def run(self, rate: float, skip_rate: float = 0) -> None:
        """Continue from now, `rate` times as fast as the machine's time.

        0 pauses the clock. `skip_rate` is for brokers that use the clock. Raises ValueError for
        another rate outside of MIN_RATE to MAX_RATE.
        """
        was_paused = not self._requested_rate
        self.skip_rate = _validate_rate(skip_rate)
        self._requested_rate = _validate_rate(rate)
        if self._until_ms is None:
            self._pause()
            self._resume()
            self._reset_loop_timer()
        if not was_paused and not rate:
            for deadline_ms, call in self._calls.external_waits():
                self._schedule_machine_time(deadline_ms, call)

    def advance(self, ms: int) -> None:
        """Move time forward by `ms`, see SteppedClock, and continue at the same rate.

        If a call fails, its exception is reported, by default to the loop; the other calls are
        still made.
        """
        if self._until_ms is None:
            self._pause()
        try:
            super().advance(ms)
        finally:
            if self._until_ms is None:
                self._resume()
                self._reset_loop_timer()

    def state(self) -> ClockState:
        """Return the time and the speed, for `restore`."""
        is_machine_time = self._follows_machine and abs(self._offset_ns) < _MAX_OFFSET_NS
        now_ms = None if is_machine_time else self.now_ms()
        return ClockState(now_ms, self._requested_rate, self.skip_rate)

    def restore(self, state: ClockState) -> None:
        """Set time and speed, the only way back in time; all calls keep their distance from now.

        A clock that had the machine's time has the present one.
        """
        self._pause()
        now_ms = state.now_ms
        if now_ms is None:
            now_ms = time.time_ns() // NANOSECONDS_PER_MILLISECOND
        self._calls.shift(now_ms - self._now_ms)
        self._now_ms = now_ms
        self._requested_rate, self.skip_rate = state.rate, state.skip_rate
        self._resume()
        self._reset_loop_timer()

    def after_due_calls(self, callback: Callable[[], None]) -> Timer | None:
        """Call `callback` after the calls that are due; return None if there are none.

        The sockets are read once before, as in a late loop.
        """
        now_ms = self.now_ms()
        if now_ms < self._loop_timer_ms or self._until_ms is not None:
            return None
        if not self._reads_sockets_first:
            # Not when the loop's timer is due: the machine's time may have been set forward.
            if self._loop_timer is not None:
                self._loop_timer.cancel()
            self._make_due_calls_after_reading()
        # Calls are made in the order of their deadlines.
        return self._calls.add(now_ms, callback)

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the running loop once `deadline_ms` is reached."""
        call = self._calls.add(deadline_ms, callback)
        if deadline_ms < self._loop_timer_ms and self._until_ms is None:
            self._set_loop_timer(deadline_ms)
        return call

    def wait_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` at `deadline_ms`; while paused, by the machine's time if earlier."""
        call = self._calls.add(deadline_ms, callback)
        call.is_external = True
        if deadline_ms < self._loop_timer_ms and self._until_ms is None:
            self._set_loop_timer(deadline_ms)
        if not self._requested_rate:
            self._schedule_machine_time(deadline_ms, call)
        return call

    def _schedule_machine_time(self, deadline_ms: int, call: ScheduledCall) -> None:
        """Make a call after the remaining time by the machine's clock, unless made before."""
        remaining_ms = max(0, deadline_ms - self._now_ms)
        asyncio.get_running_loop().call_later(remaining_ms / 1000, call.make)

    def _pause(self) -> None:
        self._now_ms = self.now_ms()
        self._follows_machine = False
        self._rate = 0

    def _resume(self) -> None:
        """Continue from the current time at the requested rate."""
        rate = self._requested_rate
        if rate == 1:
            self._latest_ns = self._now_ms * NANOSECONDS_PER_MILLISECOND
            self._offset_ns = self._latest_ns - time.time_ns()
            self._follows_machine = True
        else:
            self._monotonic_start_ns = time.monotonic_ns()
            self._rate = rate

    def _half_speed_ns(self) -> int:
        """Return the time at half speed, used while the machine's time is behind this clock."""
        monotonic_ns = time.monotonic_ns()
        if self._slow_latest_ns != self._latest_ns:
            self._slow_start_ns, self._slow_start_monotonic_ns = self._latest_ns, monotonic_ns
        self._slow_latest_ns = (
            self._slow_start_ns + (monotonic_ns - self._slow_start_monotonic_ns) // 2
        )
        return self._slow_latest_ns

    def _reset_loop_timer(self) -> None:
        if self._loop_timer is not None:
            self._loop_timer.cancel()
            self._loop_timer = None
        self._loop_timer_ms = _NEVER_MS
        self._reads_sockets_first = False
        deadline_ms = self._calls.next_deadline_ms()
        if deadline_ms is not None:
            self._set_loop_timer(deadline_ms)

    def _set_loop_timer(self, deadline_ms: int) -> None:
        """Set the loop's timer for a deadline; while paused, only if the deadline has passed.

        After an early call nothing is due and the timer is set again. That is cheaper than moving
        the timer each time the first deadline is cancelled.
        """
        remaining_ms = max(0, deadline_ms - self.now_ms())
        if remaining_ms and not self._requested_rate:
            return
        if self._loop_timer is not None:
            self._loop_timer.cancel()
        self._loop_timer_ms = deadline_ms
        delay_s = remaining_ms / 1000 / (self._requested_rate or 1)
        loop = asyncio.get_running_loop()
        self._loop_timer_due_s = loop.time() + delay_s
        self._loop_timer = loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        """Make the calls that are due. If the loop is late, read sockets first.

        Otherwise a member whose heartbeat is waiting in its socket would be treated as dead.
        """
        loop = asyncio.get_running_loop()
        lateness_s = loop.time() - self._loop_timer_due_s
        if lateness_s <= _MAX_LATENESS_S:
            self._make_due_calls()
        else:
            if lateness_s > REPORTED_LATENESS_S:
                for reports in self._reports:
                    reports.late_loop(lateness_s, loop.time())
            self._make_due_calls_after_reading()

    def _make_due_calls_after_reading(self) -> None:
        self._reads_sockets_first = True
        # The loop may run this before it reads sockets; it runs the second call after reading.
        self._loop_timer = asyncio.get_running_loop().call_soon(self._wake_after_reading)

    def _wake_after_reading(self) -> None:
        self._loop_timer = asyncio.get_running_loop().call_soon(self._make_due_calls)

    def _make_due_calls(self) -> None:
        """Make the calls that are due; calls requested by these wait for the loop's next turn."""
        self._loop_timer = None
        self._loop_timer_ms = _NEVER_MS
        self._reads_sockets_first = False
        latest_number = self._calls.latest_number
        now_ms = self.now_ms()
        while (call := self._calls.pop_due(now_ms, latest_number)) is not None:
            self._make_call(*call)
        self._reset_loop_timer()

    def _make_call(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        if self._until_ms is not None:
            self._now_ms = max(self._now_ms, deadline_ms)
        try:
            callback()
        except Exception as fault:  # noqa: BLE001 - the other calls must still be made
            for reports in self._reports:
                reports.failed_call(fault)
            if not self._reports:
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a scheduled call failed", "exception": fault}
                )


def _validate_rate(rate: float) -> float:
    if rate and not MIN_RATE <= rate <= MAX_RATE:
        raise ValueError(f"the rate must be 0 or from {MIN_RATE} to {MAX_RATE}, not {rate}")
    return rate or 0  # turns -0.0 into 0
