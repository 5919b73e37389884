"""The machine's time: milliseconds that go on, and calls on the running loop."""

from __future__ import annotations

import asyncio

from kafkalite.ports.clock import SystemClock

YEAR_2020_MS = 1_577_836_800_000


def test_time_is_counted_in_milliseconds_since_the_epoch() -> None:
    clock = SystemClock()
    first = clock.now_ms()
    assert YEAR_2020_MS < first <= clock.now_ms()


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
