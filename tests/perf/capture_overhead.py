"""What recording costs a broker: `python -m tests.perf.capture_overhead [--rounds N] [--check]`.

Two brokers, of which one records, are measured in short turns that follow each other at once, so
that what else the machine does meets both; a rate's overhead is the median of the pairs. Records
are produced by kafka-python and by librdkafka, as fast as each can. Heartbeats are pipelined in one
connection, which is the most that a broker is ever asked, and asked one by one, which is how long
each waits for its answer. Most of that would be the time in which idle processors go to sleep and
wake up, and as a writer keeps them from it, recording would even seem to pay: so processes that
only take what nobody else wants keep them awake, with and without a recording.

Beside every rate stands how much more processor time an answer, or a megabyte, costs the broker,
and how much the process that writes the capture takes, both as parts of what it costs the broker
alone: where processors are few or busy, the writer takes its time from somebody. What it must take
at least is told by `dd`, which copies the same capture from memory to a file and does no more.

That is why nothing is promised of librdkafka's rate where two processors are all there is, but
where the writer has one to itself: client and broker then share the other. Without that, client,
broker and writer together want more than these: 1.2, 0.6 and 0.5 ms a megabyte. Of the writer's,
0.35 is what `write` takes for the pages of a file in memory (0.2 on ext4, in larger ones), while a
loss of 10 % leaves 0.2 for writer and broker together. The broker's own part is the copy into the
ring, 0.1 ms; rings of 2 to 32 MB cost the same, small ones only make the broker wait.
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

from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.perf import heartbeats, transfer
from tests.perf.competitors import start
from tests.perf.pipeline import cpu_seconds, frame, pump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Run = Callable[[ServedKafkalite], "Taken"]

LARGEST_OVERHEAD = 0.10
"""What recording may take of a rate that is promised."""

_APART = "produce, librdkafka, writer apart"
PROMISED = ("produce, kafka-python", _APART, "heartbeats, pipelined", "heartbeats, one by one")

_PAIRS = 3
"""So many turns each broker has of every measure, in each round."""

_SECONDS = 0.6
_BATCH = 500
_SIZE = 1000
_MEGA = 1_000_000
_DRAINED_S = 0.2
_MEMORY = "/dev/shm"  # noqa: S108 - a directory of our own is made in it
_SPIN = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
_names = (f"group-{number}" for number in itertools.count())


class Taken(NamedTuple):
    """What a broker did: how much, in how long, and its own processor's time for that."""

    amount: float
    seconds: float
    cpu_seconds: float
    client_cpu_seconds: float = 0
    """What a client in a process of its own took, its start included."""


def pipelined(broker: ServedKafkalite) -> Taken:
    """Send heartbeats without waiting."""
    rate = pump(broker.port, broker.pid, [_beat(broker.port)] * _BATCH, _SECONDS)
    return Taken(
        rate.per_second * _SECONDS, _SECONDS, rate.per_second * _SECONDS / rate.per_cpu_second
    )


def one_by_one(broker: ServedKafkalite) -> Taken:
    """Send each heartbeat when the one before is answered."""
    beat, answered = _beat(broker.port), 0
    address = ("127.0.0.1", broker.port)
    with awake(), socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begin, cpu = time.perf_counter(), cpu_seconds(broker.pid)
        while (taken := time.perf_counter() - begin) < _SECONDS:
            connection.sendall(beat)
            connection.recv(4096)
            answered += 1
        return Taken(answered, taken, cpu_seconds(broker.pid) - cpu)


@contextmanager
def awake() -> Iterator[None]:
    """Keep every processor awake, without taking anything from anybody."""
    spinning = [
        subprocess.Popen([sys.executable, "-S", "-c", _SPIN]) for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def produced_by_python(broker: ServedKafkalite, count: int = 10_000) -> Taken:
    """Produce as fast as a client in Python can; megabytes."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    producer.partitions_for("python")
    value = bytes(_SIZE)
    begin, cpu = time.perf_counter(), cpu_seconds(broker.pid)
    for _ in range(count):
        producer.send("python", value)
    producer.flush()
    taken, cpu = time.perf_counter() - begin, cpu_seconds(broker.pid) - cpu
    producer.close()
    return Taken(count * _SIZE / _MEGA, taken, cpu)


def produced_by_librdkafka(broker: ServedKafkalite, count: int = 300_000) -> Taken:
    """Produce as fast as a client in C can; megabytes, many times what the ring holds."""
    cpu, client = cpu_seconds(broker.pid), _children_cpu_seconds()
    taken = transfer.measure("produce", broker.port, "native", count, _SIZE)
    cpu, client = cpu_seconds(broker.pid) - cpu, _children_cpu_seconds() - client
    return Taken(count * _SIZE / _MEGA, taken, cpu, client)


def produced_beside_the_writer(broker: ServedKafkalite) -> Taken:
    """Produce likewise, client and broker on one processor, and the writer on another."""
    with apart(broker):
        return produced_by_librdkafka(broker)


@contextmanager
def apart(broker: ServedKafkalite) -> Iterator[None]:
    """Keep us, our children and a broker on the first processor, and the broker's own children off.

    Where there is one alone, all stay there.
    """
    whole = os.sched_getaffinity(0)
    first, *others = sorted(whole)
    threads = [int(each.name) for each in Path(f"/proc/{broker.pid}/task").iterdir()]
    for thread in (0, *threads):
        os.sched_setaffinity(thread, {first})
    for writer in children(broker.pid):
        os.sched_setaffinity(writer, others or whole)
    try:
        yield
    finally:
        for thread in (0, *threads, *children(broker.pid)):
            os.sched_setaffinity(thread, whole)


# Those that leave processors as they are come first: of the others each broker keeps its own.
MEASURES: Mapping[str, Run] = {
    "produce, kafka-python": produced_by_python,
    "produce, librdkafka": produced_by_librdkafka,
    _APART: produced_beside_the_writer,
    "heartbeats, pipelined": pipelined,
    "heartbeats, one by one": one_by_one,
}


@dataclass
class Compared:
    """One measure of both brokers; the turns of the same place are a pair."""

    without: list[Taken] = field(default_factory=list)
    recorded: list[Taken] = field(default_factory=list)
    written: float = 0
    """Processor time of the process that writes."""

    @property
    def overhead(self) -> float:
        """What part of a rate is lost by recording."""
        pairs = zip(self.without, self.recorded, strict=True)
        return 1 - statistics.median(rate(ours) / rate(plain) for plain, ours in pairs)

    @property
    def cpu_overhead(self) -> float:
        """What recording adds to the broker's own processor time."""
        return cpu(self.recorded) / cpu(self.without) - 1

    @property
    def writer(self) -> float:
        """What the writer takes, as part of what the broker takes without it."""
        return self.written / amount(self.recorded) / cpu(self.without)


def rate(taken: Taken) -> float:
    """Return the amount per second."""
    return taken.amount / taken.seconds


def amount(taken: list[Taken]) -> float:
    """Return how much was done in all turns."""
    return sum(each.amount for each in taken)


def cpu(taken: list[Taken]) -> float:
    """Return the processor time per amount."""
    return sum(each.cpu_seconds for each in taken) / amount(taken)


@dataclass
class Found:
    """All that was measured."""

    compared: dict[str, Compared] = field(
        default_factory=lambda: {name: Compared() for name in MEASURES}
    )
    copied: list[float] = field(default_factory=list)
    """Processor seconds that `dd` takes to copy a megabyte of capture."""

    def text(self) -> str:
        """Return it in Markdown."""
        lines = [
            "| a second | plain | recorded | overhead | broker's processor | writer's processor |",
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


def measure(rounds: int) -> Found:
    """Measure both brokers in turns."""
    found = Found()
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
                    _in_turns(run, plain, recorded, found.compared[name])
                    if run is produced_by_librdkafka:
                        found.copied.append(copied(captures))
            finally:
                plain.kill()
                recorded.kill()
    return found


def _in_turns(
    run: Run, plain: ServedKafkalite, recorded: ServedKafkalite, compared: Compared
) -> None:
    for number in range(_PAIRS):
        if number % 2:
            compared.without.append(run(plain))
            _record(run, recorded, compared)
        else:
            _record(run, recorded, compared)
            compared.without.append(run(plain))


def _record(run: Run, broker: ServedKafkalite, compared: Compared) -> None:
    (writer,) = children(broker.pid)
    before = cpu_seconds(writer)
    taken = run(broker)
    time.sleep(_DRAINED_S)
    # What it took for the warming up, of which the rate knows nothing, is as if it were not.
    share = 3 / 4 if run is pipelined else 1
    compared.recorded.append(taken)
    compared.written += (cpu_seconds(writer) - before) * share


def copied(captures: Path) -> float:
    """Return what the plainest program takes to copy a megabyte of a capture."""
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
    """Sum the processor time of our own processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for each in " ".join(path.read_text() for path in lists).split()]


def broken_promises(found: Found) -> list[str]:
    """Name what costs more than was promised."""
    overheads = {name: found.compared[name].overhead for name in PROMISED}
    return [
        f"{name}: recording takes {overhead:.1%}, more than {LARGEST_OVERHEAD:.0%}"
        for name, overhead in overheads.items()
        if overhead > LARGEST_OVERHEAD
    ]


def _beat(port: int) -> bytes:
    group = next(_names)
    seat = heartbeats.join(port, group)
    beat = HeartbeatRequest(group_id=group, generation_id=seat.epoch, member_id=seat.member_id)
    return frame(beat, 4)


def main() -> int:
    """Measure, print, and judge when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = measure(options.rounds)
    sys.stdout.write(found.text())
    failures = broken_promises(found) if options.check else []
    sys.stderr.writelines(f"not kept: {failure}\n" for failure in failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
