"""Background tasks: long work in short steps on the event loop, between requests.

A task is an iterator. After each step it yields None, or a job that waits for the disk: the
executor runs that before the next step, and an OSError of the job is raised where the task yielded
it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.ports.executors import Executor

Job: TypeAlias = "Callable[[], None]"
Steps: TypeAlias = "Generator[Job | None, None, None]"

STEP_S = 0.002
"""Maximum time in seconds that a task runs before requests are served again."""


def run_steps(steps: Steps) -> None:
    """Run all steps and jobs now."""
    with suppress(StopIteration):
        job = next(steps)
        while True:
            try:
                if job is not None:
                    job()
            except OSError as failure:
                job = steps.throw(failure)
            else:
                job = next(steps)


class BackgroundTask:
    """A task that runs until it ends, fails or is cancelled."""

    __slots__ = ("_clock", "_executor", "_is_cancelled", "_on_end", "_step_s", "_steps", "_timer")

    def __init__(
        self,
        steps: Steps,
        *,
        clock: Clock,
        executor: Executor,
        on_end: Callable[[Exception | None], None],
        step_s: float = STEP_S,
    ) -> None:
        """Prepare a task; `on_end` is called once with the exception that ended it, or None."""
        self._steps = steps
        self._clock = clock
        self._executor = executor
        self._on_end = on_end
        self._step_s = step_s
        self._timer: Timer | None = None
        self._is_cancelled = False

    def run(self) -> None:
        """Run the first steps now; the event loop runs the others later."""
        self._resume(lambda: next(self._steps))

    def cancel(self) -> None:
        """Run no more steps; `on_end` is not called."""
        self._is_cancelled = True
        if self._timer is not None:
            self._timer.cancel()

    def _resume(self, next_step: Callable[[], Job | None]) -> None:
        if self._is_cancelled:
            return
        deadline = time.perf_counter() + self._step_s
        try:
            job = next_step()
            while job is None and time.perf_counter() < deadline:
                job = next(self._steps)
        except StopIteration:
            self._on_end(None)
        except Exception as fault:  # noqa: BLE001 - passed to `on_end`
            self._on_end(fault)
        else:
            if job is None:
                self._timer = self._clock.call_at(self._clock.now_ms(), self.run)
            else:
                self._executor.submit(job, self._on_job_end)

    def _on_job_end(self, failure: Exception | None) -> None:
        if failure is None:
            self.run()
        else:
            self._resume(lambda: self._steps.throw(failure))
