"""Measures the cost of recording: `python -m tests.perf.capture_overhead [--rounds N] [--check]`.

Two brokers, one of which records, are measured in short alternating turns, so that other load on
the machine affects both; the overhead of a rate is the median over the pairs. Records are produced
by kafka-python and by librdkafka, each as fast as it can. Heartbeats are pipelined in one
connection, which is the highest load for a broker, and sent one by one, which measures the latency.
Most of the latency would be the time in which idle processors go to sleep and wake up. The writer
keeps processors awake, so recording would even seem to save time. Therefore idle-priority processes
keep them awake, with and without a recording.

Each row also has the additional CPU time of the broker per response or megabyte, and the CPU time
of the process that writes the capture, both relative to the CPU time of the broker without a
recording: with few or busy processors, the writer competes with the broker. The minimum for the
writer is the time of `dd`, which only copies the same capture from memory to a file.

Therefore the target for librdkafka on two processors applies only if the writer has one processor
to itself, and client and broker share the other. Otherwise client, broker and writer together need
more than two processors: 1.2, 0.6 and 0.5 ms per megabyte. Of the time of the writer, 0.35 ms
is `write` for the pages of a file in memory (0.2 ms on ext4 with larger pages), but an overhead of
10 % leaves only 0.2 ms for writer and broker together. The part of the broker is the copy into the
ring, 0.1 ms. Rings of 2 to 32 MB cost the same; with smaller ones the broker has to wait.
"""

from __future__ import annotations

import argparse
import itertools
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka import KafkaProducer

from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.perf import heartbeats, transfer
from tests.perf.competitors import start
from tests.perf.pipeline import cpu_seconds, frame, pump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Run = Callable[[ServedKafkalite], "Sample"]

MAX_OVERHEAD = 0.10
"""The largest permitted overhead, as a fraction of the rate."""

_SEPARATE_WRITER = "produce, librdkafka, separate writer"
MEASURES_WITH_TARGET = (
    "produce, kafka-python",
    _SEPARATE_WRITER,
    "heartbeats, pipelined",
    "heartbeats, one by one",
)

_PAIRS = 3
"""The number of turns per broker, measure and round."""

_SECONDS = 0.6
_BATCH = 500
_SIZE = 1000
_BYTES_PER_MB = 1_000_000
_DRAIN_S = 0.2
_MEMORY = "/dev/shm"  # noqa: S108 - a new directory is created in it
_SPIN_PROGRAM = (
    "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
)
_group_ids = (f"group-{number}" for number in itertools.count())


class Sample(NamedTuple):
    """The result of one turn: the amount, the duration, and the CPU time of the broker."""

    amount: float
    seconds: float
    cpu_seconds: float
    client_cpu_seconds: float = 0
    """The CPU time of a client in a separate process, including its start."""


def send_pipelined(broker: ServedKafkalite) -> Sample:
    """Send heartbeats without waiting for responses."""
    rate = pump(broker.port, broker.pid, [_heartbeat(broker.port)] * _BATCH, _SECONDS)
    return Sample(
        rate.per_second * _SECONDS, _SECONDS, rate.per_second * _SECONDS / rate.per_cpu_second
    )


def send_one_by_one(broker: ServedKafkalite) -> Sample:
    """Send each heartbeat after the response to the previous one."""
    heartbeat, response_count = _heartbeat(broker.port), 0
    address = ("127.0.0.1", broker.port)
    with awake_processors(), socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started, cpu = time.perf_counter(), cpu_seconds(broker.pid)
        while (elapsed_s := time.perf_counter() - started) < _SECONDS:
            connection.sendall(heartbeat)
            connection.recv(4096)
            response_count += 1
        return Sample(response_count, elapsed_s, cpu_seconds(broker.pid) - cpu)


@contextmanager
def awake_processors() -> Iterator[None]:
    """Keep all processors awake with idle-priority processes."""
    spinning = [
        subprocess.Popen([sys.executable, "-S", "-c", _SPIN_PROGRAM])
        for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def produce_with_python(broker: ServedKafkalite, count: int = 10_000) -> Sample:
    """Produce as fast as a Python client can; the amount is in megabytes."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    producer.partitions_for("python")
    value = bytes(_SIZE)
    started, cpu = time.perf_counter(), cpu_seconds(broker.pid)
    for _ in range(count):
        producer.send("python", value)
    producer.flush()
    elapsed_s, cpu = time.perf_counter() - started, cpu_seconds(broker.pid) - cpu
    producer.close()
    return Sample(count * _SIZE / _BYTES_PER_MB, elapsed_s, cpu)


def produce_with_librdkafka(broker: ServedKafkalite, count: int = 300_000) -> Sample:
    """Produce as fast as a C client can; the amount (megabytes) is many times the ring's size."""
    cpu, client = cpu_seconds(broker.pid), _children_cpu_seconds()
    elapsed_s = transfer.measure("produce", broker.port, "native", count, _SIZE)
    cpu, client = cpu_seconds(broker.pid) - cpu, _children_cpu_seconds() - client
    return Sample(count * _SIZE / _BYTES_PER_MB, elapsed_s, cpu, client)


def produce_with_separate_writer(broker: ServedKafkalite) -> Sample:
    """Produce with client and broker on one processor, and the writer on another."""
    with separate_processors(broker):
        return produce_with_librdkafka(broker)


@contextmanager
def separate_processors(broker: ServedKafkalite) -> Iterator[None]:
    """Run this process, its children and a broker on the first processor, and the writer elsewhere.

    With only one processor, all share it.
    """
    all_processors = os.sched_getaffinity(0)
    first_processor, *other_processors = sorted(all_processors)
    threads = [int(path.name) for path in Path(f"/proc/{broker.pid}/task").iterdir()]
    for thread in (0, *threads):
        os.sched_setaffinity(thread, {first_processor})
    for writer in children(broker.pid):
        os.sched_setaffinity(writer, other_processors or all_processors)
    try:
        yield
    finally:
        for thread in (0, *threads, *children(broker.pid)):
            os.sched_setaffinity(thread, all_processors)


# Runs that do not change the CPU affinity come first, because a broker keeps a changed one.
MEASURES: Mapping[str, Run] = {
    "produce, kafka-python": produce_with_python,
    "produce, librdkafka": produce_with_librdkafka,
    _SEPARATE_WRITER: produce_with_separate_writer,
    "heartbeats, pipelined": send_pipelined,
    "heartbeats, one by one": send_one_by_one,
}


@dataclass
class Comparison:
    """One measure of both brokers; turns with the same index are a pair."""

    without: list[Sample] = field(default_factory=list)
    recorded: list[Sample] = field(default_factory=list)
    writer_cpu_seconds: float = 0
    """The CPU time of the writer process."""

    @property
    def overhead(self) -> float:
        """The fraction by which recording lowers the rate."""
        pairs = zip(self.without, self.recorded, strict=True)
        return 1 - statistics.median(rate(recorded) / rate(plain) for plain, recorded in pairs)

    @property
    def cpu_overhead(self) -> float:
        """The relative increase of the CPU time of the broker."""
        return cpu_per_amount(self.recorded) / cpu_per_amount(self.without) - 1

    @property
    def writer(self) -> float:
        """The CPU time of the writer, relative to that of the broker without a recording."""
        return self.writer_cpu_seconds / amount(self.recorded) / cpu_per_amount(self.without)


def rate(elapsed_s: Sample) -> float:
    """Return the amount per second."""
    return elapsed_s.amount / elapsed_s.seconds


def amount(elapsed_s: list[Sample]) -> float:
    """Return the total amount of all turns."""
    return sum(sample.amount for sample in elapsed_s)


def cpu_per_amount(elapsed_s: list[Sample]) -> float:
    """Return the CPU time per amount."""
    return sum(sample.cpu_seconds for sample in elapsed_s) / amount(elapsed_s)


@dataclass
class Report:
    """All results."""

    comparisons: dict[str, Comparison] = field(
        default_factory=lambda: {name: Comparison() for name in MEASURES}
    )
    dd_cpu_seconds: list[float] = field(default_factory=list)
    """The CPU seconds of `dd` for copying one megabyte of a capture."""

    def text(self) -> str:
        """Return the results as Markdown."""
        lines = [
            "| per second | plain | recorded | overhead | CPU of the broker | CPU of the writer |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        lines += [
            f"| {name} | {statistics.median(map(rate, each.without)):,.0f} "
            f"| {statistics.median(map(rate, each.recorded)):,.0f} | {each.overhead:.1%} "
            f"| {each.cpu_overhead:+.1%} | {each.writer:+.1%} |"
            for name, each in self.comparisons.items()
        ]
        produced = self.comparisons["produce, librdkafka"]
        writer = produced.writer_cpu_seconds / amount(produced.recorded)
        dd_seconds = statistics.median(self.dd_cpu_seconds)
        plain, recorded = cpu_per_amount(produced.without), cpu_per_amount(produced.recorded)
        client = sum(each.client_cpu_seconds for each in produced.without)
        client /= amount(produced.without)
        return "\n".join(lines) + (
            f"\n\nA megabyte from librdkafka costs the broker {plain * 1e3:.2f} ms, recorded "
            f"{recorded * 1e3:.2f} ms, and the writer {writer * 1e3:.2f} ms, "
            f"{writer / dd_seconds:.1f} times the {dd_seconds * 1e3:.2f} ms that dd takes to copy "
            f"it. librdkafka takes {client * 1e3:.2f} ms. If all are busy, dd in place of the "
            f"writer would cost {dd_seconds / (client + plain + dd_seconds):.0%} of its rate.\n"
        )


def measure(rounds: int) -> Report:
    """Measure both brokers in alternating turns."""
    report = Report()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as text:
            directory = Path(text)
            captures = directory / "captures"
            plain = ServedKafkalite(directory / "plain")
            recorded = ServedKafkalite(directory / "recorded", options=("--capture", str(captures)))
            try:
                start(plain)
                start(recorded)
                for name, run in MEASURES.items():
                    _measure_in_turns(run, plain, recorded, report.comparisons[name])
                    if run is produce_with_librdkafka:
                        report.dd_cpu_seconds.append(dd_cpu_seconds(captures))
            finally:
                plain.kill()
                recorded.kill()
    return report


def _measure_in_turns(
    run: Run, plain: ServedKafkalite, recorded: ServedKafkalite, comparison: Comparison
) -> None:
    for number in range(_PAIRS):
        if number % 2:
            comparison.without.append(run(plain))
            _measure_recorded(run, recorded, comparison)
        else:
            _measure_recorded(run, recorded, comparison)
            comparison.without.append(run(plain))


def _measure_recorded(run: Run, broker: ServedKafkalite, comparison: Comparison) -> None:
    (writer,) = children(broker.pid)
    before = cpu_seconds(writer)
    elapsed_s = run(broker)
    time.sleep(_DRAIN_S)
    # The rate excludes the warm-up, so its part of the CPU time is subtracted.
    share = 3 / 4 if run is send_pipelined else 1
    comparison.recorded.append(elapsed_s)
    comparison.writer_cpu_seconds += (cpu_seconds(writer) - before) * share


def dd_cpu_seconds(captures: Path) -> float:
    """Return the CPU time of `dd` for copying one megabyte of a capture."""
    largest = max(captures.iterdir(), key=lambda path: path.stat().st_size)
    target = captures.with_suffix(".copy")
    before = _children_cpu_seconds()
    subprocess.run(
        ["dd", f"if={largest}", f"of={target}", "bs=1M", "status=none"],
        check=True,
    )
    elapsed_s = _children_cpu_seconds() - before
    size = target.stat().st_size
    target.unlink()
    return elapsed_s * _BYTES_PER_MB / size


def _children_cpu_seconds() -> float:
    """Return the CPU time of the child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for word in " ".join(path.read_text() for path in lists).split()]


def missed_targets(report: Report) -> list[str]:
    """Return one line for each measure whose overhead is larger than permitted."""
    overheads = {name: report.comparisons[name].overhead for name in MEASURES_WITH_TARGET}
    return [
        f"{name}: the overhead of recording is {overhead:.1%}, more than {MAX_OVERHEAD:.0%}"
        for name, overhead in overheads.items()
        if overhead > MAX_OVERHEAD
    ]


def _heartbeat(port: int) -> bytes:
    group = next(_group_ids)
    membership = heartbeats.join(port, group)
    heartbeat = HeartbeatRequest(
        group_id=group, generation_id=membership.epoch, member_id=membership.member_id
    )
    return frame(heartbeat, 4)


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    report = measure(options.rounds)
    sys.stdout.write(report.text())
    failures = missed_targets(report) if options.check else []
    sys.stderr.writelines(f"target missed: {failure}\n" for failure in failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
