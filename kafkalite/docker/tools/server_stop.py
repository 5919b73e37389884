"""`kafka-server-stop`: stop the broker of the container."""

from __future__ import annotations

import os
import signal
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from kafkalite.docker.programs import START_PROGRAMS
from kafkalite.docker.tools.arguments import FAILED_STATUS, ToolParser
from kafkalite.docker.tools.running import run_tool, write_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PROCESSES: Final = Path("/proc")
_STARTS: Final = frozenset(
    (*START_PROGRAMS, "__cacert_entrypoint", "app-entrypoint", "entrypoint", "kafka-server-start",
     "kafkalite-entrypoint")
)  # fmt: skip
"""Names of programs that start the broker."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Send SIGTERM to the brokers; return 1 if there is none."""
    del environment

    def command() -> int:
        parser = ToolParser(name, "Stop the broker of the container.")
        parser.add_values("process-role", "node-id")
        parser.parse(arguments)
        found = list(_brokers(_PROCESSES))
        if not found:
            write_line("No kafka server to stop")
            return FAILED_STATUS
        for process_id in found:
            os.kill(process_id, signal.SIGTERM)
        return 0

    return run_tool(name, command)


def _brokers(processes: Path) -> Iterator[int]:
    """Yield the ids of the processes that run a broker."""
    for directory in sorted(processes.glob("[0-9]*")):
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        # The program is the script that Python runs.
        name = PurePosixPath(words[1].decode(errors="replace")).name if len(words) > 1 else ""
        is_broker = b"python" in words[0] and name.removesuffix(".sh") in _STARTS
        if is_broker and int(directory.name) != os.getpid():
            yield int(directory.name)
