"""Measures `kafkalite audit` as users start it: time, CPU time and memory for several captures.

    python -m tests.perf.audit_bench [--megabytes 500 2000] [--cores 2] [--check] [--mixed]
        [--hot KEY ...] [--tasks] [ARGUMENT ...]

Further arguments are those of the command, such as `--audits fencing`; by default it has none but
the input and the output directory. The captures are those of `tests.perf.big_capture`. The CPU time
and the memory include Java and the Python workers. Memory shared by processes counts once.

With --mixed, the captures have the requests of all kinds of clients. With --hot, further mixed
captures are audited, in which one key of the named kinds has 90 % of its requests.

With --tasks, Spark's event log gives the number of stages and tasks, and their CPU time in Java:
the rest is that of planning queries, of compilers, and of Python.

The cost of further requests is that of the requests that the smaller capture does not have. With
--check the exit status is 1 if a run fails, if its memory exceeds the limit, if a request of the
larger capture costs more than one of the smaller, or if a request of a capture with a hot key costs
more than one of the largest capture without.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.perf.big_capture import write
from tests.perf.mixed_messages import HOT_KEYS
from tests.perf.pipeline_bench import on_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_MEMORY_MB: Final = 3_000
MAX_COST_RATIO: Final = 1.2
MAX_HOT_RATIO: Final = 1.5
_INTERVAL_S: Final = 2.0
"""Interval of the samples; a sample of a large process takes tens of milliseconds."""
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_MB: Final = 1_000_000
_KIB: Final = 1_024
_REQUESTS: Final = re.compile(r"^requests: ([\d,]+)$", re.MULTILINE)


@dataclass(slots=True)
class Usage:
    """The resources of a process and all its descendants, by samples."""

    cpu_s: dict[int, float] = field(default_factory=dict)
    """Process id → CPU seconds; those of ended processes stay."""
    peak_mb: float = 0.0

    def sample(self, root: int) -> None:
        """Add a sample of the running processes."""
        memory_mb = 0.0
        for pid in _descendants(root):
            # A process may end meanwhile.
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
                self.cpu_s[pid] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
                memory_mb += _proportional_mb(pid)
        self.peak_mb = max(self.peak_mb, memory_mb)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """The stages and tasks of a run, from Spark's event log."""

    stages: int
    tasks: int
    cpu_seconds: float
    """Of the tasks in Java."""
    longest_seconds: float
    """CPU time of the longest task, which limits the use of more cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The result of one run of the command."""

    size: int
    requests: int
    seconds: float
    cpu_seconds: float
    peak_mb: float
    tasks: Tasks | None = None

    @property
    def us_per_request(self) -> float:
        """CPU time per request in microseconds."""
        return self.cpu_seconds / self.requests * 1e6

    def minus(self, smaller: Measurement) -> Measurement:
        """Return the cost of the requests that a smaller capture does not have."""
        return Measurement(
            size=self.size - smaller.size,
            requests=self.requests - smaller.requests,
            seconds=self.seconds - smaller.seconds,
            cpu_seconds=self.cpu_seconds - smaller.cpu_seconds,
            peak_mb=self.peak_mb,
        )

    def __str__(self) -> str:
        """Return the result as one line."""
        text = (
            f"{self.size / _MB:,.0f} MB, {self.requests:,} requests: {self.seconds:,.1f} s,"
            f" {self.cpu_seconds:,.1f} s of CPU time, {self.us_per_request:.2f} us per request,"
            f" {self.peak_mb:,.0f} MB of memory"
        )
        if self.tasks is None:
            return text
        return (
            f"{text}, {self.tasks.stages:,} stages, {self.tasks.tasks:,} tasks with"
            f" {self.tasks.cpu_seconds:,.1f} s of CPU time in Java, of which the longest has"
            f" {self.tasks.longest_seconds:,.1f} s"
        )


def measure(folder: Path, size: int, out: Path, arguments: Sequence[str]) -> Measurement:
    """Run the command on the captures in a directory; raises SystemExit if it fails."""
    command = [sys.executable, "-m", "kafkalite", "audit", str(folder), "--out", str(out)]
    usage, started = Usage(), time.perf_counter()
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as running:
        while True:
            try:
                output, _ = running.communicate(timeout=_INTERVAL_S)
                break
            except subprocess.TimeoutExpired:
                usage.sample(running.pid)
    seconds = time.perf_counter() - started
    found = _REQUESTS.search(output)
    if running.returncode or found is None:
        sys.exit(f"the command ended with status {running.returncode} after {seconds:.1f} s")
    return Measurement(
        size=size,
        requests=int(found[1].replace(",", "")),
        seconds=seconds,
        cpu_seconds=sum(usage.cpu_s.values()),
        peak_mb=usage.peak_mb,
    )


def event_log_arguments(folder: Path) -> list[str]:
    """Return the arguments of the command that make Spark write its event log to a directory."""
    folder.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
    }
    return [text for name, value in conf.items() for text in ("--conf", f"{name}={value}")]


def read_event_log(folder: Path) -> Tasks:
    """Return the stages and tasks in Spark's event log."""
    stages: set[int] = set()
    cpu_ns: list[int] = []
    for path in folder.rglob("events_*"):
        with path.open() as lines:
            for line in lines:
                if '"SparkListenerTaskEnd"' not in line[:100]:
                    continue
                event = json.loads(line)
                stages.add(event["Stage ID"])
                cpu_ns.append((event.get("Task Metrics") or {}).get("Executor CPU Time", 0))
    return Tasks(
        stages=len(stages),
        tasks=len(cpu_ns),
        cpu_seconds=sum(cpu_ns) / 1e9,
        longest_seconds=max(cpu_ns, default=0) / 1e9,
    )


def _proportional_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * _KIB / _MB
    return 0.0


def _descendants(root: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [root]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def main() -> None:
    """Measure and print; with `--check`, exit with 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--hot", choices=HOT_KEYS, nargs="+", default=[])
    parser.add_argument("--tasks", action="store_true")
    options, arguments = parser.parse_known_args()
    options.mixed |= bool(options.hot)
    sizes = sorted(megabytes * _MB for megabytes in options.megabytes)
    measured = [_measure(size, options, arguments) for size in sizes]
    smallest, largest = measured[0], measured[-1]
    if len(measured) > 1:
        sys.stdout.write(f"further requests: {largest.minus(smallest)}\n")
    hot = [_measure(sizes[-1], options, arguments, key) for key in options.hot]
    for key, each in zip(options.hot, hot, strict=True):
        ratio = each.us_per_request / largest.us_per_request
        sys.stdout.write(f"hot {key}: {ratio:.2f} times the cost of a request\n")
    if options.check and largest.us_per_request > MAX_COST_RATIO * smallest.us_per_request:
        sys.exit(f"a request costs more than {MAX_COST_RATIO} times that of the smallest capture")
    if options.check and any(
        each.us_per_request > MAX_HOT_RATIO * largest.us_per_request for each in hot
    ):
        sys.exit(f"with a hot key, a request costs more than {MAX_HOT_RATIO} times as much")
    if options.check and max(each.peak_mb for each in (*measured, *hot)) > MAX_MEMORY_MB:
        sys.exit(f"more than {MAX_MEMORY_MB:,} MB of memory")


def _measure(
    size: int, options: argparse.Namespace, arguments: Sequence[str], hot: str | None = None
) -> Measurement:
    """Write a capture, audit it, and print the result."""
    with tempfile.TemporaryDirectory() as scratch, on_cores(options.cores):
        folder, out, log = (Path(scratch) / name for name in ("in", "out", "log"))
        capture = write(folder, size, is_mixed=options.mixed, hot=hot)
        logged = event_log_arguments(log) if options.tasks else []
        found = measure(folder, capture.size, out, [*arguments, *logged])
        found = replace(found, tasks=read_event_log(log) if options.tasks else None)
    sys.stdout.write(f"{'' if hot is None else f'hot {hot}: '}{found}\n")
    sys.stdout.flush()
    return found


if __name__ == "__main__":
    main()
