"""Executors for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.executors import InlineExecutor

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.executors import DoneCallback


class HeldWorker:
    """An executor whose jobs run when the test calls `run`."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], None], DoneCallback]] = []

    def submit(self, job: Callable[[], None], done: DoneCallback) -> None:
        self.jobs.append((job, done))

    def close(self) -> None:
        self.jobs.clear()

    def abandon(self) -> None:
        self.jobs.clear()

    def run(self) -> None:
        job, done = self.jobs.pop(0)
        InlineExecutor().submit(job, done)
