"""Executors: threads for jobs that would block the event loop, such as syncs of files.

The event loop submits jobs, which use no state of the broker, and receives their results on the
loop. Each executor has one thread, so its jobs end in the order in which they were submitted.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

DoneCallback: TypeAlias = "Callable[[Exception | None], None]"
"""Called on the loop when a job has ended, with the exception that ended it, or None."""


class Executor(Protocol):
    """Runs jobs outside the loop."""

    def submit(self, job: Callable[[], None], on_done: DoneCallback) -> None:
        """Run `job`, then call `on_done` on the loop."""

    def close(self) -> None:
        """Wait for the running job and drop queued ones; their `on_done` is not called."""

    def abandon(self) -> None:
        """Do the same as `close`, but do not wait for the running job."""


class InlineExecutor:
    """Runs every job immediately on the loop: for tests, and where there is no loop."""

    __slots__ = ()

    def submit(self, job: Callable[[], None], on_done: DoneCallback) -> None:
        """Run `job`, then call `on_done`."""
        on_done(_run_job(job))

    def close(self) -> None:
        """Do nothing: no job can be waiting."""

    def abandon(self) -> None:
        """Do nothing: no job can be running."""


class ThreadExecutor:
    """Runs jobs in a thread, which starts with the first of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str = "kafkalite-disk") -> None:
        """`name` is the name of the thread."""
        self._loop = loop
        self._name = name
        self._jobs: SimpleQueue[tuple[Callable[[], None], DoneCallback] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.is_closed = False
        """Whether the executor accepts no more jobs."""

    def submit(self, job: Callable[[], None], on_done: DoneCallback) -> None:
        """Run `job`, then call `on_done` on the loop; no effect after `close`."""
        if self.is_closed:
            return
        self._jobs.put((job, on_done))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait for the running job and drop queued ones; their `on_done` is not called."""
        thread = self._thread
        self.abandon()
        if thread is not None:
            thread.join()

    def abandon(self) -> None:
        """Do the same as `close`, but do not wait for the running job: its thread ends later."""
        self.is_closed = True
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)

    def _run(self) -> None:
        while (submitted := self._jobs.get()) is not None:
            if self.is_closed:
                continue
            job, on_done = submitted
            failure = _run_job(job)
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._finish, on_done, failure)

    def _finish(self, on_done: DoneCallback, failure: Exception | None) -> None:
        if not self.is_closed:
            on_done(failure)


def _run_job(job: Callable[[], None]) -> Exception | None:
    try:
        job()
    except Exception as failure:  # noqa: BLE001 - passed to the submitter of the job
        return failure
    return None
