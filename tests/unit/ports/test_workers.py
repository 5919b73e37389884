"""Workers: tasks one after another, and the end of a task that paused."""

from __future__ import annotations

import subprocess
import sys

from kafkalite.ports import turns
from kafkalite.ports.turns import pause, run_in_thread
from kafkalite.ports.workers import Worker
from tests.unit.ports.worker_tasks import LONG, OVER, worker_with


def test_a_worker_runs_one_task_after_another() -> None:
    seen: list[int] = []
    worker = Worker()
    for number in range(3):
        worker.task = lambda number=number: seen.append(number)  # type: ignore[misc]
        assert worker.take_turn(LONG) is None
    assert seen == [0, 1, 2]
    worker.end()


def test_end_raises_greenlet_exit_at_the_pause() -> None:
    seen: list[str] = []

    def task() -> None:
        try:
            pause()
            seen.append("never")
        finally:
            seen.append("cleaned up")

    worker = worker_with(task)
    worker.take_turn(OVER)
    worker.end()
    assert seen == ["cleaned up"]


def test_end_runs_cleanup_without_pauses() -> None:
    seen: list[str] = []

    def task() -> None:
        try:
            pause()
        finally:
            pause()
            run_in_thread(lambda: seen.append("closed"))

    worker = worker_with(task)
    worker.take_turn(OVER)
    worker.end()
    assert worker.dead
    assert seen == ["closed"]


def test_turns_find_the_worker_that_runs() -> None:
    seen: list[Worker | None] = []
    worker = worker_with(lambda: seen.append(turns.current_worker()))
    worker.take_turn(LONG)
    worker.end()
    assert seen == [worker]
    assert turns.current_worker() is None


def test_pauses_need_no_greenlets_without_workers() -> None:
    code = "import sys, kafkalite.ports.turns as turns; turns.pause(); print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert "greenlet" not in output.stdout.split()
