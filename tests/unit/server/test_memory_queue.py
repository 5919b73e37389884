"""MemoryQueue: the order in which connections get memory for large requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.server.memory_queue import STALL_TIMEOUT_S, MemoryQueue
from kafkalite.wire.frames import ReceiveBuffers

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 1024 * 1024


class Loop:
    """A loop that runs scheduled calls on demand."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Loop:
        self.later.append((delay_s, callback))
        return self

    def cancel(self) -> None:
        self.later.clear()

    def run(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def pass_stall_time(self) -> None:
        ((delay_s, callback),) = self.later
        assert delay_s == STALL_TIMEOUT_S
        self.later.clear()
        callback()


class Connection:
    """A connection that holds or needs a buffer."""

    def __init__(self, buffers: ReceiveBuffers, needs: int) -> None:
        self.buffers, self.needs = buffers, needs
        self.incomplete_request_bytes = 0
        self.buffer: bytearray | None = None
        self.closed: str | None = None
        self.is_reading = False

    def reserve(self) -> bool:
        if not self.buffers.can_allocate(self.needs):
            return False
        self.take()
        return True

    def take(self) -> None:
        self.buffer = self.buffers.acquire(self.needs - 1)
        self.incomplete_request_bytes = self.needs

    def let_go(self) -> None:
        assert self.buffer is not None
        self.incomplete_request_bytes = 0
        self.buffers.release(self.buffer)

    def continue_reading(self) -> None:
        self.is_reading = True

    def close(self, reason: str) -> None:
        self.closed = reason
        self.let_go()


class Stage:
    """A queue and its connections."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.buffers = ReceiveBuffers(LIMIT)
        self.connections: list[Connection] = []
        self.queue = MemoryQueue(
            self.loop,  # type: ignore[arg-type]
            self.buffers,
            lambda: self.connections,
        )

    def connection(self, needs: int) -> Connection:
        made = Connection(self.buffers, needs)
        self.connections.append(made)
        return made


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_the_first_waiting_connection_reads_first(stage: Stage) -> None:
    holder, first, second = (stage.connection(LIMIT // 2) for _ in range(3))
    other = stage.connection(LIMIT // 2)
    holder.take()
    other.take()
    stage.queue.wait(first)
    stage.queue.wait(second)
    holder.let_go()
    assert first.buffer is None, "not within the call that releases memory"
    stage.loop.run()
    assert first.buffer is not None
    assert first.is_reading
    assert second.buffer is None
    assert not second.is_reading
    other.let_go()
    stage.loop.run()
    assert second.buffer is not None


def test_a_closed_connection_is_removed(stage: Stage) -> None:
    holder, gone, next_one = (stage.connection(LIMIT) for _ in range(3))
    holder.take()
    stage.queue.wait(gone)
    stage.queue.wait(next_one)
    stage.queue.leave(gone)
    holder.let_go()
    stage.loop.run()
    assert gone.buffer is None
    assert next_one.buffer is not None


def test_the_largest_stalled_request_is_closed_while_others_wait(
    stage: Stage,
) -> None:
    small, large = stage.connection(LIMIT // 4), stage.connection(LIMIT // 2)
    waiting = stage.connection(LIMIT // 2)
    small.take()
    large.take()
    stage.queue.wait(waiting)
    stage.loop.pass_stall_time()
    assert small.closed is None
    assert large.closed is not None
    assert "queued.max.request.bytes" in large.closed
    stage.loop.run()
    assert waiting.buffer is not None


def test_a_request_that_makes_progress_is_not_closed(stage: Stage) -> None:
    slow, waiting = stage.connection(LIMIT), stage.connection(LIMIT)
    slow.take()
    stage.queue.wait(waiting)
    slow.incomplete_request_bytes += LIMIT
    stage.loop.pass_stall_time()
    assert slow.closed is None
    stage.loop.pass_stall_time()
    assert slow.closed is not None, "it did not get on any further"


def test_no_connection_is_closed_while_none_waits(stage: Stage) -> None:
    holder, waiting = stage.connection(LIMIT), stage.connection(LIMIT)
    holder.take()
    stage.queue.wait(waiting)
    stage.queue.leave(waiting)
    stage.loop.pass_stall_time()
    assert holder.closed is None
    assert stage.loop.later == []


def test_enough_connections_are_closed_for_the_needed_memory(stage: Stage) -> None:
    holders = [stage.connection(LIMIT // 8) for _ in range(16)]
    waiting = stage.connection(LIMIT // 2)
    for holder in holders:
        holder.take()
    waiting.incomplete_request_bytes = LIMIT // 2
    stage.queue.wait(waiting)
    stage.loop.pass_stall_time()
    assert waiting.closed is None
    stage.loop.run()
    assert waiting.buffer is not None


def test_a_waiting_connection_is_not_closed_for_stalled_ones(stage: Stage) -> None:
    stalled, waiting = stage.connection(LIMIT), stage.connection(LIMIT)
    stalled.take()
    waiting.incomplete_request_bytes = 2 * LIMIT
    stage.queue.wait(waiting)
    stage.loop.pass_stall_time()
    assert waiting.closed is None
    assert stalled.closed is not None


def test_if_all_connections_wait_the_first_continues(stage: Stage) -> None:
    first, last = stage.connection(LIMIT // 2), stage.connection(LIMIT // 2)
    first.take()
    last.take()
    stage.queue.wait(first)
    stage.queue.wait(last)
    stage.loop.pass_stall_time()
    assert first.closed is None
    assert last.closed is not None
