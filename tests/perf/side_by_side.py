"""Compares kafkalite with a real Kafka and with kfake in one run.

`python -m tests.perf.side_by_side [--rounds N] [--peers kafka,kfake] [--check]` prints a Markdown
table; `--check` fails if a target of the README is missed. pytest does not run this.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.oracle.requirements import MissingProgramError, UnavailableError
from tests.perf import first_record, groups_commits, heartbeats, transfer
from tests.perf.competitors import Competitor, broker_factories, start
from tests.perf.report import KAFKALITE, MEASURES, Results, table

if TYPE_CHECKING:
    from collections.abc import Callable

_STARTS = 5
_SIZES = {100: 1_000_000, 1000: 300_000}
_RATE_SECONDS = 3.0
_BYTES_PER_MB = 1_000_000
_IDLE_S = 1.0

# kfake stores nothing on disk. With data directories in memory, the comparison does not depend on
# the disk.
_MEMORY = "/dev/shm"  # noqa: S108 - a new directory is created in it
MEMORY_DIRECTORY = _MEMORY if Path(_MEMORY).is_dir() else None
"""The directory for data, None for the directory of temporary files."""

# Targets: milliseconds to start, start-up speed relative to Kafka, idle megabytes, and heartbeats
# per second on one core.
_START_MS, _START_SPEEDUP, _IDLE_MB, _HEARTBEATS_PER_SECOND = 150, 20, 45, 400_000


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="kafka,kfake")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--directory", default=MEMORY_DIRECTORY)
    options = parser.parse_args()
    results = Results()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        available = broker_factories(Path(directory))
        names = [KAFKALITE, *filter(None, options.peers.split(","))]
        for number in range(options.rounds):
            for name in [*names[number % len(names) :], *names[: number % len(names)]]:
                try:
                    measure(results, available[name])
                except (MissingProgramError, UnavailableError) as error:
                    sys.stderr.write(f"{name} is not measured: {error}\n")
    sys.stdout.write(f"{table(results)} Data directories in {options.directory or 'TMPDIR'}.\n")
    failures = missed_targets(results) if options.check else []
    sys.stderr.writelines(f"target missed: {failure}\n" for failure in failures)
    return 1 if failures else 0


def measure(results: Results, create_broker: Callable[[], Competitor]) -> None:
    """Measure everything once for one broker."""
    for _start in range(_STARTS):
        broker = create_broker()
        results.add("start", broker.name, start(broker) * 1000)
        broker.kill()
    broker = create_broker()
    start(broker)
    try:
        time.sleep(_IDLE_S)
        results.add("idle", broker.name, _resident_bytes(broker.pid) / _BYTES_PER_MB)
        _measure_transfer(results, broker)
        heartbeats_per_second, _per_cpu_second = heartbeats.rate(
            broker.port, broker.pid, _RATE_SECONDS
        )
        results.add("heartbeats", broker.name, heartbeats_per_second)
        groups_commits.create_topic(broker.port)
        commits, _ = groups_commits.classic_rate(broker.port, broker.pid, _RATE_SECONDS)
        results.add("commits", broker.name, commits)
    finally:
        broker.kill()
    _measure_first_record(results, create_broker)


def _measure_transfer(results: Results, broker: Competitor) -> None:
    transfer.measure("produce", broker.port, "warm", 50_000, 100)
    transfer.measure("consume", broker.port, "warm", 50_000, 100)
    for size, count in _SIZES.items():
        scale = size / _BYTES_PER_MB if size > min(_SIZES) else 1.0
        for direction in ("produce", "consume"):
            elapsed_s = transfer.measure(direction, broker.port, f"t-{size}", count, size)
            results.add(f"{direction}-{size}", broker.name, count / elapsed_s * scale)


def _measure_first_record(results: Results, create_broker: Callable[[], Competitor]) -> None:
    broker = create_broker()
    start(broker)
    try:
        first_record.fill(broker.port, "first")
        for protocol in ("classic", "consumer"):
            # The first group makes the broker create its offsets topic; it is not counted.
            first_record.measure(broker.port, "first", protocol, f"warm-{protocol}")
            for number in range(3):
                elapsed_s = first_record.measure(
                    broker.port, "first", protocol, f"{protocol}-{number}"
                )
                results.add(protocol, broker.name, elapsed_s * 1000)
    finally:
        broker.kill()


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def missed_targets(results: Results) -> list[str]:
    """Return one line for each missed target."""
    by_key = {measure.key: measure for measure in MEASURES}
    missed = []
    for key, limit in (("start", _START_MS), ("idle", _IDLE_MB)):
        value = results.best(by_key[key], KAFKALITE)
        if value is None or value > limit:
            missed.append(f"{by_key[key].title} {value} > {limit} {by_key[key].unit}")
    speedup = results.advantage(by_key["start"], "kafka")
    if speedup is not None and speedup < _START_SPEEDUP:
        missed.append(f"start is {speedup:.1f} times faster than Kafka's, not {_START_SPEEDUP}")
    for key in ("produce-1000", "consume-1000"):
        for peer in ("kafka", "kfake"):
            ratio = results.advantage(by_key[key], peer)
            if ratio is not None and ratio < 1:
                missed.append(f"{by_key[key].title}: {ratio:.2f} of {peer}")
    heartbeats_per_second = results.best(by_key["heartbeats"], KAFKALITE)
    if heartbeats_per_second is None or heartbeats_per_second < _HEARTBEATS_PER_SECOND:
        missed.append(
            f"{by_key['heartbeats'].title} {heartbeats_per_second} < {_HEARTBEATS_PER_SECOND}"
        )
    return missed


if __name__ == "__main__":
    sys.exit(main())
