"""Scheduler: turns of connections, and the return of memory."""

from __future__ import annotations

import asyncio
import gc
import weakref
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.memory import GarbageCollector
from kafkalite.ports.turns import pause, run_in_thread, wait_for_memory
from kafkalite.server import scheduler as module
from kafkalite.server.scheduler import (
    CLOSED_CONNECTIONS_PER_MEMORY_RETURN,
    QUEUE_TURN_S,
    READ_TURN_S,
    TURN_S,
    WORKER_TURN_S,
    Scheduler,
)
from kafkalite.server.work_limit import MAX_CONCURRENT_BYTES
from kafkalite.wire.frames import ReceiveBuffers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kafkalite.ports.workers import Worker


class Time:
    """A clock that advances only with work."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Client:
    """A connection with `pieces` of work of `cost_s` each, with a pause after each."""

    def __init__(
        self,
        scheduler: Scheduler,
        time: Time,
        name: str,
        *,
        pieces: int,
        cost_s: float,
        log: list[str],
    ) -> None:
        self.scheduler, self.time, self.name, self.log = scheduler, time, name, log
        self.pieces, self.cost_s = pieces, cost_s
        self.worker: Worker | None = None

    def work(self) -> None:
        for _ in range(self.pieces):
            self.time.now += self.cost_s
            self.log.append(self.name)
            pause()

    def begin(self) -> None:
        self.worker = self.scheduler.run(self.work, self)

    def continue_turn(self) -> None:
        if self.worker is not None:
            self.worker = self.scheduler.resume(self.worker, self)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(module, "perf_counter", time)
    monkeypatch.setattr("kafkalite.ports.turns.perf_counter", time)
    return time


@pytest.fixture
async def scheduler(time: Time) -> AsyncIterator[Scheduler]:
    made = Scheduler(asyncio.get_running_loop(), ReceiveBuffers(), GarbageCollector(time))
    yield made
    made.stop()


async def until(done: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to an end")


async def test_a_short_task_is_completed_immediately(scheduler: Scheduler, time: Time) -> None:
    log: list[str] = []
    client = Client(scheduler, time, "a", pieces=3, cost_s=WORKER_TURN_S / 10, log=log)
    client.begin()
    assert log == ["a", "a", "a"]
    assert client.worker is None
    assert not scheduler.is_busy


async def test_long_tasks_take_turns(scheduler: Scheduler, time: Time) -> None:
    log: list[str] = []
    clients = [
        Client(scheduler, time, name, pieces=4, cost_s=WORKER_TURN_S, log=log) for name in "ab"
    ]
    for client in clients:
        client.begin()
    assert log == ["a", "b"]
    await until(lambda: not scheduler.is_busy)
    assert log == list("abababab")


async def test_the_loop_runs_other_work_between_turns_of_the_queue(
    scheduler: Scheduler, time: Time
) -> None:
    log: list[str] = []
    for name in "abcdefgh":
        Client(scheduler, time, name, pieces=3, cost_s=QUEUE_TURN_S, log=log).begin()
    log.clear()

    def other_work() -> None:
        log.append("other")
        if scheduler.is_busy:
            asyncio.get_running_loop().call_soon(other_work)

    other_work()
    await until(lambda: not scheduler.is_busy)
    between = "".join("|" if each == "other" else each for each in log).split("|")
    assert max(map(len, between)) == 1, "each portion is used up by one piece of work"


async def test_a_turn_lasts_for_its_time(scheduler: Scheduler, time: Time) -> None:
    scheduler.begin_turn()
    assert not scheduler.is_turn_over()
    time.now += TURN_S
    assert scheduler.is_turn_over()


async def test_a_read_turn_lasts_until_the_queue_is_served(
    scheduler: Scheduler, time: Time
) -> None:
    assert not scheduler.is_read_turn_over()
    scheduler.begin_read_turn()
    time.now += READ_TURN_S / 2
    scheduler.begin_read_turn()
    assert not scheduler.is_read_turn_over()
    time.now += READ_TURN_S / 2
    assert scheduler.is_read_turn_over()
    scheduler.enqueue(Client(scheduler, time, "a", pieces=0, cost_s=0, log=[]))
    await until(lambda: not scheduler.is_busy)
    scheduler.begin_read_turn()
    assert not scheduler.is_read_turn_over()


async def test_work_in_a_thread_does_not_block_the_loop(scheduler: Scheduler) -> None:
    class Waiter:
        def __init__(self) -> None:
            self.result = ""
            self.worker: Worker | None = None
            self.is_done = asyncio.Event()

        def work(self) -> None:
            self.result = run_in_thread(lambda: "from a thread")

        def continue_turn(self) -> None:
            assert self.worker is not None
            self.worker = scheduler.resume(self.worker, self)
            self.is_done.set()

    waiter = Waiter()
    waiter.worker = scheduler.run(waiter.work, waiter)
    assert waiter.worker is not None
    assert scheduler.is_busy
    async with asyncio.timeout(30):
        await waiter.is_done.wait()
    assert waiter.result == "from a thread"


async def test_garbage_collection_is_disabled_during_a_task(
    scheduler: Scheduler, time: Time
) -> None:
    gc.enable()
    client = Client(scheduler, time, "a", pieces=2, cost_s=WORKER_TURN_S, log=[])
    client.begin()
    assert not gc.isenabled()
    await until(lambda: client.worker is None)
    assert gc.isenabled()


async def test_garbage_collection_is_enabled_when_tasks_overlap_for_long(
    scheduler: Scheduler, time: Time
) -> None:
    gc.enable()
    first, second = (
        Client(scheduler, time, name, pieces=3, cost_s=WORKER_TURN_S, log=[]) for name in "ab"
    )
    first.begin()
    assert not gc.isenabled()
    time.now += 3600
    second.begin()
    assert gc.isenabled()
    await until(lambda: not scheduler.is_busy)
    first.pieces = 2
    first.begin()
    assert not gc.isenabled()


async def test_garbage_collection_remains_disabled_during_a_task_of_another_cluster(
    scheduler: Scheduler, time: Time
) -> None:
    gc.enable()
    other = Scheduler(asyncio.get_running_loop(), ReceiveBuffers(), scheduler._collector)
    longer = Client(other, time, "a", pieces=20, cost_s=WORKER_TURN_S, log=[])
    shorter = Client(scheduler, time, "b", pieces=2, cost_s=WORKER_TURN_S, log=[])
    shorter.begin()
    longer.begin()
    await until(lambda: shorter.worker is None)
    assert longer.worker is not None
    assert not gc.isenabled()
    other.stop()
    assert gc.isenabled()


async def test_a_worker_does_not_refer_to_a_finished_client(
    scheduler: Scheduler, time: Time
) -> None:
    client = Client(scheduler, time, "a", pieces=1, cost_s=WORKER_TURN_S / 10, log=[])
    client.begin()
    is_gone = weakref.ref(client)
    del client
    assert is_gone() is None


async def test_a_disconnect_ends_the_task(scheduler: Scheduler, time: Time) -> None:
    log: list[str] = []
    client = Client(scheduler, time, "a", pieces=3, cost_s=WORKER_TURN_S, log=log)
    client.begin()
    worker, client.worker = client.worker, None
    assert worker is not None
    scheduler.end(worker)
    assert worker.dead
    assert log == ["a"]
    assert gc.isenabled()


class Loop:
    """An event loop with at most one timer; it runs nothing by itself."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.soon: list[Callable[[], None]] = []
        self.cancelled = 0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[int], None], times: int) -> Loop:
        assert delay_s > 0
        self.calls.append(partial(callback, times))
        return self

    def cancel(self) -> None:
        self.cancelled += 1
        self.calls.clear()


async def test_memory_is_returned_some_time_after_a_long_task(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned: list[str] = []
    monkeypatch.setattr(module, "return_freed_memory", lambda: returned.append("memory"))
    buffers = ReceiveBuffers()
    buffers.release(buffers.acquire(100_000))
    loop = Loop()
    calls, soon = loop.calls, loop.soon
    scheduler = Scheduler(loop, buffers)  # type: ignore[arg-type]
    Client(scheduler, time, "a", pieces=2, cost_s=WORKER_TURN_S, log=[]).begin()
    Client(scheduler, time, "b", pieces=2, cost_s=WORKER_TURN_S, log=[]).begin()
    while soon:
        soon.pop(0)()
    assert len(calls) == 1
    calls.pop()()
    assert returned == ["memory"]
    assert len(buffers.acquire(1)) < 100_000, "idle buffers are gone"
    while calls:
        calls.pop()()
    assert returned == ["memory"] * 3, "a connection may have held its last answer"
    buffers.release(buffers.acquire(1 << 25))
    assert len(calls) == 1
    calls.pop()()
    assert returned == ["memory"] * 4, "a buffer that is dropped is memory to return"
    scheduler.stop()


async def test_memory_is_returned_after_many_connections_were_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    returned: list[str] = []
    monkeypatch.setattr(module, "return_freed_memory", lambda: returned.append("memory"))
    loop = Loop()
    scheduler = Scheduler(loop, ReceiveBuffers())  # type: ignore[arg-type]
    for count in range(1, 3 * CLOSED_CONNECTIONS_PER_MEMORY_RETURN):
        scheduler.count_closed_connection()
        assert len(loop.calls) == (count >= CLOSED_CONNECTIONS_PER_MEMORY_RETURN)
    assert not loop.cancelled, "clients that come and go do not postpone the return"
    while loop.calls:
        loop.calls.pop()()
    assert returned == ["memory"] * 3
    scheduler.count_closed_connection()
    assert not loop.calls, "the closed connections were counted until the last return"


async def test_garbage_is_collected_before_memory_is_returned(
    scheduler: Scheduler, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []

    def collect() -> int:
        log.append("collect")
        time.now += 0.001
        return 0

    scheduler._collector.collect_all = collect
    monkeypatch.setattr(module, "return_freed_memory", lambda: log.append("return"))
    scheduler._return_memory(1)
    assert log == ["collect", "return"]
    scheduler._return_memory(2)
    assert log == ["collect", "return", "return"], "the duration of collections is limited"
    time.now += 1.0
    scheduler._return_memory(3)
    assert log == ["collect", "return", "return", "collect", "return"]


async def test_no_garbage_is_collected_while_a_connection_is_served(
    scheduler: Scheduler, time: Time
) -> None:
    scheduler._collector.collect_all = lambda: pytest.fail("a request would wait")
    Client(scheduler, time, "a", pieces=2, cost_s=TURN_S, log=[]).begin()
    assert scheduler.is_busy
    scheduler._return_memory(3)


async def test_long_requests_above_the_limit_wait_for_earlier_ones(
    scheduler: Scheduler, time: Time
) -> None:
    class Long(Client):
        def work(self) -> None:
            wait_for_memory(MAX_CONCURRENT_BYTES)
            super().work()

    log: list[str] = []
    clients = [
        Long(scheduler, time, name, pieces=3, cost_s=WORKER_TURN_S, log=log) for name in "abcd"
    ]
    for client in clients:
        client.begin()
    gone = clients[1].worker
    assert gone is not None
    clients[1].worker = None
    scheduler.end(gone)
    await until(lambda: not scheduler.is_busy)
    assert log == list("aaacccddd")
