"""TimeSkipping: the clock is moved while all clients wait, and at most at its rate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.ports.clock import SteppedClock
from kafkalite.server.time_skipping import TimeSkipping

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.gateway.exchanges import Exchange

RATE = 10


class SteppedRealTime:
    """The time of a machine that a test moves, in seconds; the broker's clock runs with it."""

    def __init__(self, clock: SteppedClock) -> None:
        self._clock = clock
        self._now_s = 0.0
        self._calls: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self._now_s

    def call_later(self, delay: float, callback: Callable[[], None]) -> SteppedRealTime:
        self._calls.append((self._now_s + delay, callback))
        return self

    def cancel(self) -> None:
        """Cancel the only call."""
        self._calls.clear()

    def pass_ms(self, ms: int) -> None:
        """Let time pass, millisecond by millisecond."""
        for _ in range(ms):
            self._now_s += 0.001
            self._clock.advance(1)
            due = [call for deadline_s, call in self._calls if deadline_s <= self._now_s]
            self._calls = [each for each in self._calls if each[0] > self._now_s]
            for call in due:
                call()


class Skipped:
    """A clock that is skipped, with one deadline."""

    def __init__(self, rate: float = RATE) -> None:
        self.clock = SteppedClock(0)
        self.real = SteppedRealTime(self.clock)
        self.is_busy = False
        self.calls: list[int] = []
        self.skipping = TimeSkipping(self.clock, self.real, rate, lambda: self.is_busy)

    def schedule(self, deadline_ms: int) -> None:
        self.clock.call_at(deadline_ms, lambda: self.calls.append(self.clock.now_ms()))

    def observe(self, exchange: SimpleNamespace, *, is_pending: bool) -> None:
        exchange.is_pending = is_pending
        self.skipping.observe(cast("Exchange", exchange))


class WaitingExchange(SimpleNamespace):
    """An exchange; each is another one."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.fixture
def skipped() -> Skipped:
    return Skipped()


def test_a_deadline_is_reached_early_at_its_own_time_while_a_client_waits(
    skipped: Skipped,
) -> None:
    skipped.schedule(10_000)
    skipped.observe(WaitingExchange(), is_pending=True)
    skipped.real.pass_ms(800)
    assert skipped.calls == []
    skipped.real.pass_ms(200)
    assert skipped.calls == [10_000]


def test_no_deadline_is_reached_early_without_a_waiting_client(skipped: Skipped) -> None:
    skipped.schedule(10_000)
    skipped.real.pass_ms(2_000)
    exchange = WaitingExchange()
    skipped.observe(exchange, is_pending=True)
    skipped.observe(exchange, is_pending=False)
    skipped.real.pass_ms(2_000)
    assert skipped.calls == []


def test_each_request_and_each_busy_moment_begins_the_quiet_time_again(skipped: Skipped) -> None:
    skipped.schedule(10_000)
    skipped.observe(WaitingExchange(), is_pending=True)
    for _ in range(5):
        skipped.real.pass_ms(500)
        skipped.observe(WaitingExchange(), is_pending=False)
    skipped.is_busy = True
    skipped.real.pass_ms(1_500)
    assert skipped.calls == []
    skipped.is_busy = False
    skipped.real.pass_ms(700)
    assert skipped.calls == [10_000]


def test_many_deadlines_are_reached_no_faster_than_the_rate(skipped: Skipped) -> None:
    for deadline_ms in range(100, 20_000, 100):
        skipped.schedule(deadline_ms)
    skipped.observe(WaitingExchange(), is_pending=True)
    skipped.real.pass_ms(1_000)
    assert 5_000 < skipped.calls[-1] <= 1_000 * RATE + 1_000
    assert skipped.calls == list(range(100, skipped.calls[-1] + 1, 100))


def test_a_stopped_one_does_not_move_the_clock(skipped: Skipped) -> None:
    skipped.schedule(10_000)
    skipped.observe(WaitingExchange(), is_pending=True)
    skipped.skipping.stop()
    skipped.real.pass_ms(5_000)
    assert skipped.calls == []
