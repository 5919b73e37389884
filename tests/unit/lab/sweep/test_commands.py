"""Commands: their exit status, output and environment, and their end."""

from __future__ import annotations

import os
import signal
import sys
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.sweep import commands
from kafkalite.lab.sweep.commands import Command, CommandError
from kafkalite.ports.system import IS_WINDOWS

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


NEEDS_PROCESS_GROUPS = pytest.mark.skipif(
    IS_WINDOWS, reason="processes of Windows have no groups and ignore no SIGTERM"
)
IGNORES_TERMINATION = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
pipe = os.open({!r}, os.O_WRONLY)
os.write(pipe, b"begun ")
time.sleep(100)
os.write(pipe, b"ended ")
"""
STARTS_DAEMON = """
import subprocess, sys
daemon = [sys.executable, "-ISc", "import signal; signal.pause()"]
print(subprocess.Popen(daemon, start_new_session=True).pid, flush=True)
"""


@NEEDS_PROCESS_GROUPS
def test_a_command_that_ignores_termination_is_killed_with_its_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(commands, "GRACE_S", 0.05)
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    source = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    result = python(IGNORES_TERMINATION.format(path)).run({}, 0.5)
    assert result.status is None
    assert result.seconds == 0.5, "the time limit, without the time to end after SIGTERM"
    assert result.ignored_termination
    os.set_blocking(source, True)
    with open(source, "rb") as file:  # noqa: PTH123 - a descriptor
        assert file.read() == b"begun begun ", "it ends when no process holds the pipe open"


@NEEDS_PROCESS_GROUPS
def test_a_daemon_that_holds_the_output_open_is_not_awaited() -> None:
    result = python(STARTS_DAEMON).run({}, 60)
    assert result.is_success
    os.kill(int(result.output), signal.SIGKILL)


@NEEDS_PROCESS_GROUPS
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
