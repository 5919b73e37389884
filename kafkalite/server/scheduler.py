"""Scheduler: the order in which connections are served, so that none delays others for long.

A connection is served in turns of at most TURN_S. Bytes that arrive are served immediately. If
requests remain at the end of the turn, the connection is queued. The queue is served in order, for
QUEUE_TURN_S at a time; between these periods, sockets are read and timers run. A connection that
used up its turn is busy until it has no requests left. While others are queued, a connection that
is busy, or whose last read was large, is queued when bytes arrive. Otherwise large reads are served
for READ_TURN_S; then the connection is queued even without requests, and the other sockets are
polled. So a client that sends without pause delays others by a few turns only.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.ports.executors import ThreadExecutor
from kafkalite.ports.memory import COLLECTOR, return_freed_memory
from kafkalite.ports.turns import MemoryRequest, ThreadCall
from kafkalite.server.work_limit import WorkLimit
from kafkalite.wire.frames import SHARED_BUFFER_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from kafkalite.ports.memory import GarbageCollector
    from kafkalite.ports.workers import Worker
    from kafkalite.wire.frames import ReceiveBuffers

TURN_S = 0.004
"""The maximum duration of a turn: others are served after it."""

WORKER_TURN_S = 0.002
"""The maximum duration of a worker's turn."""

READ_TURN_S = 0.006
"""The time for which large reads are served before other sockets are polled.

Each poll costs a client that sends without pause some 50 microseconds.
"""

QUEUE_TURN_S = 0.004
"""The time for which queued connections are served before sockets are read and timers run."""

_MEMORY_RETURN_DELAYS_S = (1.0, 3.0, 10.0)
"""Freed memory is returned to the system after these delays: the first counts from the last long
request, the others from the previous return. A connection may hold the memory of its last answer
until its next request, so one return is not enough."""

CLOSED_CONNECTIONS_PER_MEMORY_RETURN: Final = 100
"""The number of closed connections after which freed memory is returned: with TLS, each needs more
than 40 KB."""


def _new_worker() -> Worker:
    from kafkalite.ports.workers import Worker  # noqa: PLC0415 - not needed by a start

    return Worker()


class QueuedConnection(Protocol):
    """A connection in the queue."""

    def continue_turn(self) -> None:
        """Take another turn."""


class Scheduler:
    """The turns of all connections of one event loop."""

    __slots__ = (
        "_buffers",
        "_closed_connections",
        "_collector",
        "_idle_workers",
        "_is_scheduled",
        "_is_stopped",
        "_limits",
        "_loop",
        "_memory_timer",
        "_paused_workers",
        "_queue",
        "_read_turn_end",
        "_thread",
        "deadline",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffers: ReceiveBuffers,
        collector: GarbageCollector = COLLECTOR,
    ) -> None:
        self._loop = loop
        self._collector = collector
        self._buffers = buffers
        self._idle_workers: list[Worker] = []
        self._queue: deque[QueuedConnection] = deque()
        self._read_turn_end = 0.0
        """The end of the current read turn, by `time.perf_counter`; 0 before it begins."""
        self._is_scheduled = False
        self._is_stopped = False
        self._paused_workers: set[Worker] = set()
        self.deadline = 0.0
        """The end of the current turn, by `time.perf_counter`."""
        self._thread: ThreadExecutor | None = None
        self._limits = (WorkLimit(self.enqueue), WorkLimit(self.enqueue))
        """Limits of the requests that fit in the shared buffer, and of those that do not."""
        self._memory_timer: asyncio.TimerHandle | None = None
        self._closed_connections = 0
        """The number of connections that were closed since memory was last returned."""
        buffers.on_drop = self._schedule_memory_return

    @property
    def is_busy(self) -> bool:
        """Whether connections wait for a turn or for a thread."""
        return bool(self._queue or self._paused_workers)

    def begin_turn(self) -> None:
        """Begin a turn."""
        self.deadline = perf_counter() + TURN_S

    def is_turn_over(self) -> bool:
        """Return whether the current turn is over."""
        return perf_counter() >= self.deadline

    def begin_read_turn(self) -> None:
        """Begin a read turn before a large read, unless one has begun.

        It includes the large reads of all connections until the queue is served.
        """
        if not self._read_turn_end:
            self._read_turn_end = perf_counter() + READ_TURN_S

    def is_read_turn_over(self) -> bool:
        """Return whether other sockets must be polled before more large reads are served."""
        return 0 < self._read_turn_end <= perf_counter()

    def run(self, task: Callable[[], None], connection: QueuedConnection) -> Worker | None:
        """Let a worker take a turn at `task`, which must not raise.

        Returns None if the task is done, otherwise the worker; `resume` takes its next turn.
        `connection` is queued when the worker can continue.
        """
        worker = self._idle_workers.pop() if self._idle_workers else _new_worker()
        worker.task = task
        return self.resume(worker, connection)

    def resume(self, worker: Worker, connection: QueuedConnection) -> Worker | None:
        """Let a paused worker take its next turn; see `run`."""
        self.deadline = deadline = perf_counter() + WORKER_TURN_S
        outcome = worker.take_turn(deadline)
        if outcome is None:
            del worker.task  # it refers to the connection
            self._idle_workers.append(worker)
            if self._paused_workers:
                self._remove_paused(worker)
            return None
        self._add_paused(worker)
        if isinstance(outcome, ThreadCall):
            self._run_in_thread(outcome, connection)
        elif isinstance(outcome, MemoryRequest):
            self._release_limits(worker)
            self._limits[outcome.size_bytes > SHARED_BUFFER_BYTES].acquire(
                worker, outcome.size_bytes, connection
            )
        else:
            self.enqueue(connection)
        return worker

    def end(self, worker: Worker) -> None:
        """End the task of a worker that paused."""
        worker.end()
        self._remove_paused(worker)

    def _add_paused(self, worker: Worker) -> None:
        # It may have created millions of objects, and each collection would visit all of them.
        self._collector.pause(worker)
        self._paused_workers.add(worker)

    def _remove_paused(self, worker: Worker) -> None:
        self._paused_workers.discard(worker)
        self._collector.resume(worker)
        self._release_limits(worker)
        if not self._paused_workers:
            self._schedule_memory_return()

    def _release_limits(self, worker: Worker) -> None:
        for limit in self._limits:
            limit.release(worker)

    def enqueue(self, connection: QueuedConnection) -> None:
        """Queue a connection for another turn."""
        self._queue.append(connection)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_queue)

    def _run_queue(self) -> None:
        """Let connections at the head of the queue take turns for QUEUE_TURN_S."""
        queue = self._queue
        self._read_turn_end = 0.0
        end_time = perf_counter() + QUEUE_TURN_S
        while queue:
            queue.popleft().continue_turn()
            if perf_counter() >= end_time:
                break
        if queue and not self._is_stopped:
            self._loop.call_soon(self._run_queue)
        else:
            self._is_scheduled = False

    def _run_in_thread(self, call: ThreadCall, connection: QueuedConnection) -> None:
        if self._thread is None:
            # One thread, so that only one decompression at a time uses memory.
            self._thread = ThreadExecutor(self._loop, "kafkalite-requests")
        self._thread.submit(call.run, lambda _: self.enqueue(connection))

    def count_closed_connection(self) -> None:
        """Count a closed connection: the memory of many is returned to the system."""
        self._closed_connections += 1
        is_due = self._closed_connections >= CLOSED_CONNECTIONS_PER_MEMORY_RETURN
        # A return that is scheduled already is not postponed: clients may come and go forever.
        if is_due and self._memory_timer is None:
            self._schedule_memory_return()

    def _schedule_memory_return(self) -> None:
        """Schedule the return of freed memory to the system; a repeated call postpones it."""
        if self._memory_timer is not None:
            self._memory_timer.cancel()
        if not self._is_stopped:
            self._memory_timer = self._loop.call_later(
                _MEMORY_RETURN_DELAYS_S[0], self._return_memory, 1
            )

    def _return_memory(self, return_count: int) -> None:
        """Return freed memory to the system, for the `return_count`th time in a row."""
        self._memory_timer = None
        self._closed_connections = 0
        self._buffers.drop_idle()
        if not self.is_busy:
            self._collector.collect()
        return_freed_memory()
        if return_count < len(_MEMORY_RETURN_DELAYS_S):
            self._memory_timer = self._loop.call_later(
                _MEMORY_RETURN_DELAYS_S[return_count], self._return_memory, return_count + 1
            )

    def stop(self) -> None:
        """Take no further turns, and end the paused tasks."""
        self._is_stopped = True
        self._queue.clear()
        for limit in self._limits:
            limit.stop()
        if self._memory_timer is not None:
            self._memory_timer.cancel()
        if self._thread is not None:
            self._thread.close()
        for worker in (*self._idle_workers, *self._paused_workers):
            worker.end()
            self._collector.resume(worker)
        self._idle_workers.clear()
        self._paused_workers.clear()
