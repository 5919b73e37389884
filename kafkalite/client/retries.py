"""Backoff and Retries: how long a client waits between attempts, and when it stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.ports.clock import Clock

_GROWTH: Final = 2
_MAX_DOUBLINGS: Final = 30


class Backoff(NamedTuple):
    """Waiting times that double from `initial_ms` up to `maximum_ms`; the defaults are Kafka's."""

    initial_ms: int = 100
    maximum_ms: int = 1_000

    def delay_ms(self, failures: int) -> int:
        """Return the waiting time after this number of consecutive failures; 0 without a failure.

        The number can be arbitrarily large.
        """
        if not failures:
            return 0
        growth: int = _GROWTH ** min(failures - 1, _MAX_DOUBLINGS)
        return min(self.initial_ms * growth, self.maximum_ms)


DEFAULT_BACKOFF: Final = Backoff()


class Retries:
    """The attempts of one operation until its deadline."""

    def __init__(
        self, clock: Clock, backoff: Backoff, timeout_ms: int, *, grace_ms: int = 0
    ) -> None:
        """Begin an operation; requests that were sent in time may take `grace_ms` longer."""
        self._clock = clock
        self._backoff = backoff
        self._failures = 0
        self.start_ms = clock.now_ms()
        self.deadline_ms = self.start_ms + timeout_ms
        self.request_deadline_ms = self.deadline_ms + grace_ms

    @property
    def remaining_ms(self) -> int:
        """The time until the deadline; 0 if it has passed."""
        return max(0, self.deadline_ms - self._clock.now_ms())

    @property
    def request_timeout_s(self) -> float:
        """The maximum time of a request that is sent now; 0 if there is no time for it."""
        return remaining_s(self._clock, self.request_deadline_ms)

    async def wait(self) -> bool:
        """Wait before the next attempt; return False, without waiting, if it would be too late."""
        self._failures += 1
        next_ms = self._clock.now_ms() + self._backoff.delay_ms(self._failures)
        if next_ms >= self.deadline_ms:
            return False
        await wait_until(self._clock, next_ms)
        return True


def remaining_s(clock: Clock, deadline_ms: int) -> float:
    """Return the seconds until the clock reaches a time; 0 if it has passed."""
    return max(0, deadline_ms - clock.now_ms()) / 1_000


async def wait_until(clock: Clock, deadline_ms: int) -> None:
    """Wait until the clock reaches a time."""
    if deadline_ms <= clock.now_ms():
        return
    reached = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not reached.done():
            reached.set_result(None)

    timer = clock.call_at(deadline_ms, end)
    try:
        await reached
    finally:
        timer.cancel()
