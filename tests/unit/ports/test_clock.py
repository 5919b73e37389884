"""The clock: paused, running and jumping time, and calls in order."""

from __future__ import annotations

import asyncio
import socket
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.ports.clock import (
    COARSE_ROUNDS,
    LATEST_MS,
    MAX_EXACT_CALLS,
    MAX_PERIODIC_ROUNDS,
    REPORTED_LATENESS_S,
    AdjustableClock,
    SteppedClock,
)

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.SelectorEventLoop]
if find_spec("uvloop") is not None:
    import uvloop

    LOOPS.append(uvloop.new_event_loop)

YEAR_2020_MS = 1_577_836_800_000
DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS


class Machine:
    """A machine with a wall clock, which can be set, and a monotonic clock."""

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
    """Records calls with their times."""

    def __init__(self, clock: SteppedClock) -> None:
        self.clock = clock
        self.seen: list[tuple[str, int]] = []

    def call(self, name: str) -> Callable[[], None]:
        return lambda: self.seen.append((name, self.clock.now_ms()))


# Stepped time


def test_due_calls_are_made_in_order_at_their_time() -> None:
    clock = SteppedClock(1_000)
    notes = Notes(clock)
    clock.call_at(1_500, notes.call("b"))
    clock.call_at(1_200, notes.call("a"))
    clock.call_at(2_001, notes.call("later"))
    clock.call_at(1_500, notes.call("c"))
    clock.advance(1_000)
    assert notes.seen == [("a", 1_200), ("b", 1_500), ("c", 1_500)]
    assert clock.now_ms() == 2_000
    assert clock.next_deadline_ms == 2_001


def test_calls_requested_during_a_jump_are_made_in_the_jump() -> None:
    clock = SteppedClock(0)
    notes = Notes(clock)

    def again() -> None:
        notes.call("tick")()
        clock.call_at(clock.now_ms() + 100, again)

    clock.call_at(100, again)
    clock.call_at(250, notes.call("once"))
    clock.advance(300)
    assert notes.seen == [("tick", 100), ("tick", 200), ("once", 250), ("tick", 300)]


def test_past_deadline_is_due_now() -> None:
    clock = SteppedClock(1_000)
    notes = Notes(clock)
    clock.call_at(5, notes.call("overdue"))
    assert notes.seen == []
    clock.advance(0)
    assert notes.seen == [("overdue", 1_000)]


@pytest.mark.parametrize("ms", [-1, LATEST_MS, 10**30])
def test_time_moves_neither_back_nor_beyond_the_year_9999(ms: int) -> None:
    clock = SteppedClock(1_000)
    with pytest.raises(ValueError, match="cannot move"):
        clock.advance(ms)
    assert clock.now_ms() == 1_000


def test_advance_within_an_advance_is_refused() -> None:
    clock = SteppedClock(0)
    clock.call_at(5, lambda: clock.advance(1))
    with pytest.raises(RuntimeError, match="already advancing"):
        clock.advance(10)
    clock.advance(10)
    assert clock.now_ms() == 15


def test_jump_of_ten_years_with_frequent_ticks_is_fast() -> None:
    """Most ticks are skipped; earlier requested calls are made at their own time."""
    clock = SteppedClock(0)
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


def test_endless_immediate_calls_do_not_stop_time() -> None:
    clock = SteppedClock(0)

    def at_once() -> None:
        clock.call_at(clock.now_ms(), at_once)

    at_once()
    clock.advance(1_000)
    assert clock.now_ms() == 1_000


def test_periodic_work_is_done_some_times_in_a_jump_and_at_its_end() -> None:
    clock = SteppedClock(0)
    notes = Notes(clock)

    def tick() -> None:
        notes.call("tick")()
        clock.call_at(clock.periodic_deadline_ms(clock.now_ms() + 1_000), tick)

    clock.call_at(clock.periodic_deadline_ms(1_000), tick)
    clock.advance(5_000)
    assert [at_ms for _, at_ms in notes.seen] == [1_000, 2_000, 3_000, 4_000, 5_000]
    notes.seen.clear()
    clock.advance(7 * DAY_MS)
    assert len(notes.seen) <= MAX_PERIODIC_ROUNDS + 1
    assert notes.seen[0] == ("tick", 6_000)
    assert notes.seen[-1] == ("tick", 5_000 + 7 * DAY_MS)
    assert clock.next_deadline_ms == 6_000 + 7 * DAY_MS


@given(
    st.lists(st.integers(0, 1_000), max_size=20),
    st.lists(st.integers(0, 400), min_size=1, max_size=5),
)
def test_many_small_jumps_equal_a_large_one(deadlines: list[int], steps: list[int]) -> None:
    seen = []
    for jumps in ([sum(steps)], steps):
        clock = SteppedClock(0)
        notes = Notes(clock)
        for number, deadline_ms in enumerate(deadlines):
            clock.call_at(deadline_ms, notes.call(f"{number}"))
        for ms in jumps:
            clock.advance(ms)
        seen.append((notes.seen, clock.now_ms()))
    assert seen[0] == seen[-1]


# The machine's time


def test_time_is_counted_in_milliseconds_since_the_epoch() -> None:
    clock = AdjustableClock()
    first = clock.now_ms()
    assert YEAR_2020_MS < first <= clock.now_ms()
    assert clock.rate == 1


def test_clock_runs_at_half_speed_after_the_time_was_set_back(machine: Machine) -> None:
    clock = AdjustableClock()
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


def test_clock_follows_time_that_is_set_forward(machine: Machine) -> None:
    clock = AdjustableClock()
    start_ms = clock.now_ms()
    machine.time_s += 3600
    assert clock.now_ms() == start_ms + 3_600_000


async def test_past_deadline_is_called_soon_but_not_within_call_at() -> None:
    clock = AdjustableClock()
    called = asyncio.Event()
    clock.call_at(clock.now_ms() - 1_000, called.set)
    assert not called.is_set()
    await called.wait()


async def test_a_cancelled_call_is_not_made() -> None:
    clock = AdjustableClock()
    called: list[str] = []
    done = asyncio.Event()
    now_ms = clock.now_ms()
    clock.call_at(now_ms, lambda: called.append("cancelled")).cancel()
    clock.call_at(now_ms, done.set)
    await done.wait()
    assert called == []


async def test_deadlines_are_met_in_order() -> None:
    clock = AdjustableClock()
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


async def test_repeated_immediate_calls_let_other_work_run() -> None:
    clock = AdjustableClock()
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


async def test_failing_call_is_reported_and_other_calls_are_made() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, fault: reported.append(fault["exception"])
    )
    clock = AdjustableClock()
    done = asyncio.Event()

    def fail() -> None:
        raise ZeroDivisionError

    clock.call_at(0, fail)
    clock.call_at(0, done.set)
    await done.wait()
    clock.call_at(clock.now_ms() + 1_000, fail)
    clock.advance(1_000)
    assert [type(fault) for fault in reported] == [ZeroDivisionError] * 2


# Driven time


async def test_jump_makes_its_calls_and_time_continues(
    machine: Machine,
) -> None:
    clock = AdjustableClock()
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


async def test_paused_time_moves_only_by_jumps(machine: Machine) -> None:
    clock = AdjustableClock(rate=0, now_ms=5_000)
    notes = Notes(clock)
    machine.run(3_600)
    assert clock.now_ms() == 5_000
    clock.call_at(6_000, notes.call("due"))
    clock.advance(999)
    assert (clock.now_ms(), notes.seen) == (5_999, [])
    clock.advance(1)
    assert notes.seen == [("due", 6_000)]


async def test_past_deadline_is_called_while_paused() -> None:
    clock = AdjustableClock(rate=0, now_ms=5_000)
    done = asyncio.Event()
    clock.call_at(9_000, lambda: None)
    clock.call_at(5_000, done.set)
    await done.wait()
    assert clock.now_ms() == 5_000


async def test_external_wait_ends_while_paused() -> None:
    clock = AdjustableClock(rate=0, now_ms=0)
    done = asyncio.Event()
    clock.wait_at(5, done.set)
    await done.wait()
    assert clock.now_ms() == 0
    assert clock.next_deadline_ms is None


@pytest.mark.usefixtures("machine")
async def test_external_wait_from_before_a_pause_ends() -> None:
    clock = AdjustableClock()
    done, never = asyncio.Event(), asyncio.Event()
    clock.wait_at(clock.now_ms() + 5, done.set)
    clock.call_at(clock.now_ms() + 5, never.set)
    clock.wait_at(clock.now_ms() + 5, never.set).cancel()
    clock.run(0)
    await done.wait()
    await asyncio.sleep(0)
    assert not never.is_set()


async def test_external_wait_ends_once_by_a_jump() -> None:
    clock = AdjustableClock(rate=0, now_ms=0)
    notes = Notes(clock)
    done = asyncio.Event()
    clock.wait_at(5, notes.call("ended"))
    clock.wait_at(15, done.set)
    clock.wait_at(1, notes.call("cancelled")).cancel()
    clock.advance(10)
    await done.wait()
    assert notes.seen == [("ended", 5)]


async def test_external_wait_ends_by_running_time() -> None:
    clock = AdjustableClock(rate=10_000)
    done = asyncio.Event()
    clock.wait_at(clock.now_ms() + 60_000, done.set)
    async with asyncio.timeout(5):
        await done.wait()


def test_time_runs_at_the_requested_rate(machine: Machine) -> None:
    clock = AdjustableClock(rate=60, now_ms=0)
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
    clock = AdjustableClock(rate=10_000)
    done = asyncio.Event()
    clock.call_at(clock.now_ms() + 60_000, done.set)
    async with asyncio.timeout(5):
        await done.wait()


async def test_new_rate_applies_to_existing_deadlines() -> None:
    clock = AdjustableClock(rate=0)
    done = asyncio.Event()
    clock.call_at(clock.now_ms() + 60_000, done.set)
    await asyncio.sleep(0)
    clock.run(10_000)
    async with asyncio.timeout(5):
        await done.wait()


def test_rate_set_during_a_jump_applies_after_it(machine: Machine) -> None:
    clock = AdjustableClock(now_ms=0)
    clock._calls.add(10, lambda: clock.run(0))
    clock.advance(100)
    machine.run(1)
    assert (clock.now_ms(), clock.rate) == (100, 0)


def test_rate_of_minus_zero_is_reported_as_zero() -> None:
    assert str(AdjustableClock(rate=-0.0, now_ms=0).rate) == "0"


@pytest.mark.parametrize("rate", [-1, 0.0001, 1_000_001, float("inf"), float("nan")])
def test_rate_outside_of_its_bounds_is_refused(rate: float) -> None:
    clock = AdjustableClock()
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
def test_time_never_goes_back(steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        machine = Machine(patch)
        clock = AdjustableClock()
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
    assert SteppedClock(5).now_ns() == 5_000_000
    clock = AdjustableClock()
    machine.run(0.000_000_5)
    now_ns = clock.now_ns()
    assert now_ns == int(machine.time_s * 10**9)
    assert now_ns // 1_000_000 == clock.now_ms()


@pytest.mark.parametrize("new_loop", LOOPS)
def test_delayed_loop_reads_sockets_before_it_makes_due_calls(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Otherwise a member whose heartbeat is waiting in its socket would be treated as dead."""
    seen: list[str] = []
    ours, theirs = socket.socketpair()
    long_request, its_sender = socket.socketpair()

    async def serve_for_long_while_a_heartbeat_comes() -> None:
        loop = asyncio.get_running_loop()
        clock = AdjustableClock()
        expired = asyncio.Event()

        def expire() -> None:
            seen.append("session expired")
            expired.set()

        def read_heartbeat() -> None:
            seen.append("heartbeat")
            loop.remove_reader(ours)

        def serve() -> None:
            loop.remove_reader(long_request)
            clock.call_at(clock.now_ms() + 1, expire)
            theirs.send(b"heartbeat")
            until_s = time.perf_counter() + 0.05
            while time.perf_counter() < until_s:
                pass

        loop.add_reader(ours, read_heartbeat)
        loop.add_reader(long_request, serve)
        its_sender.send(b"a long request")
        await expired.wait()

    with ours, theirs, long_request, its_sender, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve_for_long_while_a_heartbeat_comes())
    assert seen == ["heartbeat", "session expired"]


async def test_a_call_after_due_calls_is_made_without_the_timer_of_the_loop(
    machine: Machine,
) -> None:
    """The timer is due later when the machine's time was set forward."""
    seen: list[str] = []
    done = asyncio.Event()
    clock = AdjustableClock()
    clock.call_at(clock.now_ms() + 3_600_000, lambda: seen.append("due"))
    assert clock.after_due_calls(done.set) is None
    machine.run(3_601)
    assert clock.after_due_calls(lambda: seen.append("after")) is not None
    for _ in range(3):  # no further call postpones them
        await asyncio.sleep(0)
        clock.after_due_calls(done.set)
    await done.wait()
    assert seen == ["due", "after"]
    assert clock.after_due_calls(done.set) is None


class NotedReports:
    def __init__(self) -> None:
        self.lateness_s: list[float] = []
        self.errors: list[str] = []

    def late_loop(self, lateness_s: float, now_s: float) -> None:
        assert now_s > lateness_s
        self.lateness_s.append(lateness_s)

    def failed_call(self, error: Exception) -> None:
        self.errors.append(str(error))


async def test_a_failed_call_is_reported_to_the_brokers_of_the_clock() -> None:
    """The loop may belong to other brokers, too, so its handler gets nothing."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: pytest.fail("not the loop's"))
    first, second, other = NotedReports(), NotedReports(), NotedReports()
    clock, other_clock = AdjustableClock(rate=0), AdjustableClock(rate=0)
    for each in (first, second):
        clock.subscribe(each)
    other_clock.subscribe(other)

    def fail() -> None:
        raise LookupError("a bug")

    clock.call_at(clock.now_ms() + 1, fail)
    clock.advance(1)
    clock.unsubscribe(first)
    clock.call_at(clock.now_ms() + 1, fail)
    clock.advance(1)
    assert (first.errors, second.errors, other.errors) == (["a bug"], ["a bug"] * 2, [])


async def test_a_late_loop_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = NotedReports()
    made = asyncio.Event()
    clock = AdjustableClock()
    clock.subscribe(reports)
    clock.call_at(clock.now_ms() + 1, made.set)
    loop = asyncio.get_running_loop()
    real_time = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_time() + 4 * REPORTED_LATENESS_S)
    await made.wait()
    assert len(reports.lateness_s) == 1
    assert reports.lateness_s[0] > REPORTED_LATENESS_S
