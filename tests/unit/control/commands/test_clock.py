"""The clock of a broker: commands, and the clocks that texts describe."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.clock import ChangeClock, ShowClock, new_clock, rate_of
from kafkalite.ports.clock import AdjustableClock
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from kafkalite.ports.clock import Clock
    from kafkalite.server.broker import Broker


def broker(clock: Clock | None = None) -> Broker:
    clock = clock or AdjustableClock(rate=0, now_ms=1_000)
    return cast("Broker", SimpleNamespace(clock=clock, skip_time=lambda _: None))


async def test_answers_that_a_jump_triggers_are_sent_before_it_returns() -> None:
    clock = AdjustableClock(rate=0, now_ms=0)
    sent: list[str] = []

    def answer_in_next_iteration() -> None:
        asyncio.get_running_loop().call_soon(sent.append, "answer")

    clock.call_at(5, answer_in_next_iteration)
    await ChangeClock(advance_ms=10).perform(broker(clock))
    assert sent == ["answer"]


@pytest.mark.parametrize("now_ms", [999, 10**20])
async def test_an_invalid_time_changes_nothing(now_ms: int) -> None:
    driven = broker()
    with pytest.raises(CommandError):
        await ChangeClock(now_ms=now_ms).perform(driven)
    state = await ShowClock().perform(driven)
    assert (state.now_ms, state.rate) == (1_000, 0)


async def test_a_clock_of_the_embedding_program_is_not_changed() -> None:
    with pytest.raises(CommandError, match="controlled by the program"):
        await ChangeClock(advance_ms=1).perform(broker(ManualClock()))


@pytest.mark.parametrize(
    ("text", "rate", "now_ms"),
    [
        ("manual@1970-01-01T00:00:05Z", 0, 5_000),
        ("accelerated:60@2026-03-01", 60, None),
        ("accelerated:0.5", 0.5, None),
        ("real", 1, None),
        ("real@2031-01-01", 1, None),
    ],
)
def test_a_clock_is_created_from_text(text: str, rate: float, now_ms: int | None) -> None:
    clock = new_clock(text)
    assert clock.rate == rate
    if now_ms is not None:
        assert clock.now_ms() == now_ms
    elif "2031" in text:
        assert clock.now_ms() >= 1_924_992_000_000


@pytest.mark.parametrize(
    "text",
    ["", "fast", "accelerated", "accelerated:", "accelerated:x", "accelerated:0", "accelerated:-1",
     "manual:3", "real@yesterday", "manual@", "accelerated:nan", 3],
)  # fmt: skip
def test_invalid_text_creates_no_clock(text: Any) -> None:  # noqa: ANN401 - of a wrong type
    with pytest.raises(CommandError) as refusal:
        new_clock(text)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "rate", "skip_rate"), [("10x", 10, 0), ("auto", 1, 5), ("auto:60@2026-03-01", 1, 60)]
)
def test_a_clock_may_be_fast_always_or_while_all_clients_wait(
    text: str, rate: float, skip_rate: float
) -> None:
    clock = new_clock(text)
    assert (clock.rate, clock.skip_rate) == (rate, skip_rate)


async def test_a_clock_that_is_moved_while_all_clients_wait_can_be_changed() -> None:
    driven = broker()
    state = await ChangeClock(mode="auto").perform(driven)
    assert (state.mode, state.rate) == ("auto", 5)
    state = await ChangeClock(mode="auto", rate=30).perform(driven)
    assert (state.mode, state.rate) == ("auto", 30)
    assert (await ChangeClock(mode="manual").perform(driven)).mode == "manual"
    with pytest.raises(CommandError, match="a limit of 1 is too low"):
        await ChangeClock(mode="auto", rate=1).perform(driven)


def test_the_rate_must_fit_the_mode() -> None:
    assert (rate_of("real"), rate_of("manual"), rate_of("accelerated", 60)) == (1, 0, 60)
    assert rate_of("manual", 0) == 0
    with pytest.raises(CommandError, match="leave out the rate"):
        rate_of("real", 60)
