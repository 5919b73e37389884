"""Programs that read one partition from a stored offset on, with one client library each.

The arguments of a program are the servers, the topic, the offset, its leader epoch or -1, and
"present" or "older", which selects versions of requests without reliable leader epochs. A program
reads partition 0, and is assigned partition 1 as well, until its standard input ends. It refreshes
its metadata ten times per second, and resets offsets out of range to the earliest. It prints
"ready", "record OFFSET VALUE" for each record of partition 0, and "failed TEXT" for each error.
The program of kafkalite has the offset epoch in hex in place of the leader epoch.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.clients.client_libraries import driver_environment, franz_go_worker, java_classes
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.jars import SHORT_LIVED, jar_directory, java_command
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

TOPIC = "orders"
NO_EPOCH = "-1"

_PRESENT, _OLDER = "present", "older"
_TIMEOUT_S = 30.0
_JAVA_READER = "PartitionReader"
_OLD_CLIENT = "2.0.1"
"""The last release of the Java client before KIP-320, which does not use leader epochs."""


class Library(NamedTuple):
    """A client library, and the command of its reader without the arguments."""

    name: str
    command: Callable[[], list[str]]
    version: str = _PRESENT
    client_id: str = "reader"


def _java() -> list[str]:
    return java_command(_JAVA_READER, classes=java_classes(), log_level="error")


def _old_java() -> list[str]:
    def fetch(directory: Path) -> None:
        artifact = f"org.apache.kafka:kafka-clients:{_OLD_CLIENT}"
        goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"]
        run_build([program("mvn"), "-q", "-B", *goal], directory)

    own = build_once(f"kafka-clients-{_OLD_CLIENT}", [], fetch) / f"kafka-clients-{_OLD_CLIENT}.jar"
    # The libraries that it needs are those of the present release.
    others = [jar for jar in sorted(jar_directory().glob("*.jar")) if "kafka" not in jar.name]
    path = ":".join(map(str, (java_classes(), own, *others)))
    level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return [program("java"), "-Xmx256m", *SHORT_LIVED, level, "-cp", path, _JAVA_READER]


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", f"tests.clients.drivers.{module}"]


def _franz_go() -> list[str]:
    return [*franz_go_worker(), "reader"]


JAVA = Library("java", _java)
LIBRDKAFKA = Library("librdkafka", lambda: _python("partition_reader"))
FRANZ_GO = Library("franz-go", _franz_go)
KAFKALITE = Library("kafkalite", lambda: _python("epoch_reader"), client_id="kafkalite")
OLD_JAVA = Library(f"java-{_OLD_CLIENT}", _old_java, _OLDER)
OLD_FRANZ_GO = Library("franz-go-2.0", _franz_go, _OLDER)


class Record(NamedTuple):
    """A record that a reader printed."""

    offset: int
    value: str


class Reader:
    """A running reader; `records` and `failures` have what it printed so far."""

    def __init__(
        self, library: Library, servers: str, offset: int = 0, epoch: str = NO_EPOCH
    ) -> None:
        with required():
            command = library.command()
        self.records: list[Record] = []
        self.failures: list[str] = []
        self._process = subprocess.Popen(
            [*command, servers, TOPIC, str(offset), epoch, library.version],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=driver_environment(),
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read_lines, daemon=True)
        self._thread.start()
        assert self._lines.get(timeout=_TIMEOUT_S) == "ready"

    def wait_for(self, is_complete: Callable[[], bool]) -> None:
        """Read lines until a condition holds."""
        while not is_complete():
            try:
                line = self._lines.get(timeout=_TIMEOUT_S)
            except queue.Empty:
                raise AssertionError(f"nothing after {self.records}, {self.failures}") from None
            kind, _, text = line.partition(" ")
            if kind == "record":
                offset, _, value = text.partition(" ")
                self.records.append(Record(int(offset), value))
            elif kind == "failed":
                self.failures.append(text)
            else:
                raise AssertionError(f"the reader ended after {self.records}, {self.failures}")

    def wait_for_value(self, value: str) -> None:
        """Read lines until a record has this value."""
        self.wait_for(lambda: any(record.value == value for record in self.records))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # A reader that waits for its brokers would take time to close.
        self._process.kill()
        self._process.wait()
        self._thread.join()
        self._process.stdin.close()
        self._process.stdout.close()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("")
