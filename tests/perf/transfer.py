"""Produce and consume with librdkafka, in a separate process.

`python -m tests.perf.transfer produce|consume PORT TOPIC COUNT SIZE [CA]` prints its seconds. With
the certificate file of an authority, it connects by TLS.
"""

from __future__ import annotations

import subprocess
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

_BATCH = 1_000
_IN_FLIGHT = 50_000
_TIMEOUT_S = 180.0


def _connection(port: int, authority: str | None) -> dict[str, str | int | bool]:
    settings: dict[str, str | int | bool] = {"bootstrap.servers": f"127.0.0.1:{port}"}
    if authority is not None:
        settings |= {"security.protocol": "SSL", "ssl.ca.location": authority}
    return settings


def produce(port: int, topic: str, count: int, size: int, authority: str | None = None) -> float:
    """Produce with acks=all; returns the seconds until all records are acknowledged."""
    producer = Producer({**_connection(port, authority), "acks": "all"})
    producer.list_topics(topic, _TIMEOUT_S)  # creates the topic, and warms up the connection
    value = bytes(size)
    started = time.perf_counter()
    messages = [{"value": value}] * _BATCH
    for start in range(0, count, _BATCH):
        while len(producer) > _IN_FLIGHT:
            producer.poll(0.001)
        producer.produce_batch(topic, messages[: count - start], partition=0)
    unacknowledged = producer.flush(_TIMEOUT_S)
    elapsed_s = time.perf_counter() - started
    if unacknowledged:
        raise TimeoutError(f"{unacknowledged} records were not acknowledged")
    return elapsed_s


def consume(port: int, topic: str, count: int, size: int, authority: str | None = None) -> float:
    """Consume from the beginning; returns the seconds from the first to the last record."""
    consumer = Consumer(
        {
            **_connection(port, authority),
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
    started = time.perf_counter()
    count_read = 1
    assert len(first.value() or b"") == size, first.error()
    while count_read < count:
        messages = consumer.consume(min(10_000, count - count_read), _TIMEOUT_S)
        if not messages:
            raise TimeoutError(f"{count_read} of {count} records")
        count_read += len(messages)
    elapsed_s = time.perf_counter() - started
    consumer.close()
    return elapsed_s


def measure(
    direction: str, port: int, topic: str, count: int, size: int, *, authority: str | None = None
) -> float:
    """Run one transfer in a separate process; returns its duration in seconds."""
    command = [sys.executable, "-m", __name__, direction, str(port), topic, str(count), str(size)]
    if authority is not None:
        command.append(authority)
    completed = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return float(completed.stdout)


if __name__ == "__main__":
    _direction, _port, _topic, _count, _size, *_authority = sys.argv[1:]
    run = {"produce": produce, "consume": consume}[_direction]
    sys.stdout.write(f"{run(int(_port), _topic, int(_count), int(_size), *_authority)}\n")
