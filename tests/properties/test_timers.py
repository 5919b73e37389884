"""Timers of coordinators are due on time: on the broker's clock, with an event loop that is driven.

The shards of several nodes share one clock, as in a broker. Timers are set, moved and cancelled at
random, also by other timers, while the machine is busy, and the clock jumps.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.coordinator.contract import CancelTimer, CoordinatorResult, SetTimer
from kafkalite.coordinator.runtime import CoordinatorRuntime
from kafkalite.ports.clock import AdjustableClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord, TimerChange
    from kafkalite.protocol.errors import KafkaError

START_NS = 1_700_000_000_000_000_000
NS_PER_MS = 1_000_000
NODES = (1, 2, 3, 1, 2)
"""The leader of each shard."""


class Handle:
    """A callback of the loop."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class DrivenLoop:
    """An event loop whose time is driven; its time changes once per iteration, as libuv's does."""

    def __init__(self) -> None:
        self.steady_ns = 7 * NS_PER_MS
        self._time_s = self.steady_ns / 1e9
        self._timers: list[tuple[int, int, Handle]] = []
        self._order = count()
        self._ready: deque[Handle] = deque()

    def time(self) -> float:
        return self._time_s

    def call_soon(self, callback: Callable[[], None]) -> Handle:
        handle = Handle(callback)
        self._ready.append(handle)
        return handle

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Handle:
        delay_ms = round(delay_s * 1000)  # as uvloop does
        if not delay_ms:
            return self.call_soon(callback)
        handle = Handle(callback)
        due_ns = self.steady_ns + delay_ms * NS_PER_MS
        heapq.heappush(self._timers, (due_ns, next(self._order), handle))
        return handle

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise context["exception"]

    def run(self, duration_ns: int) -> None:
        """Run the callbacks that are due within a duration."""
        end_ns = self.steady_ns + duration_ns
        while True:
            self._time_s = self.steady_ns / 1e9
            while self._timers and self._timers[0][0] <= self.steady_ns:
                self._ready.append(heapq.heappop(self._timers)[2])
            for _ in range(len(self._ready)):
                handle = self._ready.popleft()
                if handle.callback is not None:
                    handle.callback()
            if self._ready:
                continue
            next_ns = self._timers[0][0] if self._timers else end_ns
            if next_ns > end_ns or not self._timers:
                break
            self.steady_ns = max(self.steady_ns, next_ns)
        self.steady_ns = max(self.steady_ns, end_ns)


class Due(NamedTuple):
    """A timer's event: the deadline, and timers that the decision about it changes."""

    key: str
    deadline_ms: int
    next_ms: int | None
    """The delay after which the timer of the same key is due again; None if it is not set."""
    busy_ms: int
    """The time that the decision takes."""


class Recorder:
    """A machine that records when its timers are due."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        raise AssertionError(f"there are no records: {record}")

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        del now_ms
        return CoordinatorResult(None)

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        raise AssertionError(f"nothing is appended: {records}, {error}, {now_ms}")

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        assert isinstance(event, Due)
        return CoordinatorResult(None, timers=self._cluster.on_due(event, now_ms))


class Cluster:
    """The shards of three nodes on one clock, and the timers that should be set."""

    def __init__(self, loop: DrivenLoop) -> None:
        self.loop = loop
        self.clock = AdjustableClock()
        self.expected: dict[str, Due] = {}
        self.busy_ms = 0
        """The time for which callbacks have been busy since the loop was last idle."""
        self.runtime: CoordinatorRuntime[Recorder] = CoordinatorRuntime(
            clock=self.clock,
            serde=None,  # type: ignore[arg-type]  # nothing is appended
            partition_count=lambda: len(NODES),
            open_log=lambda _: MemoryCoordinatorLog(),
            make_machine=lambda _: Recorder(self),
        )
        self.runtime.set_leaders(NODES)

    def on_due(self, event: Due, now_ms: int) -> Sequence[TimerChange]:
        """Check that a timer is set and due, and return the next timer of its key."""
        assert self.expected.pop(event.key) is event, "the timer was replaced or cancelled"
        lateness_ms = now_ms - event.deadline_ms
        assert 0 <= lateness_ms <= 1 + self.busy_ms, event
        self.busy_ms += event.busy_ms
        self.loop.steady_ns += event.busy_ms * NS_PER_MS
        if event.next_ms is None:
            return ()
        return (self._expect(event.key, event.next_ms, None, 0),)

    def _expect(self, key: str, delay_ms: int, next_ms: int | None, busy_ms: int) -> SetTimer:
        deadline_ms = self.clock.now_ms() + delay_ms
        due = self.expected[key] = Due(key, deadline_ms, next_ms, busy_ms)
        return SetTimer(key, deadline_ms, due)

    def set(self, key: str, delay_ms: int, next_ms: int | None, busy_ms: int) -> None:
        """Set or move a timer."""
        self._decide(key, self._expect(key, delay_ms, next_ms, busy_ms))

    def cancel(self, key: str) -> None:
        """Cancel a timer, if it is set."""
        self.expected.pop(key, None)
        self._decide(key, CancelTimer(key))

    def _decide(self, key: str, change: TimerChange) -> None:
        partition = self.runtime.partition_for(key)
        self.runtime.write(partition, lambda *_: CoordinatorResult(None, timers=[change]))

    def run(self, duration_ms: int) -> None:
        """Let time pass; no timer is overdue after that."""
        self.loop.run(duration_ms * NS_PER_MS)
        while self.busy_ms:  # callbacks were busy at the end
            self.busy_ms = 0
            self.loop.run(2 * NS_PER_MS)
        now_ms = self.clock.now_ms()
        overdue = [due for due in self.expected.values() if due.deadline_ms < now_ms - 1]
        assert not overdue

    def jump(self, duration_ms: int) -> None:
        """Move the time forward; the timers in between are due at their own times."""
        self.clock.advance(duration_ms)
        self.busy_ms = 0


delays = st.integers(0, 40) | st.integers(0, 6_000)
keys = st.sampled_from([f"k{number}" for number in range(12)])
operations = st.one_of(
    st.tuples(st.just("set"), keys, delays, st.none() | delays, st.just(0) | st.integers(0, 90)),
    st.tuples(st.just("cancel"), keys),
    st.tuples(st.just("run"), delays),
    st.tuples(st.just("run"), st.integers(0, 3)),
    st.tuples(st.just("jump"), delays),
)


@given(performed=st.lists(operations, max_size=60))
def test_timers_are_due_on_time(performed: list[tuple[Any, ...]]) -> None:
    loop = DrivenLoop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.time_ns", lambda: START_NS + loop.steady_ns)
        patch.setattr("time.monotonic_ns", lambda: loop.steady_ns)
        patch.setattr("asyncio.get_running_loop", lambda: loop)
        cluster = Cluster(loop)
        for name, *arguments in performed:
            getattr(cluster, name)(*arguments)
        cluster.run(20_000)
        assert not cluster.expected
        cluster.runtime.stop()
