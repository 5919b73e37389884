"""Kafka's command-line tools in one Java process, so that each needs a fraction of a second."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.oracle.jars import SHORT_LIVED, compiled, java_command

_RUNNER: Final = Path(__file__).parent / "java"
_OPEN_HOOKS: Final = "--add-opens=java.base/java.lang=ALL-UNNAMED"
_TIMEOUT_MS: Final = 40_000


class JavaTools:
    """A process of `ToolRunner.java`, which explains the commands."""

    def __init__(self, log_level: str = "off") -> None:
        command = java_command(
            "ToolRunner",
            classes=compiled(_RUNNER),
            heap="512m",
            log_level=log_level,
            flags=(*SHORT_LIVED, _OPEN_HOOKS),
        )
        self._java = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        """End the Java process."""
        self._java.kill()
        self._java.wait()
        for stream in (self._java.stdin, self._java.stdout):
            if stream is not None:
                stream.close()

    def ask(self, command: str, name: str, **fields: object) -> dict[str, Any]:
        """Carry out a command, and return its answer."""
        assert self._java.stdin is not None
        assert self._java.stdout is not None
        request = {"command": command, "name": name, "timeout_ms": _TIMEOUT_MS, **fields}
        self._java.stdin.write(json.dumps(request) + "\n")
        self._java.stdin.flush()
        answer: dict[str, Any] = json.loads(self._java.stdout.readline())
        return answer
