"""Output and exit status of commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalite.cli.output import FAILED_STATUS, as_json, as_lines, exit_with_error, print_output


def test_error_line_has_escaped_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match=str(FAILED_STATUS)):
        exit_with_error(FAILED_STATUS, "no \x1b[2J here\nnor there")
    assert capsys.readouterr().err == "kafkalite: no \\x1b[2J here\\nnor there\n"


def test_end_at_once_runs_exit_functions_and_flushes_output() -> None:
    program = (
        "import atexit, sys\n"
        "from kafkalite.cli.output import exit_immediately\n"
        "class Costly:\n"
        "    def __del__(self): print('freed')\n"
        "costly = Costly()\n"
        "atexit.register(print, 'registered')\n"
        "print('printed')\n"
        "exit_immediately(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "printed\nregistered\n", "")


def test_as_lines_keeps_line_breaks_and_escapes_control_characters() -> None:
    assert as_lines("one\ntwo\x07\n\nthree") == "one\ntwo\\x07\n\nthree\n"
    assert as_json({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}\n'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_to_a_full_disk_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        with pytest.raises(SystemExit) as ended:
            print_output("output\n")
    assert ended.value.code == FAILED_STATUS
    assert capsys.readouterr().err == (
        "kafkalite: cannot write the output: no space left on device\n"
    )


def test_closed_pipe_is_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr("sys.stdout", pipe)
        assert not print_output("output\n")
