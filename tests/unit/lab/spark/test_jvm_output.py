"""Filtering of Java's and Spark's standard error."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kafkalite.lab.spark.jvm_output import filtered_stderr, relevant_lines

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
def test_known_harmless_lines_are_dropped(line: str) -> None:
    assert list(relevant_lines([line, "java.lang.OutOfMemoryError\n"])) == [
        "java.lang.OutOfMemoryError\n"
    ]


def test_broken_pipe_of_a_daemon_is_dropped() -> None:
    lines = ["before\n", TRACEBACK, FRAME, "BrokenPipeError: [Errno 32] Broken pipe\n", "after\n"]
    assert list(relevant_lines([*lines, *lines[1:]])) == ["before\n", "after\n", "after\n"]


@pytest.mark.parametrize("error", ["EOFError\n", "ConnectionResetError: [Errno 104] reset\n"])
def test_lost_connection_of_a_worker_is_dropped(error: str) -> None:
    worker = '  File "/x/pyspark.zip/pyspark/worker.py", line 9, in main\n'
    assert list(relevant_lines([TRACEBACK, worker, error, "after\n"])) == ["after\n"]


def test_broken_pipes_of_a_streaming_source_are_dropped() -> None:
    runner = "pyspark/sql/streaming/python_streaming_source_runner.py"
    trace = [TRACEBACK, f'  File "/x/pyspark.zip/{runner}", line 261, in main\n']
    chained = [
        *trace,
        "BrokenPipeError: [Errno 32] Broken pipe\n",
        "\n",
        "During handling of the above exception, another exception occurred:\n",
        "\n",
    ]
    assert list(relevant_lines([*chained, *chained[:-3], "after\n"])) == ["after\n"]
    other = [TRACEBACK, ELSEWHERE, "ValueError: no\n", chained[-2]]
    assert list(relevant_lines(other)) == other


def test_broken_pipes_of_two_daemons_at_once_are_dropped() -> None:
    error = "BrokenPipeError: [Errno 32] Broken pipe\n"
    lines = [TRACEBACK, FRAME, TRACEBACK, FRAME, error, FRAME, error, "after\n"]
    assert list(relevant_lines(lines)) == ["after\n"]


@pytest.mark.parametrize(
    "trace",
    [
        [TRACEBACK, FRAME, "ValueError: no\n"],
        [TRACEBACK, ELSEWHERE, "BrokenPipeError: [Errno 32] Broken pipe\n"],
        [TRACEBACK, ELSEWHERE],
    ],
)
def test_other_tracebacks_are_not_dropped(trace: list[str]) -> None:
    assert list(relevant_lines(trace)) == trace


def test_output_of_child_processes_is_filtered_after_the_block(
    capfd: pytest.CaptureFixture[str],
) -> None:
    noise = "Setting default log level"
    program = f"import sys; sys.stdin.read(); print('{noise} to WARN', file=sys.stderr)"
    program += "; print('received', file=sys.stderr)"
    with filtered_stderr(sys.stderr) as stderr:
        os.write(stderr, b"Setting default log level: at once\n")
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    sys.stderr.write("ours\n")
    process.communicate()
    output = ""
    while "received" not in output:
        output += capfd.readouterr().err
    assert f"{noise} to WARN" not in output
    assert "at once" in output
    assert "ours" in output
