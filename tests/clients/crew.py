"""Workers that read, transform and write in transactions, as processes: told, killed, replaced.

What a worker is told and what it says is in `tests.clients.drivers.worker`.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.clients.roster import driver_environment

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.clients.drivers.worker import Task

_TIMEOUT_S = 60.0


class Worker:
    """One process; `name` names its log."""

    def __init__(self, command: Sequence[str], task: Task, log: Path) -> None:
        self._log = log
        self._said: list[str] = []
        self._heard = threading.Condition()
        self._is_silent = False
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*command, json.dumps(task._asdict())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=driver_environment(),
            )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    @property
    def commits(self) -> int:
        """Transactions it said it had committed."""
        return len(self._lines("committed"))

    @property
    def aborts(self) -> int:
        """Transactions it said it had aborted."""
        return len(self._lines("aborted"))

    def tell(self, order: str) -> None:
        """Send one order; one that has ended does not hear it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass

    def has_said(self, word: str, within_s: float = 0.0, *, more_than: int = 0) -> bool:
        """Say whether it has said that, waiting for it a while; fails if it ended by itself."""
        deadline = time.monotonic() + within_s
        with self._heard:
            while len(self._lines(word)) <= more_than:
                rest = deadline - time.monotonic()
                assert not self._is_silent, f"it ended, and was to say {word}: {self._words()}"
                if rest <= 0:
                    return False
                self._heard.wait(rest)
        return True

    def wait_for(self, word: str) -> str:
        """Wait until it says that, and return what else it said in that line."""
        assert self.has_said(word, _TIMEOUT_S), f"it did not say {word}: {self._words()}"
        return self._lines(word)[0].removeprefix(word).strip()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, wherever it is."""
        self._process.kill()
        self.wait()

    def close(self) -> None:
        """Let it end what it does and leave."""
        self.tell("close")
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
        """Fail if it ended by itself."""
        with self._heard:
            assert not self._is_silent, f"it ended: {self._words()}"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._heard:
                self._said.append(line.strip())
                self._heard.notify_all()
        with self._heard:
            self._is_silent = True
            self._heard.notify_all()

    def _lines(self, word: str) -> list[str]:
        with self._heard:
            return [line for line in self._said if line.split(" ", 1)[0] == word]

    def _words(self) -> str:
        return f"{self._said[-5:]} {self._log.read_text(errors='replace')[-3_000:]}"


@dataclass(slots=True)
class Crew:
    """Workers in numbered seats; whoever takes a seat has its transactional id."""

    hire: Callable[[int], Worker]
    workers: list[Worker]
    gone: list[Worker]

    @classmethod
    def of(cls, size: int, hire: Callable[[int], Worker]) -> Crew:
        """Start that many workers, and wait until they are ready."""
        crew = cls(hire, [hire(seat) for seat in range(size)], [])
        for worker in crew.workers:
            worker.wait_for("ready")
        return crew

    @property
    def commits(self) -> int:
        """Transactions committed by all who were in it."""
        return sum(worker.commits for worker in (*self.workers, *self.gone))

    def replace(self, seat: int) -> None:
        """Give a seat to a new worker, and wait until the seat is its own."""
        self.gone.append(self.workers[seat])
        self.workers[seat] = self.hire(seat)
        self.workers[seat].wait_for("ready")

    def check(self) -> None:
        """Fail if a worker ended by itself."""
        for worker in self.workers:
            worker.check()

    def close(self) -> None:
        """Let all leave."""
        for worker in self.workers:
            worker.tell("close")
        for worker in self.workers:
            worker.wait()

    def kill(self) -> None:
        """End everybody at once."""
        for worker in (*self.workers, *self.gone):
            worker.kill()
