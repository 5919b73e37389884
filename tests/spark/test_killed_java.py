"""The audit command when the system kills Java: one sentence, and no output that looks complete."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.perf.big_capture import write

pytestmark = [pytest.mark.spark, pytest.mark.endurance, pytest.mark.timeout(300)]


def java_of(command: subprocess.Popen[str]) -> int:
    """Return the process id of the Java that a command has started."""
    children = [
        int(pid)
        for path in Path(f"/proc/{command.pid}/task").glob("*/children")
        for pid in path.read_text().split()
    ]
    [java] = [pid for pid in children if Path(f"/proc/{pid}/comm").read_text() == "java\n"]
    return java


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds Java below /proc")
def test_killed_java_is_explained_in_one_line(tmp_path: Path) -> None:
    write(tmp_path / "in", 8_000_000)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "kafkalite", "audit", str(tmp_path / "in"), "--out", str(out)]
    command += ["--engine", "spark"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("reading: "):
                os.kill(java_of(running), signal.SIGKILL)
                break
        lines = running.stderr.read().splitlines()
    assert running.returncode == 1
    [line] = [line for line in lines if line.startswith("kafkalite: ")]
    assert lines[-1] == line
    assert line.startswith("kafkalite: Spark failed: the system killed Java")
    assert [line for line in lines if "Error" in line or "Traceback" in line] == []
    assert not (out / "report.html").exists()
    assert not (out / "_kafkalite" / "manifest.json").exists()
