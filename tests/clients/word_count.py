"""The word count as a process: a Kafka Streams application that reads commands, one per line."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING, TypedDict

from tests.clients.client_libraries import java_classes
from tests.oracle.jars import java_command

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
APPLICATION, LINES, COUNTS = "word-count", "lines", "counts"
_TIMEOUT_S = 60.0


class Member(TypedDict):
    """A member as the Java Admin returns it; a task is a subtopology and a partition."""

    active: list[str]
    standby: list[str]
    tags: dict[str, str]


class Group(TypedDict):
    """A group as the Java Admin returns it."""

    state: str
    assignor: str
    description: str
    """The status of the description of the topology."""
    nodes: list[str]
    """The names of the nodes in the description of the topology."""
    members: dict[str, Member]


class Instance:
    """One process of the application."""

    def __init__(
        self,
        bootstrap: str,
        name: str,
        directory: Path,
        protocol: str = "streams",
        guarantee: str = "at_least_once",
        *,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        state = str(directory / name)
        arguments = (bootstrap, APPLICATION, LINES, COUNTS, state, "4711", protocol, guarantee)
        client_settings = [f"{key}={value}" for key, value in settings.items()]
        command = java_command("WordCount", *arguments, *client_settings, classes=java_classes())
        self._log = directory / f"{name}.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())

    def _ask(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def wait_for(self, prefix: str) -> str:
        """Return the rest of the next line that begins with `prefix`."""
        try:
            while not (line := self._lines.get(timeout=_TIMEOUT_S)).startswith(prefix):
                pass
        except queue.Empty:
            raise AssertionError(f"no {prefix!r}: {self._log.read_text()[-2_000:]}") from None
        return line.removeprefix(prefix)

    def described(self) -> Group:
        """Return the group as the Java Admin returns it."""
        self._ask("describe")
        group: Group = json.loads(self.wait_for("group "))
        return group

    def close(self) -> None:
        """Close the instance, which leaves the group."""
        self._ask("close")
        self.wait_for("closed")
        self._wait()

    def kill(self) -> None:
        """Kill the instance."""
        self._process.kill()
        self._wait()

    def _wait(self) -> None:
        self._process.wait(_TIMEOUT_S)
        self._reader.join(_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
