"""A real client, librdkafka, for brokers in containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_S = 30.0


def produce(bootstrap: str, topic: str, values: Sequence[bytes], **settings: str | bool) -> None:
    """Write records; raises AssertionError if one is not acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(_TIMEOUT_S) == 0


def consume(bootstrap: str, topic: str, count: int, **settings: str | bool) -> list[bytes]:
    """Return the values of the first `count` records, read by a new consumer group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    try:
        consumer.subscribe([topic])
        return [message.value() or b"" for message in consumer.consume(count, _TIMEOUT_S)]
    finally:
        consumer.close()
