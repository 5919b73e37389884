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

This is why the target for librdkafka on two processors applies only if the writer has one
processor to itself: client and broker then share the other. Otherwise client, broker and writer
together need more than both: 1.2, 0.6 and 0.5 ms per megabyte. Of the time of the writer, 0.35 ms
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

LARGEST_OVERHEAD = 0.10
"""The largest permitted overhead, as a fraction of the rate."""

_WRITER_APART = "produce, librdkafka, writer apart"
WITH_TARGET = (
    "produce, kafka-python",
    _WRITER_APART,
    "heartbeats, pipelined",
    "heartbeats, one by one",
)

_PAIRS = 3
"""The number of turns per broker, measure and round."""

_SECONDS = 0.6
_BATCH = 500
_SIZE = 1000
_MEGA = 1_000_000
_DRAINED_S = 0.2
_MEMORY = "/dev/shm"  # noqa: S108 - a new directory is made in it
_SPIN = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
_names = (f"group-{number}" for number in itertools.count())


class Sample(NamedTuple):
    """The result of one turn: the amount, the duration, and the CPU time of the broker."""

    amount: float
    seconds: float
    cpu_seconds: float
    client_cpu_seconds: float = 0
    """The CPU time of a client in a separate process, including its start."""


def pipelined(broker: ServedKafkalite) -> Sample:
    """Send heartbeats without waiting for responses."""
    rate = pump(broker.port, broker.pid, [_beat(broker.port)] * _BATCH, _SECONDS)
    return Sample(
        rate.per_second * _SECONDS, _SECONDS, rate.per_second * _SECONDS / rate.per_cpu_second
    )


def one_by_one(broker: ServedKafkalite) -> Sample:
    """Send each heartbeat after the response to the previous one."""
    beat, response_count = _beat(broker.port), 0
    address = ("127.0.0.1", broker.port)
    with awake(), socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started, cpu = time.perf_counter(), cpu_seconds(broker.pid)
        while (taken := time.perf_counter() - started) < _SECONDS:
            connection.sendall(beat)
            connection.recv(4096)
            response_count += 1
        return Sample(response_count, taken, cpu_seconds(broker.pid) - cpu)


@contextmanager
def awake() -> Iterator[None]:
    """Keep all processors awake with idle-priority processes."""
    spinning = [
        subprocess.Popen([sys.executable, "-S", "-c", _SPIN]) for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def produced_by_python(broker: ServedKafkalite, count: int = 10_000) -> Sample:
    """Produce as fast as a Python client can; the amount is in megabytes."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    producer.partitions_for("python")
    value = bytes(_SIZE)
    started, cpu = time.perf_counter(), cpu_seconds(broker.pid)
    for _ in range(count):
        producer.send("python", value)
    producer.flush()
    taken, cpu = time.perf_counter() - started, cpu_seconds(broker.pid) - cpu
    producer.close()
    return Sample(count * _SIZE / _MEGA, taken, cpu)


def produced_by_librdkafka(broker: ServedKafkalite, count: int = 300_000) -> Sample:
    """Produce as fast as a C client can; the amount (megabytes) is many times the ring's size."""
    cpu, client = cpu_seconds(broker.pid), _children_cpu_seconds()
    taken = transfer.measure("produce", broker.port, "native", count, _SIZE)
    cpu, client = cpu_seconds(broker.pid) - cpu, _children_cpu_seconds() - client
    return Sample(count * _SIZE / _MEGA, taken, cpu, client)


def produced_apart_from_writer(broker: ServedKafkalite) -> Sample:
    """Produce with client and broker on one processor, and the writer on another."""
    with separate_processors(broker):
        return produced_by_librdkafka(broker)


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
    "produce, kafka-python": produced_by_python,
    "produce, librdkafka": produced_by_librdkafka,
    _WRITER_APART: produced_apart_from_writer,
    "heartbeats, pipelined": pipelined,
    "heartbeats, one by one": one_by_one,
}


@dataclass
class Comparison:
    """One measure of both brokers; turns with the same index are a pair."""

    without: list[Sample] = field(default_factory=list)
    recorded: list[Sample] = field(default_factory=list)
    written: float = 0
    """The CPU time of the writer process."""

    @property
    def overhead(self) -> float:
        """The fraction by which recording lowers the rate."""
        pairs = zip(self.without, self.recorded, strict=True)
        return 1 - statistics.median(rate(recorded) / rate(plain) for plain, recorded in pairs)

    @property
    def cpu_overhead(self) -> float:
        """The relative increase of the CPU time of the broker."""
        return cpu(self.recorded) / cpu(self.without) - 1

    @property
    def writer(self) -> float:
        """The CPU time of the writer, relative to that of the broker without a recording."""
        return self.written / amount(self.recorded) / cpu(self.without)


def rate(taken: Sample) -> float:
    """Return the amount per second."""
    return taken.amount / taken.seconds


def amount(taken: list[Sample]) -> float:
    """Return the total amount of all turns."""
    return sum(sample.amount for sample in taken)


def cpu(taken: list[Sample]) -> float:
    """Return the CPU time per amount."""
    return sum(sample.cpu_seconds for sample in taken) / amount(taken)


@dataclass
class Report:
    """All results."""

    compared: dict[str, Comparison] = field(
        default_factory=lambda: {name: Comparison() for name in MEASURES}
    )
    copied: list[float] = field(default_factory=list)
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
            for name, each in self.compared.items()
        ]
        produced = self.compared["produce, librdkafka"]
        writer = produced.written / amount(produced.recorded)
        floor = statistics.median(self.copied)
        plain, recorded = cpu(produced.without), cpu(produced.recorded)
        client = sum(each.client_cpu_seconds for each in produced.without)
        client /= amount(produced.without)
        return "\n".join(lines) + (
            f"\n\nA megabyte from librdkafka costs the broker {plain * 1e3:.2f} ms, recorded "
            f"{recorded * 1e3:.2f} ms, and the writer {writer * 1e3:.2f} ms: {writer / floor:.1f} "
            f"times what dd takes to copy it ({floor * 1e3:.2f} ms). librdkafka takes "
            f"{client * 1e3:.2f} ms: where all processors are busy, dd as the writer would cost "
            f"{floor / (client + plain + floor):.0%} of its rate.\n"
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
                    _in_turns(run, plain, recorded, report.compared[name])
                    if run is produced_by_librdkafka:
                        report.copied.append(copied(captures))
            finally:
                plain.kill()
                recorded.kill()
    return report


def _in_turns(
    run: Run, plain: ServedKafkalite, recorded: ServedKafkalite, compared: Comparison
) -> None:
    for number in range(_PAIRS):
        if number % 2:
            compared.without.append(run(plain))
            _record(run, recorded, compared)
        else:
            _record(run, recorded, compared)
            compared.without.append(run(plain))


def _record(run: Run, broker: ServedKafkalite, compared: Comparison) -> None:
    (writer,) = children(broker.pid)
    before = cpu_seconds(writer)
    taken = run(broker)
    time.sleep(_DRAINED_S)
    # The rate excludes the warm-up, so its part of the CPU time is subtracted.
    share = 3 / 4 if run is pipelined else 1
    compared.recorded.append(taken)
    compared.written += (cpu_seconds(writer) - before) * share


def copied(captures: Path) -> float:
    """Return the CPU time of `dd` for copying one megabyte of a capture."""
    largest = max(captures.iterdir(), key=lambda path: path.stat().st_size)
    target = captures.with_suffix(".copy")
    before = _children_cpu_seconds()
    subprocess.run(
        ["dd", f"if={largest}", f"of={target}", "bs=1M", "status=none"],
        check=True,
    )
    taken = _children_cpu_seconds() - before
    size = target.stat().st_size
    target.unlink()
    return taken * _MEGA / size


def _children_cpu_seconds() -> float:
    """Return the CPU time of the child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for word in " ".join(path.read_text() for path in lists).split()]


def missed_targets(report: Report) -> list[str]:
    """Describe each measure whose overhead is larger than permitted."""
    overheads = {name: report.compared[name].overhead for name in WITH_TARGET}
    return [
        f"{name}: the overhead of recording is {overhead:.1%}, more than {LARGEST_OVERHEAD:.0%}"
        for name, overhead in overheads.items()
        if overhead > LARGEST_OVERHEAD
    ]


def _beat(port: int) -> bytes:
    group = next(_names)
    membership = heartbeats.join(port, group)
    beat = HeartbeatRequest(
        group_id=group, generation_id=membership.epoch, member_id=membership.member_id
    )
    return frame(beat, 4)


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
