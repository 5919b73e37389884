"""How much memory a process and its children use at most, while something runs."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVERY_S: Final = 0.1
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_MB: Final = 1_000_000
_JAVA: Final = "java"


@dataclass(slots=True)
class Usage:
    """What a process's children used."""

    peak_mb: float = 0.0
    """All of them together, at the worst moment."""
    java_mb: float = 0.0
    """The largest JVM."""
    python_mb: float = 0.0
    """The largest of the others: with Spark, the workers."""
    cpu_s: float = 0.0
    """Processor time of all of them."""

    def see(self, sizes: list[tuple[str, float]]) -> None:
        """Take the names and sizes of processes that are there at one moment."""
        self.peak_mb = max(self.peak_mb, sum(size for _, size in sizes))
        for name, size in sizes:
            if name == _JAVA:
                self.java_mb = max(self.java_mb, size)
            else:
                self.python_mb = max(self.python_mb, size)


@contextmanager
def watched() -> Iterator[Usage]:
    """Watch our children, and theirs, as long as this lasts."""
    usage = Usage()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_EVERY_S):
            usage.see([(each.name, each.size_mb) for each in children(os.getpid())])

    before = sum(each.cpu_s for each in children(os.getpid()))
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield usage
    finally:
        over.set()
        watching.join()
        now = children(os.getpid())
        usage.see([(each.name, each.size_mb) for each in now])
        usage.cpu_s = sum(each.cpu_s for each in now) - before


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it is now."""

    name: str
    size_mb: float
    cpu_s: float
    """Its own time, and that of its children which have ended."""


def children(pid: int) -> list[Process]:
    """Return the children of a process, and theirs."""
    families: dict[int, list[int]] = {}
    known: dict[int, Process] = {}
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
        families.setdefault(int(fields[1]), []).append(int(folder.name))
        known[int(folder.name)] = Process(name, pages * _PAGE / _MB, ticks / _TICK)
    found, todo = [], [*families.get(pid, [])]
    while todo:
        each = todo.pop()
        found.append(known[each])
        todo += families.get(each, [])
    return found
