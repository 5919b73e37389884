"""Failures of Spark and Java: one sentence with the cause and the option that helps."""

from __future__ import annotations

import subprocess

import pytest

from kafkalite.lab.spark.failures import java_ended, java_exit_status, known_failure

LOST = (
    "Job aborted due to stage failure: Task 3 in stage 4.0 failed 4 times, most recent failure:"
    " Lost task 3.3 in stage 4.0 (TID 99) (10.0.0.7 executor 2): ExecutorLostFailure (executor 2"
    " exited caused by one of the running tasks) Reason: Command exited with code 137\n"
    "Driver stacktrace:"
)
WORKER_AT_START = (
    "Lost task 1.0 in stage 0.0 (TID 1) (localhost executor driver): java.io.EOFException\n"
    "\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:397)\n"
    "\tat org.apache.spark.api.python.PythonWorkerFactory.createWorker$1(PythonWorkerFactory.scala)"
)
TOO_LARGE = (
    "total size of serialized results of 9 tasks (1 GiB) is bigger than spark.driver.maxResultSize"
)


@pytest.mark.parametrize(
    ("text", "cause", "option"),
    [
        (
            "An error occurred\nCaused by: java.io.IOException: No space left on device",
            "the disk is full",
            "spark.local.dir",
        ),
        ("OSError: [Errno 122] Disk quota exceeded", "the disk is full", "spark.local.dir"),
        (LOST, "an executor was lost (Command exited with code 137)", "memoryOverhead"),
        (
            "ExecutorLostFailure (executor 1 exited unrelated to the running tasks)",
            "an executor was lost (no reason is known)",
            "memoryOverhead",
        ),
        (
            "Caused by: java.lang.OutOfMemoryError: GC overhead limit exceeded",
            "Java ran out of memory",
            "spark.driver.memory",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "a Python worker ended",
            "--task-mib",
        ),
        (
            WORKER_AT_START,
            "a Python worker ended",
            "--task-mib",
        ),
        ("OSError: [Errno 27] File too large", "a file is larger than", "ulimit -f"),
        (
            TOO_LARGE,
            "the reports of all tasks are too large",
            "spark.driver.maxResultSize",
        ),
    ],
)
def test_known_failure_names_cause_and_option(text: str, cause: str, option: str) -> None:
    sentence = known_failure(text)
    assert sentence is not None
    assert sentence.startswith(cause)
    assert option in sentence
    assert "\n" not in sentence


def test_other_failures_are_unknown() -> None:
    assert known_failure("Path does not exist") is None
    assert known_failure("java.io.EOFException\n\tat java.base/java.io.A.b\n\tat org.c") is None


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("exit 3", "Java ran out of memory: give it more with --conf spark.driver.memory="),
        ("exit 52", "Java ran out of memory"),
        ("kill -9 $$", "the system killed Java"),
        ("kill -11 $$", "Java ended by signal 11"),
        ("exit 1", "Java ended with status 1; --conf spark.log.level=ERROR shows its messages"),
    ],
)
def test_end_of_java_is_explained_by_its_status(command: str, sentence: str) -> None:
    java = subprocess.Popen(["sh", "-c", command])
    status = java_exit_status(java, is_unreachable=True)
    assert status is not None
    assert java_ended(status).startswith(sentence)


def test_running_java_has_no_status() -> None:
    java = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    with java:
        assert java_exit_status(java, is_unreachable=False) is None
    assert java_exit_status(None, is_unreachable=True) is None
