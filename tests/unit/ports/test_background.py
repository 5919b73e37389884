"""Background tasks: short steps, jobs in the worker, and their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.background import BackgroundTask, run_steps
from kafkalite.ports.executors import InlineExecutor
from kafkalite.testing.clock import ManualClock
from tests.unit.ports.workers import HeldWorker

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.background import Steps


@pytest.fixture
def events() -> list[str]:
    return []


def refuse() -> None:
    raise OSError(28, "no space left on device")


def steps_of(events: list[str], *, job: Callable[[], None] | None = None) -> Steps:
    for number in range(3):
        events.append(f"step {number}")
        yield None
    if job is not None:
        try:
            yield job
        except OSError as failure:
            events.append(f"failed: {failure.strerror}")
            raise
    events.append("last")


def task_of(
    events: list[str], steps: Steps, worker: HeldWorker | None = None, step_s: float = 60
) -> tuple[BackgroundTask, ManualClock]:
    clock = ManualClock()
    task = BackgroundTask(
        steps,
        clock=clock,
        executor=worker or InlineExecutor(),
        on_end=lambda fault: events.append(f"ended: {fault}"),
        step_s=step_s,
    )
    return task, clock


def test_task_pauses_after_its_time(events: list[str]) -> None:
    task, clock = task_of(events, steps_of(events), step_s=0)
    task.run()
    assert events == ["step 0"]
    clock.advance(0)
    assert events == ["step 0", "step 1", "step 2", "last", "ended: None"]
    assert clock.next_deadline_ms is None


def test_a_task_waits_for_its_job(events: list[str]) -> None:
    worker = HeldWorker()
    task, clock = task_of(events, steps_of(events, job=lambda: events.append("job")), worker)
    task.run()
    assert events == ["step 0", "step 1", "step 2"]
    assert clock.next_deadline_ms is None
    worker.run()
    assert events[3:] == ["job", "last", "ended: None"]


def test_a_job_that_fails_fails_where_it_was_yielded(events: list[str]) -> None:
    task, _ = task_of(events, steps_of(events, job=refuse))
    task.run()
    assert events[3:] == [
        "failed: no space left on device",
        "ended: [Errno 28] no space left on device",
    ]


@pytest.mark.parametrize("step_s", [0, 60])
def test_a_task_that_was_cancelled_takes_no_more_steps(events: list[str], step_s: float) -> None:
    worker = HeldWorker()
    job = steps_of(events, job=lambda: events.append("job"))
    task, clock = task_of(events, job, worker, step_s)
    task.run()
    before = [*events]
    task.cancel()
    clock.advance(1)
    if worker.jobs:
        worker.run()
        before.append("job")
    assert events == before


def test_run_steps_runs_all_steps_and_the_end(events: list[str]) -> None:
    run_steps(steps_of(events, job=lambda: events.append("job")))
    assert events == ["step 0", "step 1", "step 2", "job", "last"]
    with pytest.raises(OSError, match="no space"):
        run_steps(steps_of(events, job=refuse))
    assert events[-1] == "failed: no space left on device"
