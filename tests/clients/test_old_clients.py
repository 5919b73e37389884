"""Clients before Kafka 0.11: librdkafka, as for brokers of these releases, at a broker of 3.9."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.endurance

COUNT = 30
TIMEOUT_S = 30


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(as_version="3.9") as broker:
        yield broker


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize(
    ("release", "first_timestamp"), [("0.8.2", 0), ("0.9.0", 0), ("0.10.0", 5)]
)
def test_messages_are_read_as_they_were_produced(
    broker: Broker, release: str, first_timestamp: int, codec: str
) -> None:
    topic = f"{release}-{codec}"
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "api.version.request": False,
        "broker.version.fallback": release,
    }
    producer = Producer({**settings, "compression.codec": codec, "linger.ms": 20})
    for index in range(COUNT):
        producer.produce(topic, b"%d" % index * 20, b"key", partition=0, timestamp=5 + index)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = [
        (each.offset(), each.value(), each.timestamp()[1])
        for each in consumer.consume(COUNT, TIMEOUT_S)
    ]
    step = 1 if first_timestamp else 0
    assert read == [
        (index, b"%d" % index * 20, first_timestamp + index * step) for index in range(COUNT)
    ]
    if release != "0.8.2":  # librdkafka has no coordinator then
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
        assert committed.offset == COUNT
    consumer.close()
