"""Small tests on one running broker: `python -m tests.perf.small_tests [NUMBER]`.

Each test has a topic and a group of its own, as the tests of an application have: it creates the
topic, writes ten records, and reads and commits them in the group, with librdkafka. The CPU time
of the broker's process is what a test costs in addition to the time of its client. kfake and a
real Kafka run the same tests; a broker that cannot be started is left out.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.oracle.requirements import UnavailableError
from tests.perf.competitors import broker_factories, start

RECORDS = 10
WARM_UP = 20
TIMEOUT_S = 30.0


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def small_test(servers: str, admin: AdminClient, name: str) -> None:
    """Create a topic, write records, and read and commit them in a group."""
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(TIMEOUT_S)
    common: dict[str, str | int | float | bool] = {
        "bootstrap.servers": servers,
        "enable.metrics.push": False,
    }
    producer = Producer({**common, "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce(name, f"{number}")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(
        {
            **common,
            "group.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([name])
    found = consumer.consume(RECORDS, TIMEOUT_S)
    assert [each.value() for each in found] == [f"{each}".encode() for each in range(RECORDS)]
    consumer.commit(asynchronous=False)
    consumer.close()


def run(servers: str, pid: int, count: int) -> tuple[float, float]:
    """Return the median duration of a test, and the broker's CPU time for one, in milliseconds."""
    admin = AdminClient({"bootstrap.servers": servers})
    for number in range(WARM_UP):
        small_test(servers, admin, f"first-{number}")
    before, durations = cpu_seconds(pid), []
    for number in range(count):
        started = time.perf_counter()
        small_test(servers, admin, f"test-{number}")
        durations.append(time.perf_counter() - started)
    return statistics.median(durations) * 1000, (cpu_seconds(pid) - before) / count * 1000


def main() -> None:
    """Print one line for each broker."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{'broker':<12}{'test_ms':>10}{'broker_cpu_ms':>15}")  # noqa: T201
    with tempfile.TemporaryDirectory() as directory:
        for name, factory in broker_factories(Path(directory)).items():
            try:
                broker = factory()
                start(broker)
            except UnavailableError as error:
                print(f"{name:<12} left out: {error}")  # noqa: T201
                continue
            try:
                duration_ms, cpu_ms = run(f"127.0.0.1:{broker.port}", broker.pid, count)
            finally:
                broker.kill()
            print(f"{name:<12}{duration_ms:>10.1f}{cpu_ms:>15.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
