"""Produce and consume through librdkafka, in a process of its own.

`python -m tests.perf.transfer produce|consume PORT TOPIC COUNT SIZE` prints the seconds taken.
"""

from __future__ import annotations

import subprocess
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

_BATCH = 1_000
_IN_FLIGHT = 50_000
_TIMEOUT_S = 180.0


def produce(port: int, topic: str, count: int, size: int) -> float:
    """Produce records with acks=all; the time runs from the first until all are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "acks": "all",
        }
    )
    producer.list_topics(topic, _TIMEOUT_S)  # the topic is made, the connection is warm
    value = bytes(size)
    begin = time.perf_counter()
    messages = [{"value": value}] * _BATCH
    for start in range(0, count, _BATCH):
        while len(producer) > _IN_FLIGHT:
            producer.poll(0.001)
        producer.produce_batch(topic, messages[: count - start], partition=0)
    left = producer.flush(_TIMEOUT_S)
    taken = time.perf_counter() - begin
    if left:
        raise TimeoutError(f"{left} records were not acknowledged")
    return taken


def consume(port: int, topic: str, count: int, size: int) -> float:
    """Read records from the beginning; the time runs from the first to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "perf",
            "enable.auto.commit": False,
            # With its defaults the consumer pauses for up to a second whenever a fast broker has
            # filled its queue, which would make the faster broker look slower.
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 2_000_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    (first,) = consumer.consume(1, _TIMEOUT_S)
    begin = time.perf_counter()
    seen = 1
    assert len(first.value() or b"") == size, first.error()
    while seen < count:
        messages = consumer.consume(min(10_000, count - seen), _TIMEOUT_S)
        if not messages:
            raise TimeoutError(f"{seen} of {count} records")
        seen += len(messages)
    taken = time.perf_counter() - begin
    consumer.close()
    return taken


def measure(what: str, port: int, topic: str, count: int, size: int) -> float:
    """Run one transfer in a process of its own; gives the seconds it took."""
    command = [sys.executable, "-m", __name__, what, str(port), topic, str(count), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    _what, _port, _topic, _count, _size = sys.argv[1:]
    run = {"produce": produce, "consume": consume}[_what]
    sys.stdout.write(f"{run(int(_port), _topic, int(_count), int(_size))}\n")
