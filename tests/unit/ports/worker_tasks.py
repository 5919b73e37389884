"""Workers with a task, and deadlines of turns."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from kafkalite.ports.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

OVER = -inf
"""A deadline in the past, so that every pause switches to the event loop."""

LONG = 1e18
"""A deadline that is not reached."""


def worker_with(task: Callable[[], None]) -> Worker:
    worker = Worker()
    worker.task = task
    return worker
