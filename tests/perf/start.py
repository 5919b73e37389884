"""Compares the start of kafkalite with the floor: a process that only imports asyncio and uvloop.

`python -m tests.perf.start [--rounds N] [--check]` prints a Markdown table. The cost is the
processor time of the process until it has answered the first Metadata request. All commands take
turns, and the least cost of all rounds counts. Python's bytecode cache is written before. `--check`
fails if a ratio is above its target. pytest runs only a small version.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.oracle.target import free_port
from tests.perf.first_answer import wait_for_answer
from tests.perf.report import machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TARGET = 1.3
"""The maximum ratio of the processor time of a start to that of the floor."""

_FLOOR = (sys.executable, "-c", "import asyncio, uvloop")
COMMANDS: Mapping[str, Sequence[str]] = {
    "console script": (str(Path(sys.executable).with_name("kafkalite")),),
    "`python -m kafkalite`": (sys.executable, "-m", "kafkalite"),
}
_TIMEOUT_S = 60.0
_NANOSECONDS_PER_SECOND = 1_000_000_000


def environment() -> dict[str, str]:
    """Return the environment of this process, without a ban on the bytecode cache."""
    return {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_seconds(pid: int) -> float:
    """Return the processor time of the threads of a process, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    times_ns = [int((task / "schedstat").read_text().split()[0]) for task in tasks]
    return sum(times_ns) / _NANOSECONDS_PER_SECOND


def floor_seconds() -> float:
    """Return the processor time of a process that imports asyncio and uvloop, and ends."""
    process = subprocess.Popen(_FLOOR, env=environment())
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime


def start_seconds(command: Sequence[str], options: Sequence[str] = ("--memory",)) -> float:
    """Return the processor time of a start, until the first Metadata response."""
    port = free_port()
    serve = [*command, "serve", "--listen", f"127.0.0.1:{port}", *options]
    process = subprocess.Popen(serve, stdout=subprocess.DEVNULL, env=environment())
    try:
        assert wait_for_answer(port, time.perf_counter() + _TIMEOUT_S), serve
        return cpu_seconds(process.pid)
    finally:
        process.kill()
        process.wait()


def costs(rounds: int) -> dict[str, tuple[float, float]]:
    """Return the least cost of each command in seconds, and that of the floor."""
    floors: list[float] = []
    starts: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for name, command in COMMANDS.items():
        start_seconds(command)  # writes the bytecode cache
        for _ in range(rounds):
            floors.append(floor_seconds())
            starts[name].append(start_seconds(command))
    return {name: (min(seconds), min(floors)) for name, seconds in starts.items()}


def table(measured: Mapping[str, tuple[float, float]]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| processor time of a start | kafkalite, ms | asyncio and uvloop, ms | ratio | target |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {name} | {cost * 1000:.0f} | {floor * 1000:.0f} | {cost / floor:.2f} | {TARGET} |"
        for name, (cost, floor) in measured.items()
    ]
    return "\n".join([*lines, "", machine(), ""])


def missed_targets(measured: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return one line for each ratio that is above its target."""
    return [
        f"start by {name}: {cost / floor:.2f} times the floor, above {TARGET}"
        for name, (cost, floor) in measured.items()
        if cost > floor * TARGET
    ]


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    measured = costs(options.rounds)
    sys.stdout.write(table(measured))
    failures = missed_targets(measured) if options.check else []
    sys.stderr.writelines(f"target missed: {failure}\n" for failure in failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
