"""What recording costs a broker: `python -m tests.perf.capture_overhead [--rounds N] [--check]`.

Two brokers, of which one records, are measured in turns, and the best rates of each are compared.
Heartbeats are pipelined in one connection, which is the most that a broker is ever asked, and asked
one by one; records are produced by kafka-python and by librdkafka, as fast as each can. Beside
every rate stands how much more processor time an answer, or a megabyte, costs the broker, and how
much the process that writes the capture takes, both as parts of what it costs the broker alone:
where processors are few or busy, the writer takes its time from somebody.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import sys
import tempfile
import time
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
    from collections.abc import Callable, Mapping, Sequence

    Run = Callable[[ServedKafkalite], "Taken"]

LARGEST_OVERHEAD = 0.10
"""What recording may take of a rate that is promised."""

PROMISED = ("heartbeats, pipelined", "heartbeats, one by one", "produce, kafka-python")

_SECONDS = 2.0
_ASKED = 10_000
_BATCH = 500
_SIZE = 1000
_MEGA = 1_000_000
_DRAINED_S = 0.5
_MEMORY = "/dev/shm"  # noqa: S108 - a directory of our own is made in it
_names = (f"group-{number}" for number in itertools.count())


class Taken(NamedTuple):
    """What a broker did: how much, in how long, and its own processor's time for that."""

    amount: float
    seconds: float
    cpu_seconds: float


def pipelined(broker: ServedKafkalite) -> Taken:
    """Send heartbeats without waiting."""
    rate = pump(broker.port, broker.pid, [_beat(broker.port)] * _BATCH, _SECONDS)
    return Taken(rate.per_second, 1, rate.per_second / rate.per_cpu_second)


def one_by_one(broker: ServedKafkalite) -> Taken:
    """Send each heartbeat when the one before is answered."""
    beat = _beat(broker.port)
    with socket.create_connection(("127.0.0.1", broker.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begin, cpu = time.perf_counter(), cpu_seconds(broker.pid)
        for _ in range(_ASKED):
            connection.sendall(beat)
            connection.recv(4096)
        return Taken(_ASKED, time.perf_counter() - begin, cpu_seconds(broker.pid) - cpu)


def produced_by_python(broker: ServedKafkalite, count: int = 20_000) -> Taken:
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


def produced_by_librdkafka(broker: ServedKafkalite, count: int = 200_000) -> Taken:
    """Produce as fast as a client in C can; megabytes."""
    cpu = cpu_seconds(broker.pid)
    taken = transfer.measure("produce", broker.port, "native", count, _SIZE)
    return Taken(count * _SIZE / _MEGA, taken, cpu_seconds(broker.pid) - cpu)


MEASURES: Mapping[str, Run] = {
    "heartbeats, pipelined": pipelined,
    "heartbeats, one by one": one_by_one,
    "produce, kafka-python": produced_by_python,
    "produce, librdkafka": produced_by_librdkafka,
}


@dataclass
class Compared:
    """One measure of both brokers."""

    without: list[Taken] = field(default_factory=list)
    recorded: list[Taken] = field(default_factory=list)
    written: list[float] = field(default_factory=list)
    """Processor time of the process that writes, per amount."""

    @property
    def overhead(self) -> float:
        """What part of the best rate is lost by recording."""
        return 1 - best_rate(self.recorded) / best_rate(self.without)

    @property
    def cpu_overhead(self) -> float:
        """What recording adds to the broker's own processor time."""
        return least_cpu(self.recorded) / least_cpu(self.without) - 1

    @property
    def writer(self) -> float:
        """What the writer takes, as part of what the broker takes without it."""
        return min(self.written) / least_cpu(self.without)


def best_rate(taken: Sequence[Taken]) -> float:
    """Return the best amount per second."""
    return max(each.amount / each.seconds for each in taken)


def least_cpu(taken: Sequence[Taken]) -> float:
    """Return the least processor time per amount."""
    return min(each.cpu_seconds / each.amount for each in taken)


def measure(rounds: int) -> dict[str, Compared]:
    """Measure both brokers in turns."""
    found = {name: Compared() for name in MEASURES}
    for number in range(rounds):
        with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as text:
            directory = Path(text)
            plain = ServedKafkalite(directory / "plain")
            recorded = ServedKafkalite(
                directory / "recorded", options=("--capture", str(directory / "captures"))
            )
            try:
                start(plain)
                start(recorded)
                for name, run in MEASURES.items():
                    turns = (_of_plain, _of_recorded)
                    for turn in turns if number % 2 else reversed(turns):
                        turn(run, plain if turn is _of_plain else recorded, found[name])
            finally:
                plain.kill()
                recorded.kill()
    return found


def _of_plain(run: Run, broker: ServedKafkalite, compared: Compared) -> None:
    compared.without.append(run(broker))


def _of_recorded(run: Run, broker: ServedKafkalite, compared: Compared) -> None:
    (writer,) = children(broker.pid)
    before = cpu_seconds(writer)
    taken = run(broker)
    time.sleep(_DRAINED_S)
    amount = taken.amount
    if run is pipelined:
        # Its rate is per second; the writer had all that came, warming up included.
        amount *= _SECONDS * 4 / 3
    compared.recorded.append(taken)
    compared.written.append((cpu_seconds(writer) - before) / amount)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for each in " ".join(path.read_text() for path in lists).split()]


def table(found: Mapping[str, Compared]) -> str:
    """Return what was measured, in Markdown."""
    lines = [
        "| a second | plain | recorded | overhead | broker's processor | writer's processor |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {best_rate(each.without):,.0f} | {best_rate(each.recorded):,.0f} | "
        f"{each.overhead:.1%} | {each.cpu_overhead:+.1%} | {each.writer:+.1%} |"
        for name, each in found.items()
    ]
    return "\n".join(lines) + "\n"


def broken_promises(found: Mapping[str, Compared]) -> list[str]:
    """Name what costs more than was promised."""
    return [
        f"{name}: recording takes {found[name].overhead:.1%}, more than {LARGEST_OVERHEAD:.0%}"
        for name in PROMISED
        if found[name].overhead > LARGEST_OVERHEAD
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
    sys.stdout.write(table(found))
    failures = broken_promises(found) if options.check else []
    sys.stderr.writelines(f"not kept: {failure}\n" for failure in failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
