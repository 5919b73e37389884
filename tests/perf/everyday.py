"""Prints everything that users notice, in one table: starts, requests, commits, transactions.

`python -m tests.perf.everyday [--rounds N] [--check]` takes about a minute for each round, and one
more to begin. Each row is a ratio to a floor or to kfake, or a value with an absolute target.
Everything takes turns, and the best of all rounds counts. A row whose program is missing, such as
Go for kfake, is left out. `--check` fails if a target is missed. pytest runs only a small version.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.testing import Broker
from tests.oracle.requirements import MissingProgramError, UnavailableError
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.perf import floors, groups_commits, groups_replay, transacting_client, transfer
from tests.perf.competitors import Kfake, broker_factories, start
from tests.perf.first_writes import Writer, first_writes, serve
from tests.perf.report import KAFKALITE, machine
from tests.perf.side_by_side import MEMORY_DIRECTORY
from tests.perf.start import COMMANDS, cpu_seconds, floor_seconds, start_seconds
from tests.perf.transactions import NEW, prepare, rate
from tests.perf.visibility import latency

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from tests.perf.competitors import Competitor

_COMMIT_SECONDS = 2.0
_CLIENT_TRANSACTIONS = 300
_PRODUCERS, _WARM_UP_TRANSACTIONS, _TRANSACTIONS = 8, 100, 600
_LATENCY_SAMPLES = 500
_LOADED_RECORDS, _RECORDS_PER_BATCH = 200_000, 10
_FLOOR_REQUESTS = 15_000
_OPENED_PARTITIONS = (1_000, 5_000)
_IN_PROCESS_STARTS = 10
_WARM_UP_RECORDS, _RECORDS, _RECORD_BYTES = 50_000, 300_000, 1000
_IDLE_S = 1.0
_BYTES_PER_MB = 1_000_000


class Row(NamedTuple):
    """A row of the table."""

    title: str
    unit: str
    target: float
    other: str = ""
    """What the value is divided by; without it, the target is a value."""
    is_limit: bool = True
    """Whether less is better, so that the target is a maximum."""
    digits: int = 1


ROWS = {
    **{
        f"start {name}": Row(f"processor time of a start, {name}", "ms", 1.3, "asyncio and uvloop")
        for name in COMMANDS
    },
    "idle": Row("resident memory when idle, with `--memory`", "MB", 28),
    "broker": Row("`Broker()` in a test process, until it is ready", "ms", 5),
    **{
        name: Row(f"{target.title}, user space", "µs", target.ratio, "echo")
        for name, target in floors.TARGETS.items()
    },
    "commits": Row("pipelined OffsetCommits, one core", "/s", 1.3, "kfake", is_limit=False),
    "client": Row("transactions, one librdkafka producer", "/s", 0.8, "kfake", is_limit=False),
    "raw": Row("transactions, eight producers, one core", "/s", 0.3, "kfake", is_limit=False),
    "visible": Row("EndTxn to records read, median", "ms", 0.35, digits=2),
    "typical": Row("records loaded, keys repeat", "million/s", 1, is_limit=False, digits=2),
    "unique": Row("records loaded, new keys", "million/s", 1, is_limit=False, digits=2),
    "open-1000": Row("start with 1,000 partitions on disk, processor time", "s", 1, digits=2),
    "open-5000": Row("start with 5,000 partitions on disk, processor time", "s", 3, digits=2),
    "recording": Row(
        "processor time of the broker for each MB produced, recorded",
        "ms",
        1.1,
        "not recorded",
        digits=2,
    ),
}


class Results:
    """The values of each row, and those that they are compared with."""

    def __init__(self) -> None:
        self._own: dict[str, list[float]] = {}
        self._other: dict[str, list[float]] = {}

    def add(self, key: str, value: float, *, is_other: bool = False) -> None:
        """Add one value."""
        (self._other if is_other else self._own).setdefault(key, []).append(value)

    def best(self, key: str) -> tuple[float, float | None] | None:
        """Return the best value of a row and that of the other program; None if one is missing."""
        row, choose = ROWS[key], min if ROWS[key].is_limit else max
        if key not in self._own or (row.other and key not in self._other):
            return None
        return choose(self._own[key]), choose(self._other[key]) if row.other else None


def start_rows(results: Results) -> None:
    """Measure a start by each command, and the floor that they share."""
    for name, command in COMMANDS.items():
        results.add(f"start {name}", start_seconds(command) * 1000)
        floor_ms = floor_seconds() * 1000
        for other in COMMANDS:
            results.add(f"start {other}", floor_ms, is_other=True)


def _start_and_idle(results: Results, _: Path) -> None:
    start_rows(results)
    process, _port = serve(1, ["--memory"])
    try:
        time.sleep(_IDLE_S)
        (line,) = [
            line
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if line.startswith("VmRSS:")
        ]
        results.add("idle", int(line.split()[1]) * 1024 / _BYTES_PER_MB)
    finally:
        _kill(process)
    for _number in range(_IN_PROCESS_STARTS):
        started = time.perf_counter()
        with Broker():
            results.add("broker", (time.perf_counter() - started) * 1000)


def _single_requests(results: Results, _: Path) -> None:
    for name, (cost, floor) in floors.ratios(1, _FLOOR_REQUESTS).items():
        results.add(name, cost)
        results.add(name, floor, is_other=True)


def _with_kfake(results: Results, directory: Path) -> None:
    """Measure commits and transactions of both brokers, each in a new process."""
    with tempfile.TemporaryDirectory(dir=directory) as text:
        factories: list[Callable[[], Competitor]] = [
            broker_factories(Path(text))[KAFKALITE],
            Kfake,
        ]
        for create in factories:
            broker = create()
            try:
                start(broker)
            except (MissingProgramError, UnavailableError) as error:
                sys.stderr.write(f"{broker.name} is not measured: {error}\n")
                continue
            try:
                _commits_and_transactions(results, broker)
            finally:
                broker.kill()


def _commits_and_transactions(results: Results, broker: Competitor) -> None:
    is_other = broker.name != KAFKALITE
    groups_commits.create_topic(broker.port)
    commits, _ = groups_commits.classic_rate(broker.port, broker.pid, _COMMIT_SECONDS)
    results.add("commits", commits, is_other=is_other)
    prepare(broker.port)
    by_client = transacting_client.measure(broker.port, _CLIENT_TRANSACTIONS)
    results.add("client", by_client, is_other=is_other)
    for run, transactions in (("-warm", _WARM_UP_TRANSACTIONS), ("", _TRANSACTIONS)):
        measured = rate(
            broker.port,
            broker.pid,
            NEW,
            producers=_PRODUCERS,
            transactions=transactions,
            run=run,
        )
    results.add("raw", measured.per_second, is_other=is_other)
    visible = latency(broker.port, NEW, transactions=_LATENCY_SAMPLES)
    results.add("visible", visible.p50_ms, is_other=is_other)


def _loading(results: Results, _: Path) -> None:
    for mix in groups_replay.MIXES:
        loaded = groups_replay.measure(mix, _RECORDS_PER_BATCH, _LOADED_RECORDS, rounds=1)
        results.add(mix, loaded.per_second / 1_000_000)


def _opening(results: Results, directory: Path) -> None:
    for partitions in _OPENED_PARTITIONS:
        data = directory / f"opened-{partitions}"
        if not data.exists():
            _write(data, partitions)
        command = COMMANDS["console script"]
        results.add(f"open-{partitions}", start_seconds(command, ["--data-dir", str(data)]))
        # It was killed, so the next start would recover the logs.
        process, _port = serve(partitions, ["--data-dir", str(data)])
        _stop(process)


def _write(data: Path, partitions: int) -> None:
    """Write a record to each of many partitions, and stop the broker."""
    process, port = serve(partitions, ["--data-dir", str(data)])
    writer = Writer(port, list(first_writes(partitions, 100)), in_flight=1)
    writer.start()
    writer.join()
    _stop(process)


def _recording(results: Results, directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as text:
        plain = ServedKafkalite(Path(text) / "plain")
        captures = str(Path(text) / "captures")
        recorded = ServedKafkalite(Path(text) / "recorded", options=("--capture", captures))
        for broker in (plain, recorded):
            try:
                start(broker)
                transfer.measure(
                    "produce", broker.port, "recorded", _WARM_UP_RECORDS, _RECORD_BYTES
                )
                before_s = cpu_seconds(broker.pid)
                transfer.measure("produce", broker.port, "recorded", _RECORDS, _RECORD_BYTES)
                cost_ms = (cpu_seconds(broker.pid) - before_s) * 1000
            finally:
                broker.kill()
            megabytes = _RECORDS * _RECORD_BYTES / _BYTES_PER_MB
            results.add("recording", cost_ms / megabytes, is_other=broker is plain)


STEPS = (_start_and_idle, _single_requests, _with_kfake, _loading, _opening, _recording)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def table(results: Results) -> str:
    """Return the table in Markdown."""
    lines = [
        "| | kafkalite | compared with | | ratio | target |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for key, row in ROWS.items():
        best = results.best(key)
        if best is None:
            lines.append(f"| {row.title}, {row.unit} | not measured | | | | |")
            continue
        value, other = best
        sign, number = "≤" if row.is_limit else "≥", f"{value:,.{row.digits}f}"
        compared = (
            f"| {row.other} | {other:,.{row.digits}f} | {value / other:.2f}" if other else "| | |"
        )
        lines.append(f"| {row.title}, {row.unit} | {number} {compared} | {sign} {row.target:g} |")
    return "\n".join([*lines, "", machine(), ""])


def missed_targets(results: Results) -> Iterator[str]:
    """Yield one line for each row that misses its target."""
    for key, row in ROWS.items():
        best = results.best(key)
        if best is None:
            continue
        value, other = best
        reached = value / other if other else value
        if (reached > row.target) if row.is_limit else (reached < row.target):
            yield f"{row.title}: {reached:.2f}, the target is {row.target:g}"


def measure(results: Results, rounds: int) -> None:
    """Measure all rows several times, in turns."""
    for command in COMMANDS.values():
        start_seconds(command)  # writes the bytecode cache
    with tempfile.TemporaryDirectory(dir=MEMORY_DIRECTORY) as directory:
        for _number in range(rounds):
            for step in STEPS:
                step(results, Path(directory))


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    results = Results()
    measure(results, options.rounds)
    sys.stdout.write(table(results))
    failures = list(missed_targets(results)) if options.check else []
    sys.stderr.writelines(f"target missed: {failure}\n" for failure in failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
