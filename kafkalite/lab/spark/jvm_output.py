"""Filters the standard error of Java and Spark: drops known meaningless lines.

The launcher and Java write some lines before they read any setting, and Python daemons write some
when a session ends. So standard error goes through a pipe, and unknown lines are forwarded at once.
"""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

_STDERR: Final = 2
_NOISE: Final = re.compile(
    r"WARNING: Using incubator modules: jdk\.incubator\.vector"
    r"|Using Spark's default log4j profile: "
    r"|To adjust logging level use sc\.setLogLevel"
    r"|Setting (default|Spark) log level to "
    r"|\S+ \S+ WARN (NativeCodeLoader|Utils): "
    r"|$"
)
_TRACEBACK: Final = "Traceback (most recent call last):"
_CHAINED: Final = "During handling of the above exception, another exception occurred:"
_WORKER: Final = re.compile(
    r"pyspark/(daemon|worker|sql/streaming/python_streaming_source_runner)\.py"
)
_IGNORED_ERROR: Final = re.compile(r"(BrokenPipeError|ConnectionResetError|EOFError)\b")
"""Errors of workers that read or write after the end of their session, or of Java."""


@contextmanager
def filtered_stderr(stream: TextIO) -> Iterator[int]:
    """Filter the standard error of processes started inside this block, with `relevant_lines`.

    Their output is filtered as long as they live. Yields a file descriptor of the original standard
    error, for messages that must not be delayed.
    """
    original = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    threading.Thread(target=_forward, args=(reading, original), daemon=True).start()
    try:
        yield original
    finally:
        stream.flush()
        os.dup2(original, _STDERR)


def relevant_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines except known meaningless ones, each as soon as it is known to be relevant."""
    trace: list[str] = []
    is_after_known = False
    unfinished = 0  # several workers may write a traceback at the same time
    for line in lines:
        if trace and line[:1].isspace():
            trace.append(line)
            continue
        if line.startswith(_TRACEBACK):
            trace.append(line)
            unfinished += 1
            continue
        is_known = bool(_IGNORED_ERROR.match(line)) and any(map(_WORKER.search, trace))
        unfinished = unfinished - 1 if is_known else 0
        if not is_known:
            yield from trace
        if not unfinished:
            trace.clear()
        is_noise = bool(_NOISE.match(line)) or (is_after_known and line.startswith(_CHAINED))
        if not is_known and not is_noise:
            yield line
        is_after_known = is_known or (is_after_known and is_noise)
    yield from trace


def _forward(reading: int, original: int) -> None:
    with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
        for line in relevant_lines(pipe):
            os.write(original, line.encode("utf-8", errors="replace"))
    os.close(original)
