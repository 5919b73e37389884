"""The machine's time: milliseconds that go on, and calls on the running loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkalite.ports.clock import SystemClock

if TYPE_CHECKING:
    import pytest

YEAR_2020_MS = 1_577_836_800_000


def test_time_is_counted_in_milliseconds_since_the_epoch() -> None:
    clock = SystemClock()
    first = clock.now_ms()
    assert YEAR_2020_MS < first <= clock.now_ms()


class Machine:
    """A machine's two clocks, of which one can be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time_s = 1_000_000
        self.steady_s = 50
        monkeypatch.setattr("time.time_ns", lambda: self.time_s * 10**9)
        monkeypatch.setattr("time.monotonic_ns", lambda: self.steady_s * 10**9)

    def run(self, seconds: int) -> None:
        self.time_s += seconds
        self.steady_s += seconds


def test_time_that_is_set_back_goes_on_slowly_until_it_is_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    clock = SystemClock()
    for _ in range(2):
        start_ms = clock.now_ms()
        assert start_ms == machine.time_s * 1000
        machine.time_s -= 3600
        assert clock.now_ms() == start_ms
        machine.run(10)
        assert clock.now_ms() == start_ms + 5_000
        machine.run(3000)
        assert clock.now_ms() == start_ms + 1_505_000
        machine.run(4000)
        assert clock.now_ms() == start_ms + 3_410_000 == machine.time_s * 1000
        machine.run(1)


def test_time_that_is_set_forward_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    clock = SystemClock()
    start_ms = clock.now_ms()
    machine.time_s += 3600
    assert clock.now_ms() == start_ms + 3_600_000


async def test_a_deadline_that_has_passed_is_due_at_once_but_not_within_the_call() -> None:
    clock = SystemClock()
    called = asyncio.Event()
    clock.call_at(clock.now_ms() - 1_000, called.set)
    assert not called.is_set()
    await called.wait()


async def test_a_cancelled_call_is_not_made() -> None:
    clock = SystemClock()
    called: list[str] = []
    done = asyncio.Event()
    now_ms = clock.now_ms()
    clock.call_at(now_ms, lambda: called.append("cancelled")).cancel()
    clock.call_at(now_ms, done.set)
    await done.wait()
    assert called == []
