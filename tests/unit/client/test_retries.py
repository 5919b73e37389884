"""Backoff and Retries: growing waiting times, until a deadline."""

from __future__ import annotations

from kafkalite.client.retries import DEFAULT_BACKOFF, Backoff, Retries, wait_until
from tests.unit.client.scripted_client import SkippingClock


def test_waiting_times_double_up_to_the_maximum() -> None:
    assert [DEFAULT_BACKOFF.delay_ms(failures) for failures in range(7)] == [
        0, 100, 200, 400, 800, 1_000, 1_000,
    ]  # fmt: skip
    assert Backoff(1, 10).delay_ms(10**9) == 10


async def test_attempts_end_before_the_deadline() -> None:
    clock = SkippingClock()
    retries = Retries(clock, Backoff(100, 1_000), 500)
    assert retries.remaining_ms == 500
    assert await retries.wait()
    assert await retries.wait()
    assert clock.now_ms() == 300
    assert retries.remaining_ms == 200
    assert not await retries.wait()
    assert clock.now_ms() == 300


async def test_waiting_for_the_past_takes_no_time() -> None:
    clock = SkippingClock()
    clock.advance(10)
    await wait_until(clock, 10)
    assert clock.waits_ms == []
    await wait_until(clock, 15)
    assert clock.now_ms() == 15


def test_the_remaining_time_of_a_request_includes_the_grace_time() -> None:
    clock = SkippingClock()
    clock.advance(50)
    without, with_grace = (Retries(clock, Backoff(), 1_000, grace_ms=each) for each in (0, 500))
    assert (without.start_ms, without.deadline_ms) == (50, 1_050)
    assert (without.request_timeout_s, with_grace.request_timeout_s) == (1, 1.5)
    clock.advance(1_200)
    assert (without.request_timeout_s, with_grace.request_timeout_s) == (0, 0.3)
    assert with_grace.remaining_ms == 0
