"""Measures the time from a consumer's first group request to its first record."""

from __future__ import annotations

import subprocess
import sys
import time

from confluent_kafka import Consumer, Producer

_TIMEOUT_S = 60.0


def wait_for_first_record(port: int, topic: str, protocol: str, group: str) -> float:
    """Subscribe, and return the seconds from the join to the first record.

    librdkafka does not report when it joins, so the consumer first finds the brokers and the
    coordinator of another group. The remaining time is the group protocol and one fetch.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.list_topics(topic, _TIMEOUT_S)
    started = time.perf_counter()
    consumer.subscribe([topic])
    message = consumer.poll(_TIMEOUT_S)
    elapsed_s = time.perf_counter() - started
    assert message is not None
    assert message.error() is None, message.error()
    consumer.close()
    return elapsed_s


def fill(port: int, topic: str) -> None:
    """Produce the record that the consumer waits for."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "acks": "all"})
    producer.list_topics(topic, _TIMEOUT_S)
    producer.produce(topic, b"first", partition=0)
    assert not producer.flush(_TIMEOUT_S)


def measure(port: int, topic: str, protocol: str, group: str) -> float:
    """Wait for a first record in a separate process; returns the seconds."""
    command = [sys.executable, "-m", __name__, str(port), topic, protocol, group]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return float(completed.stdout)


if __name__ == "__main__":
    _port, _topic, _protocol, _group = sys.argv[1:]
    sys.stdout.write(f"{wait_for_first_record(int(_port), _topic, _protocol, _group)}\n")
