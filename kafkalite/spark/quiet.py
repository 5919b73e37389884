"""What Java and Spark write to the standard error of who starts them, without what is always said.

Some of it is said by the launcher and by Java before any setting is read, and some by daemons of
Python when a session ends. So it goes through a pipe, and what is known to mean nothing is left
out; all else is passed on as it comes.
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
_SAYS_NOTHING: Final = re.compile(
    r"WARNING: Using incubator modules: jdk\.incubator\.vector"
    r"|Using Spark's default log4j profile: "
    r"|To adjust logging level use sc\.setLogLevel"
    r"|Setting (default|Spark) log level to "
    r"|\S+ \S+ WARN (NativeCodeLoader|Utils): "
    r"|$"
)
_TRACEBACK: Final = "Traceback (most recent call last):"
_DAEMON: Final = "pyspark/daemon.py"
_LEFT_ALONE: Final = "BrokenPipeError:"
"""How workers end whose session is over."""


@contextmanager
def quietly(stream: TextIO) -> Iterator[int]:
    """Let processes that are started meanwhile write to `stream`, through `telling`.

    They go on to, as long as they live. Yields where `stream` led, for what cannot wait until it is
    passed on.
    """
    ours = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, ours), daemon=True).start()
    try:
        yield ours
    finally:
        stream.flush()
        os.dup2(ours, _STDERR)


def telling(lines: Iterable[str]) -> Iterator[str]:
    """Leave out the lines that tell nothing; the others are yielded as soon as that is known."""
    trace: list[str] = []
    for line in lines:
        if trace and line[:1].isspace():
            trace.append(line)
            continue
        is_known = line.startswith(_LEFT_ALONE) and any(_DAEMON in each for each in trace)
        if not is_known:
            yield from trace
        trace.clear()
        if line.startswith(_TRACEBACK):
            trace.append(line)
        elif not is_known and not _SAYS_NOTHING.match(line):
            yield line
    yield from trace


def _pass_on(reading: int, ours: int) -> None:
    with os.fdopen(reading, encoding="utf-8", errors="replace") as said:
        for line in telling(said):
            os.write(ours, line.encode("utf-8", errors="replace"))
    os.close(ours)
