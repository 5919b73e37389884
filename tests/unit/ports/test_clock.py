"""The clock: time that stands, runs and jumps, and calls in their order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.ports.clock import (
    COARSE_ROUNDS,
    LATEST_MS,
    MAX_EXACT_CALLS,
    TICK_ROUNDS,
    DrivenClock,
    StandingClock,
)

if TYPE_CHECKING:
    from collections.abc import Callable

YEAR_2020_MS = 1_577_836_800_000
DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS


class Machine:
    """A machine's two clocks, of which one can be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time_s = 1_000_000.0
        self.steady_s = 50.0
        monkeypatch.setattr("time.time_ns", lambda: int(self.time_s * 10**9))
        monkeypatch.setattr("time.monotonic_ns", lambda: int(self.steady_s * 10**9))

    def run(self, seconds: float) -> None:
        self.time_s += seconds
        self.steady_s += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


class Notes:
    """Who was called, and what time it was then."""

    def __init__(self, clock: StandingClock) -> None:
        self.clock = clock
        self.seen: list[tuple[str, int]] = []

    def call(self, name: str) -> Callable[[], None]:
        return lambda: self.seen.append((name, self.clock.now_ms()))


# Time that stands


def test_what_is_due_is_called_in_order_and_finds_the_time_it_was_due_at() -> None:
    clock = StandingClock(1_000)
    notes = Notes(clock)
    clock.call_at(1_500, notes.call("b"))
    clock.call_at(1_200, notes.call("a"))
    clock.call_at(2_001, notes.call("later"))
    clock.call_at(1_500, notes.call("c"))
    clock.advance(1_000)
    assert notes.seen == [("a", 1_200), ("b", 1_500), ("c", 1_500)]
    assert clock.now_ms() == 2_000
    assert clock.next_deadline_ms == 2_001


def test_calls_asked_for_on_the_way_are_made_on_the_way() -> None:
    clock = StandingClock(0)
    notes = Notes(clock)

    def again() -> None:
        notes.call("tick")()
        clock.call_at(clock.now_ms() + 100, again)

    clock.call_at(100, again)
    clock.call_at(250, notes.call("once"))
    clock.advance(300)
    assert notes.seen == [("tick", 100), ("tick", 200), ("once", 250), ("tick", 300)]


def test_a_deadline_that_has_passed_is_due_now_and_time_does_not_go_back_for_it() -> None:
    clock = StandingClock(1_000)
    notes = Notes(clock)
    clock.call_at(5, notes.call("overdue"))
    assert notes.seen == []
    clock.advance(0)
    assert notes.seen == [("overdue", 1_000)]


@pytest.mark.parametrize("ms", [-1, LATEST_MS, 10**30])
def test_time_moves_neither_back_nor_beyond_the_year_9999(ms: int) -> None:
    clock = StandingClock(1_000)
    with pytest.raises(ValueError, match="cannot move"):
        clock.advance(ms)
    assert clock.now_ms() == 1_000


def test_time_that_is_on_its_way_cannot_be_sent_on_another() -> None:
    clock = StandingClock(0)
    clock.call_at(5, lambda: clock.advance(1))
    with pytest.raises(RuntimeError, match="on its way"):
        clock.advance(10)
    clock.advance(10)
    assert clock.now_ms() == 15


def test_ten_years_of_a_tick_every_100_ms_are_over_soon() -> None:
    """Most of its rounds are left out; what was asked for before comes at its own time."""
    clock = StandingClock(0)
    calls: list[int] = []
    notes = Notes(clock)

    def tick() -> None:
        calls.append(clock.now_ms())
        clock.call_at(clock.now_ms() + 100, tick)

    clock.call_at(100, tick)
    clock.call_at(7 * YEAR_MS + 123, notes.call("seven years"))
    clock.advance(10 * YEAR_MS)
    assert calls[1] == 200
    assert MAX_EXACT_CALLS <= len(calls) <= MAX_EXACT_CALLS + COARSE_ROUNDS
    assert calls == sorted(calls)
    assert calls[-1] > 10 * YEAR_MS * (1 - 2 / COARSE_ROUNDS)
    assert notes.seen == [("seven years", 7 * YEAR_MS + 123)]
    assert clock.now_ms() == 10 * YEAR_MS


def test_what_asks_to_be_called_at_once_for_ever_does_not_stop_time() -> None:
    clock = StandingClock(0)

    def at_once() -> None:
        clock.call_at(clock.now_ms(), at_once)

    at_once()
    clock.advance(1_000)
    assert clock.now_ms() == 1_000


def test_work_that_comes_round_is_done_some_times_in_a_jump_and_at_its_end() -> None:
    clock = StandingClock(0)
    notes = Notes(clock)

    def tick() -> None:
        notes.call("tick")()
        clock.call_at(clock.tick_ms(clock.now_ms() + 1_000), tick)

    clock.call_at(clock.tick_ms(1_000), tick)
    clock.advance(5_000)
    assert [at_ms for _, at_ms in notes.seen] == [1_000, 2_000, 3_000, 4_000, 5_000]
    notes.seen.clear()
    clock.advance(7 * DAY_MS)
    assert len(notes.seen) <= TICK_ROUNDS + 1
    assert notes.seen[0] == ("tick", 6_000)
    assert notes.seen[-1] == ("tick", 5_000 + 7 * DAY_MS)
    assert clock.next_deadline_ms == 6_000 + 7 * DAY_MS


@given(
    st.lists(st.integers(0, 1_000), max_size=20),
    st.lists(st.integers(0, 400), min_size=1, max_size=5),
)
def test_many_small_jumps_are_as_good_as_a_large_one(
    deadlines: list[int], steps: list[int]
) -> None:
    seen = []
    for jumps in ([sum(steps)], steps):
        clock = StandingClock(0)
        notes = Notes(clock)
        for number, deadline_ms in enumerate(deadlines):
            clock.call_at(deadline_ms, notes.call(f"{number}"))
        for ms in jumps:
            clock.advance(ms)
        seen.append((notes.seen, clock.now_ms()))
    assert seen[0] == seen[-1]


# The machine's time


def test_time_is_counted_in_milliseconds_since_the_epoch() -> None:
    clock = DrivenClock()
    first = clock.now_ms()
    assert YEAR_2020_MS < first <= clock.now_ms()
    assert clock.rate == 1


def test_time_that_is_set_back_goes_on_slowly_until_it_is_caught_up(machine: Machine) -> None:
    clock = DrivenClock()
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


def test_time_that_is_set_forward_is_believed(machine: Machine) -> None:
    clock = DrivenClock()
    start_ms = clock.now_ms()
    machine.time_s += 3600
    assert clock.now_ms() == start_ms + 3_600_000


async def test_a_deadline_that_has_passed_is_due_at_once_but_not_within_the_call() -> None:
    clock = DrivenClock()
    called = asyncio.Event()
    clock.call_at(clock.now_ms() - 1_000, called.set)
    assert not called.is_set()
    await called.wait()


async def test_a_cancelled_call_is_not_made() -> None:
    clock = DrivenClock()
    called: list[str] = []
    done = asyncio.Event()
    now_ms = clock.now_ms()
    clock.call_at(now_ms, lambda: called.append("cancelled")).cancel()
    clock.call_at(now_ms, done.set)
    await done.wait()
    assert called == []


async def test_deadlines_are_met_in_their_order_by_the_loop() -> None:
    clock = DrivenClock()
    notes = Notes(clock)
    done = asyncio.Event()
    start_ms = clock.now_ms()
    clock.call_at(start_ms + 20, done.set)
    clock.call_at(start_ms + 10, notes.call("second"))
    clock.call_at(start_ms + 3, notes.call("first"))
    await done.wait()
    assert [name for name, _ in notes.seen] == ["first", "second"]
    assert all(
        at_ms >= due_ms + start_ms for (_, at_ms), due_ms in zip(notes.seen, (3, 10), strict=True)
    )
    assert clock.now_ms() >= start_ms + 20


async def test_others_have_their_turn_before_what_is_asked_for_at_once_again_and_again() -> None:
    clock = DrivenClock()
    turns = 0

    def again() -> None:
        nonlocal turns
        turns += 1
        timer = clock.call_at(clock.now_ms(), again)
        if turns == 3:
            timer.cancel()
            done.set()

    done = asyncio.Event()
    again()
    assert turns == 1
    await done.wait()
    assert turns == 3


async def test_a_call_that_fails_is_told_to_the_loop_and_costs_no_other_its_time() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, fault: told.append(fault["exception"])
    )
    clock = DrivenClock()
    done = asyncio.Event()

    def fail() -> None:
        raise ZeroDivisionError

    clock.call_at(0, fail)
    clock.call_at(0, done.set)
    await done.wait()
    clock.call_at(clock.now_ms() + 1_000, fail)
    clock.advance(1_000)
    assert [type(fault) for fault in told] == [ZeroDivisionError] * 2


# Time that is driven


async def test_a_jump_makes_the_calls_on_the_way_and_time_goes_on_from_there(
    machine: Machine,
) -> None:
    clock = DrivenClock()
    notes = Notes(clock)
    start_ms = clock.now_ms()
    clock.call_at(start_ms + 45_000, notes.call("session"))
    clock.advance(60_000)
    assert notes.seen == [("session", start_ms + 45_000)]
    assert clock.now_ms() == start_ms + 60_000
    machine.run(1)
    assert clock.now_ms() == start_ms + 61_000
    machine.time_s -= 3_600
    assert clock.now_ms() == start_ms + 61_000


async def test_time_that_stands_moves_only_by_jumps(machine: Machine) -> None:
    clock = DrivenClock(rate=0, now_ms=5_000)
    notes = Notes(clock)
    machine.run(3_600)
    assert clock.now_ms() == 5_000
    clock.call_at(6_000, notes.call("due"))
    clock.advance(999)
    assert (clock.now_ms(), notes.seen) == (5_999, [])
    clock.advance(1)
    assert notes.seen == [("due", 6_000)]


async def test_what_is_due_already_is_called_though_time_stands() -> None:
    clock = DrivenClock(rate=0, now_ms=5_000)
    done = asyncio.Event()
    clock.call_at(9_000, lambda: None)
    clock.call_at(5_000, done.set)
    await done.wait()
    assert clock.now_ms() == 5_000


async def test_a_wait_of_somebody_outside_ends_though_time_stands() -> None:
    clock = DrivenClock(rate=0, now_ms=0)
    done = asyncio.Event()
    clock.wait_at(5, done.set)
    await done.wait()
    assert clock.now_ms() == 0
    assert clock.next_deadline_ms is None


@pytest.mark.usefixtures("machine")
async def test_a_wait_that_began_while_time_ran_ends_though_it_stands_now() -> None:
    clock = DrivenClock()
    done, never = asyncio.Event(), asyncio.Event()
    clock.wait_at(clock.now_ms() + 5, done.set)
    clock.call_at(clock.now_ms() + 5, never.set)
    clock.wait_at(clock.now_ms() + 5, never.set).cancel()
    clock.run(0)
    await done.wait()
    await asyncio.sleep(0)
    assert not never.is_set()


async def test_a_wait_ends_by_a_jump_and_then_no_more() -> None:
    clock = DrivenClock(rate=0, now_ms=0)
    notes = Notes(clock)
    done = asyncio.Event()
    clock.wait_at(5, notes.call("ended"))
    clock.wait_at(15, done.set)
    clock.wait_at(1, notes.call("cancelled")).cancel()
    clock.advance(10)
    await done.wait()
    assert notes.seen == [("ended", 5)]


async def test_while_time_runs_a_wait_ends_by_it() -> None:
    clock = DrivenClock(rate=10_000)
    done = asyncio.Event()
    clock.wait_at(clock.now_ms() + 60_000, done.set)
    async with asyncio.timeout(5):
        await done.wait()


def test_time_runs_as_fast_as_it_is_told(machine: Machine) -> None:
    clock = DrivenClock(rate=60, now_ms=0)
    machine.run(1)
    assert clock.now_ms() == 60_000
    clock.run(0)
    machine.run(1)
    assert clock.now_ms() == 60_000
    clock.run(0.5)
    machine.run(1)
    assert clock.now_ms() == 60_500
    clock.advance(100)
    machine.run(1)
    assert clock.now_ms() == 61_100
    clock.run(1)
    machine.run(1)
    assert clock.now_ms() == 62_100
    assert clock.rate == 1


async def test_deadlines_come_sooner_when_time_runs_faster() -> None:
    clock = DrivenClock(rate=10_000)
    done = asyncio.Event()
    clock.call_at(clock.now_ms() + 60_000, done.set)
    async with asyncio.timeout(5):
        await done.wait()


async def test_a_pace_that_changes_moves_the_deadlines_that_were_set() -> None:
    clock = DrivenClock(rate=0)
    done = asyncio.Event()
    clock.call_at(clock.now_ms() + 60_000, done.set)
    await asyncio.sleep(0)
    clock.run(10_000)
    async with asyncio.timeout(5):
        await done.wait()


def test_a_pace_that_is_set_in_the_middle_of_a_jump_counts_after_it(machine: Machine) -> None:
    clock = DrivenClock(now_ms=0)
    clock._agenda.add(10, lambda: clock.run(0))
    clock.advance(100)
    machine.run(1)
    assert (clock.now_ms(), clock.rate) == (100, 0)


def test_a_rate_of_minus_nothing_is_told_as_nothing() -> None:
    assert str(DrivenClock(rate=-0.0, now_ms=0).rate) == "0"


@pytest.mark.parametrize("rate", [-1, 0.0001, 1_000_001, float("inf"), float("nan")])
def test_no_pace_is_backward_or_beyond_its_bounds(rate: float) -> None:
    clock = DrivenClock()
    with pytest.raises(ValueError, match="rate"):
        clock.run(rate)
    assert clock.rate == 1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("run"), st.sampled_from([0, 1, 60, 0.5])),
            st.tuples(st.just("advance"), st.integers(0, 10**9)),
            st.tuples(st.just("machine"), st.integers(0, 100)),
            st.tuples(st.just("set back"), st.integers(0, 10_000)),
        ),
        max_size=12,
    )
)
def test_it_never_goes_back(steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        machine = Machine(patch)
        clock = DrivenClock()
        latest_ms = clock.now_ms()
        for kind, number in steps:
            if kind == "run":
                clock.run(number)
            elif kind == "advance":
                clock.advance(number)
            elif kind == "machine":
                machine.run(number)
            else:
                machine.time_s -= number
            now_ms = clock.now_ms()
            least_ms = latest_ms + number if kind == "advance" else latest_ms
            assert least_ms <= now_ms
            latest_ms = now_ms


def test_nanoseconds_are_those_of_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    assert StandingClock(5).now_ns() == 5_000_000
    clock = DrivenClock()
    machine.run(0.000_000_5)
    now_ns = clock.now_ns()
    assert now_ns == int(machine.time_s * 10**9)
    assert now_ns // 1_000_000 == clock.now_ms()
