"""A process of a client library that does one thing of a family of APIs for each JSON line.

A request has `client` (the client id), `family`, `topic` and `name`, which is the group, the
transactional id or the topic to create. The process performs all requests at the same time. Each
answer has `client` and `outcome`: `recovered`, or the name of the error that the library reports.
"""

from __future__ import annotations

import json
import subprocess
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from tests.clients.client_libraries import driver_environment, franz_go_worker, java_classes
from tests.oracle.jars import java_command

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Self

    from tests.clients.client_libraries import Command

_CLOSE_TIMEOUT_S = 20.0


class MatrixProcess:
    """The process; as a context manager it ends with the block. Its errors go to a file."""

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=driver_environment(),
            )
        self._outcomes: dict[str, Future[str]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read_answers, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def perform(self, client_id: str, family: str, topic: str, name: str) -> Future[str]:
        """Do what is of a family; return the outcome."""
        request = {"client": client_id, "family": family, "topic": topic, "name": name}
        assert self._process.stdin is not None
        with self._lock:
            outcome = self._outcomes[client_id] = Future[str]()
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        return outcome

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            self._outcomes[answer["client"]].set_result(answer["outcome"])


def _java() -> list[str]:
    return java_command("FaultMatrix", classes=java_classes(), log_level="off")


COMMANDS: Mapping[str, Command] = {
    "franz-go": lambda: [*franz_go_worker(), "matrix"],
    "java": _java,
}
"""Client → the command without the bootstrap address."""
