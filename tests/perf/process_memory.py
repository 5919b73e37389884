"""The peak memory of the child processes of this process."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTERVAL_S: Final = 0.1
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_MB: Final = 1_000_000
_JAVA: Final = "java"


@dataclass(slots=True)
class Usage:
    """The resources used by child processes."""

    peak_mb: float = 0.0
    """The peak of their sum."""
    java_mb: float = 0.0
    """The largest JVM."""
    python_mb: float = 0.0
    """The largest other process: with Spark, a worker."""
    cpu_s: float = 0.0
    """Their total CPU time."""

    def add_sample(self, sizes: list[tuple[str, float]]) -> None:
        """Add a sample: names and sizes of the running processes."""
        self.peak_mb = max(self.peak_mb, sum(size for _, size in sizes))
        for name, size in sizes:
            if name == _JAVA:
                self.java_mb = max(self.java_mb, size)
            else:
                self.python_mb = max(self.python_mb, size)


@contextmanager
def sample_children() -> Iterator[Usage]:
    """Sample the descendants of this process while the context is active."""
    usage = Usage()
    stop_event = threading.Event()

    def watch() -> None:
        while not stop_event.wait(_INTERVAL_S):
            usage.add_sample([(process.name, process.size_mb) for process in children(os.getpid())])

    before = sum(process.cpu_s for process in children(os.getpid()))
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield usage
    finally:
        stop_event.set()
        watcher.join()
        processes = children(os.getpid())
        usage.add_sample([(process.name, process.size_mb) for process in processes])
        usage.cpu_s = sum(process.cpu_s for process in processes) - before


@dataclass(frozen=True, slots=True)
class Process:
    """A snapshot of a process."""

    name: str
    size_mb: float
    cpu_s: float
    """CPU seconds of the process and its ended children."""


def children(pid: int) -> list[Process]:
    """Return all descendants of a process."""
    children_by_parent: dict[int, list[int]] = {}
    processes: dict[int, Process] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
            pages = int((folder / "statm").read_text().split()[1])
        except OSError:
            continue  # it has just ended
        fields = stat.rpartition(")")[2].split()
        name = stat[stat.index("(") + 1 : stat.rindex(")")]
        ticks = sum(map(int, fields[11:15]))
        children_by_parent.setdefault(int(fields[1]), []).append(int(folder.name))
        processes[int(folder.name)] = Process(
            name, pages * _PAGE_BYTES / _MB, ticks / _TICKS_PER_SECOND
        )
    descendants, unvisited = [], [*children_by_parent.get(pid, [])]
    while unvisited:
        child = unvisited.pop()
        descendants.append(processes[child])
        unvisited += children_by_parent.get(child, [])
    return descendants
