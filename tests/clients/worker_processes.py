"""Worker processes that read, transform and write in transactions.

The orders and the output of a worker are in `tests.clients.drivers.worker`.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.clients.client_libraries import driver_environment

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.clients.drivers.offset_sender import SenderTask
    from tests.clients.drivers.worker import Task

_TIMEOUT_S = 60.0


class Worker:
    """One process; `name` names its log."""

    def __init__(self, command: Sequence[str], task: Task | SenderTask, log: Path) -> None:
        self.log = log
        self._printed: list[str] = []
        self._printed_line = threading.Condition()
        self._has_ended = False
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*command, json.dumps(task._asdict())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=driver_environment(),
            )
        self._reader = threading.Thread(target=self._read_output, daemon=True)
        self._reader.start()

    @property
    def commits(self) -> int:
        """Number of transactions it reported as committed."""
        return len(self._lines("committed"))

    @property
    def aborts(self) -> int:
        """Number of transactions it reported as aborted."""
        return len(self._lines("aborted"))

    @property
    def last_line(self) -> str:
        """Return the last line it printed."""
        with self._printed_line:
            return self._printed[-1] if self._printed else ""

    def last_value(self, keyword: str) -> str:
        """Return the rest of the last printed line that began with a word."""
        return self._lines(keyword)[-1].removeprefix(keyword).strip()

    def send_order(self, order: str) -> None:
        """Send one order; ignored if the process has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass

    def has_printed(self, keyword: str, within_s: float = 0.0, *, more_than: int = 0) -> bool:
        """Wait for a while until it has printed a word; return whether it has. Fail if it ended."""
        deadline = time.monotonic() + within_s
        with self._printed_line:
            while len(self._lines(keyword)) <= more_than:
                remaining_s = deadline - time.monotonic()
                assert not self._has_ended, (
                    f"the worker ended before it printed {keyword}: {self._log_tail()}"
                )
                if remaining_s <= 0:
                    return False
                self._printed_line.wait(remaining_s)
        return True

    def wait_for(self, keyword: str) -> str:
        """Wait until it prints a word, and return the rest of the line."""
        assert self.has_printed(keyword, _TIMEOUT_S), (
            f"the worker did not print {keyword}: {self._log_tail()}"
        )
        return self._lines(keyword)[0].removeprefix(keyword).strip()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self.wait()

    def close(self) -> None:
        """Let it finish its transaction and end."""
        self.send_order("close")
        self.wait()

    def wait(self) -> None:
        """Wait for its end."""
        try:
            self._process.wait(_TIMEOUT_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()

    def check(self) -> None:
        """Fail if the process ended without an order."""
        with self._printed_line:
            assert not self._has_ended, f"the worker ended: {self._log_tail()}"

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._printed_line:
                self._printed.append(line.strip())
                self._printed_line.notify_all()
        with self._printed_line:
            self._has_ended = True
            self._printed_line.notify_all()

    def _lines(self, keyword: str) -> list[str]:
        with self._printed_line:
            return [line for line in self._printed if line.split(" ", 1)[0] == keyword]

    def _log_tail(self) -> str:
        return f"{self._printed[-5:]} {self.log.read_text(errors='replace')[-3_000:]}"


@dataclass(slots=True)
class WorkerPool:
    """Workers in numbered slots; the worker of a slot has its transactional id."""

    start_worker: Callable[[int], Worker]
    workers: list[Worker]
    replaced: list[Worker]

    @classmethod
    def of(cls, size: int, start_worker: Callable[[int], Worker]) -> WorkerPool:
        """Start `size` workers, and wait until they are ready."""
        pool = cls(start_worker, [start_worker(slot) for slot in range(size)], [])
        for worker in pool.workers:
            worker.wait_for("ready")
        return pool

    @property
    def commits(self) -> int:
        """Number of transactions committed by all workers so far."""
        return sum(worker.commits for worker in (*self.workers, *self.replaced))

    def replace(self, slot: int) -> None:
        """Replace the worker of a slot, and wait until the new one is ready."""
        self.replaced.append(self.workers[slot])
        self.workers[slot] = self.start_worker(slot)
        self.workers[slot].wait_for("ready")

    def check(self) -> None:
        """Fail if a worker ended without an order."""
        for worker in self.workers:
            worker.check()

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.send_order("close")
        for worker in self.workers:
            worker.wait()

    def kill(self) -> None:
        """Kill all workers."""
        for worker in (*self.workers, *self.replaced):
            worker.kill()
