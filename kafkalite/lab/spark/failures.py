"""Failures of Spark and Java as one sentence: the cause, and the option that helps."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from typing import Final

from kafkalite.ports.named_tuples import NamedTuple

LOCAL_DISK_FULL: Final = (
    "the disk is full: free space in the output directory and in the directory for temporary files"
)
DISK_FULL: Final = (
    "the disk is full: free space in the output directory and in /tmp, or choose another directory"
    " for temporary files with --conf spark.local.dir=DIR"
)
FILE_TOO_LARGE: Final = (
    "a file is larger than this process or the file system allows: raise the limit that ulimit -f"
    " shows, or choose another directory"
)
_MORE_HEAP: Final = (
    "give it more with --conf spark.driver.memory=4g, or run fewer tasks at once with --master"
    " 'local[1]'"
)
OUT_OF_HEAP: Final = f"Java ran out of memory: {_MORE_HEAP}"
WORKER_DIED: Final = (
    "a Python worker ended, usually because the system had no memory left: run fewer tasks at once"
    " with --master 'local[1]', or let each read less with --task-mib 32"
)
_EXECUTOR_LOST: Final = (
    "an executor was lost ({0}): if it was killed because of memory, raise --conf"
    " spark.executor.memoryOverhead or --conf spark.executor.memory"
)


class _Failure(NamedTuple):
    pattern: re.Pattern[str]
    sentence: str
    """May contain the first group of the pattern."""


_FAILURES: Final = (
    _Failure(re.compile(r"No space left on device|Disk quota exceeded"), DISK_FULL),
    _Failure(
        re.compile(
            r"ExecutorLostFailure \(executor \S+ exited[^)]*\)(?: Reason: ([^\n]*?)\.?(?:\n|$))?"
        ),
        _EXECUTOR_LOST,
    ),
    _Failure(re.compile(r"OutOfMemoryError"), OUT_OF_HEAP),
    _Failure(
        re.compile(
            r"Python worker exited unexpectedly"
            # A worker that ends when it starts.
            r"|EOFException\n(?:\s+at java\.[^\n]*\n)*\s+at org\.apache\.spark\.api\.python\."
        ),
        WORKER_DIED,
    ),
    _Failure(re.compile(r"File too large"), FILE_TOO_LARGE),
    _Failure(
        re.compile(r"total size of serialized results.*is bigger than"),
        "the reports of all tasks are too large: allow more with --conf"
        " spark.driver.maxResultSize=4g",
    ),
)
_STATUS_OF_JAVA: Final = 3
_STATUS_OF_SPARK: Final = 52
"""Exit statuses after an OutOfMemoryError: the one of Java itself, and the one of Spark."""
_KILLED: Final = -9
"""The status of a process that SIGKILL ended. Windows has no such signal."""
_EXIT_TIMEOUT_S: Final = 10


def known_failure(text: str) -> str | None:
    """Return the sentence for a failure that Spark reports with this text; None if unknown."""
    for pattern, sentence in _FAILURES:
        match = pattern.search(text)
        if match is not None:
            reason = (match[1] if pattern.groups else None) or "no reason is known"
            return sentence.format(reason)
    return None


def java_exit_status(java: subprocess.Popen[bytes] | None, *, is_unreachable: bool) -> int | None:
    """Return the exit status of Java; None if it runs.

    If connections to it fail, it is about to end, and this function waits for it.
    """
    if java is None:
        return None
    if is_unreachable:
        with suppress(subprocess.TimeoutExpired):
            return java.wait(_EXIT_TIMEOUT_S)
    return java.poll()


def java_ended(status: int) -> str:
    """Return the sentence for a Java process that ended with this status during a run."""
    if status in (_STATUS_OF_JAVA, _STATUS_OF_SPARK):
        return OUT_OF_HEAP
    if status == _KILLED:
        return (
            "the system killed Java, usually because it had no memory left: give Java less with"
            " --conf spark.driver.memory=1g, and run fewer tasks at once with --master 'local[1]'"
        )
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return f"Java ended {how}; --conf spark.log.level=ERROR shows its messages"
