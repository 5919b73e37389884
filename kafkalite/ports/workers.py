"""Workers: greenlets that run long tasks, in turns.

A start does not need this module. Its import lets the functions of `turns` find the worker that
runs.
"""

from __future__ import annotations

from math import inf
from sys import maxsize
from typing import TYPE_CHECKING, cast

from greenlet import getcurrent, greenlet

from kafkalite.ports import turns
from kafkalite.ports.turns import ThreadCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.turns import MemoryRequest


class Worker(greenlet):
    """Runs one task after another; each may take several turns.

    `take_turn` returns None when the task is done, a `ThreadCall` or a `MemoryRequest` when
    the task waits for one, and the worker itself when the turn is over. A task must not raise.
    """

    __slots__ = ("deadline", "element_count", "max_elements", "task")

    def __init__(self) -> None:
        super().__init__()
        self.deadline = 0.0
        """When this turn is over, by `time.perf_counter`; infinite where nothing may pause."""
        self.element_count = 0
        """Number of elements in the lists of the message that is being read."""
        self.max_elements = maxsize
        self.task: Callable[[], None]

    def run(self) -> None:
        """Run one task after another."""
        while True:
            self.task()
            self.hand_over(None)

    def hand_over(self, state: Worker | ThreadCall | MemoryRequest | None) -> None:
        """Switch to the event loop; `take_turn` returns `state` there."""
        event_loop = self.parent
        assert event_loop is not None
        event_loop.switch(state)

    def take_turn(self, deadline: float) -> Worker | ThreadCall | MemoryRequest | None:
        """Run the task until it is done, waits for something, or pauses after `deadline`."""
        self.deadline = deadline
        return cast("Worker | ThreadCall | MemoryRequest | None", self.switch())

    def end(self) -> None:
        """End the task where it pauses: `GreenletExit` is raised there, and nothing pauses."""
        self.deadline = inf
        self.throw()

    def wait_for(self, call: Callable[[], object]) -> object:
        """Wait until a thread has run `call`; return its result or raise its exception."""
        turns.pause_count += 1
        thread_call = ThreadCall(call)
        self.hand_over(thread_call)
        return thread_call.result()


def _current_worker() -> Worker | None:
    current = getcurrent()
    return current if isinstance(current, Worker) else None


turns.current_worker = _current_worker
