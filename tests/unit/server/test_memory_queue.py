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

    def run_stall_timer(self) -> None:
        ((delay_s, callback),) = self.later
        assert delay_s == STALL_TIMEOUT_S
        self.later.clear()
        callback()


class Connection:
    """A connection that holds or needs a buffer."""

    def __init__(self, buffers: ReceiveBuffers, needed_bytes: int) -> None:
        self.buffers, self.needed_bytes = buffers, needed_bytes
        self.incomplete_request_bytes = 0
        self.buffer: bytearray | None = None
        self.closed: str | None = None
        self.is_reading = False

    def reserve(self) -> bool:
        if not self.buffers.can_allocate(self.needed_bytes):
            return False
        self.acquire_buffer()
        return True

    def acquire_buffer(self) -> None:
        self.buffer = self.buffers.acquire(self.needed_bytes - 1)
        self.incomplete_request_bytes = self.needed_bytes

    def release_buffer(self) -> None:
        assert self.buffer is not None
        self.incomplete_request_bytes = 0
        self.buffers.release(self.buffer)

    def continue_reading(self) -> None:
        self.is_reading = True

    def close(self, reason: str) -> None:
        self.closed = reason
        self.release_buffer()


class QueuedConnections:
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

    def connection(self, needed_bytes: int) -> Connection:
        connection = Connection(self.buffers, needed_bytes)
        self.connections.append(connection)
        return connection


@pytest.fixture
def connections() -> QueuedConnections:
    return QueuedConnections()


def test_the_first_waiting_connection_reads_first(connections: QueuedConnections) -> None:
    holder, first, second = (connections.connection(LIMIT // 2) for _ in range(3))
    other = connections.connection(LIMIT // 2)
    holder.acquire_buffer()
    other.acquire_buffer()
    connections.queue.enqueue(first)
    connections.queue.enqueue(second)
    holder.release_buffer()
    assert first.buffer is None, "not within the call that releases memory"
    connections.loop.run()
    assert first.buffer is not None
    assert first.is_reading
    assert second.buffer is None
    assert not second.is_reading
    other.release_buffer()
    connections.loop.run()
    assert second.buffer is not None


def test_a_closed_connection_is_removed(connections: QueuedConnections) -> None:
    holder, gone, next_one = (connections.connection(LIMIT) for _ in range(3))
    holder.acquire_buffer()
    connections.queue.enqueue(gone)
    connections.queue.enqueue(next_one)
    connections.queue.remove(gone)
    holder.release_buffer()
    connections.loop.run()
    assert gone.buffer is None
    assert next_one.buffer is not None


def test_the_largest_stalled_request_is_closed_while_others_wait(
    connections: QueuedConnections,
) -> None:
    small, large = connections.connection(LIMIT // 4), connections.connection(LIMIT // 2)
    waiting = connections.connection(LIMIT // 2)
    small.acquire_buffer()
    large.acquire_buffer()
    connections.queue.enqueue(waiting)
    connections.loop.run_stall_timer()
    assert small.closed is None
    assert large.closed is not None
    assert "queued.max.request.bytes" in large.closed
    connections.loop.run()
    assert waiting.buffer is not None


def test_a_request_that_makes_progress_is_not_closed(connections: QueuedConnections) -> None:
    slow, waiting = connections.connection(LIMIT), connections.connection(LIMIT)
    slow.acquire_buffer()
    connections.queue.enqueue(waiting)
    slow.incomplete_request_bytes += LIMIT
    connections.loop.run_stall_timer()
    assert slow.closed is None
    connections.loop.run_stall_timer()
    assert slow.closed is not None, "it did not get on any further"


def test_no_connection_is_closed_while_none_waits(connections: QueuedConnections) -> None:
    holder, waiting = connections.connection(LIMIT), connections.connection(LIMIT)
    holder.acquire_buffer()
    connections.queue.enqueue(waiting)
    connections.queue.remove(waiting)
    connections.loop.run_stall_timer()
    assert holder.closed is None
    assert connections.loop.later == []


def test_enough_connections_are_closed_for_the_needed_memory(
    connections: QueuedConnections,
) -> None:
    holders = [connections.connection(LIMIT // 8) for _ in range(16)]
    waiting = connections.connection(LIMIT // 2)
    for holder in holders:
        holder.acquire_buffer()
    waiting.incomplete_request_bytes = LIMIT // 2
    connections.queue.enqueue(waiting)
    connections.loop.run_stall_timer()
    assert waiting.closed is None
    connections.loop.run()
    assert waiting.buffer is not None


def test_a_waiting_connection_is_not_closed_for_stalled_ones(
    connections: QueuedConnections,
) -> None:
    stalled, waiting = connections.connection(LIMIT), connections.connection(LIMIT)
    stalled.acquire_buffer()
    waiting.incomplete_request_bytes = 2 * LIMIT
    connections.queue.enqueue(waiting)
    connections.loop.run_stall_timer()
    assert waiting.closed is None
    assert stalled.closed is not None


def test_if_all_connections_wait_the_first_continues(connections: QueuedConnections) -> None:
    first, last = connections.connection(LIMIT // 2), connections.connection(LIMIT // 2)
    first.acquire_buffer()
    last.acquire_buffer()
    connections.queue.enqueue(first)
    connections.queue.enqueue(last)
    connections.loop.run_stall_timer()
    assert first.closed is None
    assert last.closed is not None
