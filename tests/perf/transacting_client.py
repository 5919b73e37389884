"""Transactions of one librdkafka producer, one after another, in a separate process.

`python -m tests.perf.transacting_client PORT COUNT RUN` prints the duration in seconds.
"""

from __future__ import annotations

import subprocess
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.perf.transactions import PARTITIONS, TOPIC

_TIMEOUT_S = 60.0
_WARM_UP_COUNT = 30
_VALUE = bytes(100)


def transact(port: int, count: int, run: str) -> float:
    """Run transactions like `tests.perf.transactions`; the first few are not counted."""
    bootstrap = f"127.0.0.1:{port}"
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"client{run}",
            "linger.ms": 0,
            "enable.metrics.push": False,
        }
    )
    group = {
        "bootstrap.servers": bootstrap,
        "group.id": f"client{run}",
        "enable.metrics.push": False,
    }
    consumer = Consumer(group)
    metadata = consumer.consumer_group_metadata()
    producer.init_transactions(_TIMEOUT_S)
    started = 0.0
    for number in range(-_WARM_UP_COUNT, count):
        if number == 0:
            started = time.perf_counter()
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, _VALUE, partition=partition)
        offsets = [TopicPartition(TOPIC, 0, number + _WARM_UP_COUNT)]
        producer.send_offsets_to_transaction(offsets, metadata, _TIMEOUT_S)
        producer.commit_transaction(_TIMEOUT_S)
    elapsed_s = time.perf_counter() - started
    consumer.close()
    return elapsed_s


def measure(port: int, count: int, run: str = "") -> float:
    """Run transactions in a separate process; returns transactions per second."""
    command = [sys.executable, "-m", __name__, str(port), str(count), run]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return count / float(completed.stdout)


if __name__ == "__main__":
    _port, _count, *_run = sys.argv[1:]
    sys.stdout.write(f"{transact(int(_port), int(_count), ''.join(_run))}\n")
