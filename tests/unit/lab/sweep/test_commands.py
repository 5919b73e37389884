"""Commands: their exit status, output and environment, and their end."""

from __future__ import annotations

import sys
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.sweep import commands
from kafkalite.lab.sweep.commands import Command, CommandError
from kafkalite.ports.processes import is_running

if TYPE_CHECKING:
    from pathlib import Path


def python(code: str) -> Command:
    return Command([sys.executable, "-ISc", code])


def test_a_command_has_its_variables_status_and_output() -> None:
    command = python("import os, sys; print(os.environ['NAME'], flush=True); sys.exit('failed')")
    result = command.run({"NAME": "value"}, 60)
    assert (result.status, result.output) == (1, "value\nfailed\n")
    assert not result.is_success


def test_only_the_end_of_a_long_output_is_stored() -> None:
    result = python("print('a' * 100_000 + 'end')").run({}, 60)
    assert result.is_success
    assert result.output.endswith("end\n")
    assert len(result.output) < 20_000


def test_a_command_that_ignores_termination_is_killed_with_its_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(commands, "GRACE_S", 0.05)
    path = tmp_path / "child"
    code = f"trap '' TERM; sleep 100 & echo $! > {path}; wait"
    result = Command(["sh", "-c", code]).run({}, 0.3)
    assert result.status is None
    assert result.ignored_termination
    assert not is_running_and_no_zombie(int(path.read_text()))


def is_running_and_no_zombie(process_id: int) -> bool:
    """Return whether a process runs; one that has ended may not have been collected."""
    if not is_running(process_id):
        return False
    with open(f"/proc/{process_id}/stat") as file:  # noqa: PTH123 - of the system
        return file.read().rpartition(")")[2].split()[0] != "Z"


def test_a_stop_ends_a_command_and_starts_no_other() -> None:
    command = python("import signal; signal.pause()")
    statuses: list[int | None] = []
    thread = Thread(target=lambda: statuses.append(command.run({}, 60).status))
    thread.start()
    while not command._running:
        pass
    command.stop()
    thread.join()
    assert statuses == [-15]
    with pytest.raises(CommandError, match="the sweep was stopped"):
        command.run({}, 60)


def test_a_command_that_cannot_start_is_named() -> None:
    with pytest.raises(CommandError, match="cannot run 'no-such-program': no such file"):
        Command(["no-such-program"]).run({}, 60)
