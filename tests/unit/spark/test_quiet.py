"""What Java and Spark say: noise is left out, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kafkalite.spark.quiet import quietly, telling

FRAME = '  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager\n'
ELSEWHERE = '  File "/x/job.py", line 1, in work\n'
TRACEBACK = "Traceback (most recent call last):\n"


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Using incubator modules: jdk.incubator.vector\n",
        "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties\n",
        'Setting default log level to "WARN".\n',
        "26/11/22 07:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library\n",
    ],
)
def test_what_is_always_said_is_left_out(line: str) -> None:
    assert list(telling([line, "java.lang.OutOfMemoryError\n"])) == ["java.lang.OutOfMemoryError\n"]


def test_a_daemon_whose_session_is_over_is_left_out() -> None:
    said = ["before\n", TRACEBACK, FRAME, "BrokenPipeError: [Errno 32] Broken pipe\n", "after\n"]
    assert list(telling([*said, *said[1:]])) == ["before\n", "after\n", "after\n"]


@pytest.mark.parametrize(
    "trace",
    [
        [TRACEBACK, FRAME, "ValueError: no\n"],
        [TRACEBACK, ELSEWHERE, "BrokenPipeError: [Errno 32] Broken pipe\n"],
        [TRACEBACK, ELSEWHERE],
    ],
)
def test_other_errors_are_told(trace: list[str]) -> None:
    assert list(telling(trace)) == trace


def test_processes_write_through_it_as_long_as_they_live(
    capfd: pytest.CaptureFixture[str],
) -> None:
    noise = "Setting default log level"
    program = f"import sys; sys.stdin.read(); print('{noise} to WARN', file=sys.stderr)"
    program += "; print('heard', file=sys.stderr)"
    with quietly(sys.stderr) as stderr:
        os.write(stderr, b"Setting default log level: at once\n")
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    sys.stderr.write("ours\n")
    process.communicate()
    told = ""
    while "heard" not in told:
        told += capfd.readouterr().err
    assert f"{noise} to WARN" not in told
    assert "at once" in told
    assert "ours" in told
