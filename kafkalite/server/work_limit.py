"""Work limit: a limit on the bytes of long requests that are processed at a time.

The objects of a decoded request take up to a hundred times its size. If all long requests were
processed at once, a client with many connections could make the broker use all memory; Kafka
processes `num.io.threads` requests at a time. A request beyond the limit is queued as bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.workers import Worker
    from kafkalite.server.scheduler import QueuedConnection

MAX_CONCURRENT_BYTES: Final = 8 * 1024 * 1024


class WorkLimit:
    """The workers that process long requests, and the queue of waiting workers."""

    __slots__ = ("_admitted", "_queue", "_resume", "_used_bytes")

    def __init__(self, resume: Callable[[QueuedConnection], None]) -> None:
        """`resume` is called with each connection that may continue."""
        self._resume = resume
        self._admitted: dict[Worker, int] = {}
        self._queue: dict[Worker, tuple[int, QueuedConnection]] = {}
        self._used_bytes = 0

    def acquire(self, worker: Worker, request_bytes: int, connection: QueuedConnection) -> None:
        """Let a worker continue, in queue order, when `request_bytes` more bytes may be processed.

        A request above the limit is processed alone.
        """
        self._queue[worker] = request_bytes, connection
        self._admit()

    def release(self, worker: Worker) -> None:
        """Remove a worker whose task has ended."""
        request_bytes = self._admitted.pop(worker, None)
        if request_bytes is not None:
            self._used_bytes -= request_bytes
        else:
            self._queue.pop(worker, None)
        self._admit()

    def stop(self) -> None:
        """Let no further worker continue."""
        self._queue.clear()

    def _admit(self) -> None:
        queue = self._queue
        while queue:
            worker, (request_bytes, connection) = next(iter(queue.items()))
            if self._admitted and self._used_bytes + request_bytes > MAX_CONCURRENT_BYTES:
                break
            del queue[worker]
            self._admitted[worker] = request_bytes
            self._used_bytes += request_bytes
            self._resume(connection)
