"""Kafka's own command-line tools, run from the official jars as by the shell scripts."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from tests.kafka_tools.scripts import SCRIPTS
from tests.oracle.jars import java_command

_TIMEOUT_S = 60.0

MAIN_CLASSES = {
    **{name: script.main_class for name, script in SCRIPTS.items()},
    "transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
}

# Tools whose `--bootstrap-server` must not come last.
_ADDRESS_OPTIONS = {"transactional-message-copier": "--broker-list"}
_ADDRESS_FIRST = {"kafka-transactions"}


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a tool, and its exit status."""

    status: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """Return the printed lines without trailing spaces and empty lines."""
        return [line.strip() for line in self.stdout.splitlines() if line.strip()]

    @property
    def rows(self) -> list[list[str]]:
        """Return the printed lines split into columns."""
        return [line.split() for line in self.lines]


def run_tool(name: str, bootstrap: str, *arguments: str, text: str = "") -> Output:
    """Run one tool against a broker; any exit status is allowed."""
    address = (_ADDRESS_OPTIONS.get(name, "--bootstrap-server"), bootstrap)
    command_line = (*address, *arguments) if name in _ADDRESS_FIRST else (*arguments, *address)
    command = java_command(MAIN_CLASSES[name], *command_line)
    completed = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    return Output(completed.returncode, completed.stdout, completed.stderr)
