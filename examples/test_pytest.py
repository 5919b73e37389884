"""A broker for each test, from the fixture of the plugin or from a fixture with settings."""

import pytest
from confluent_kafka import Consumer, Producer

from kafkalite.testing import Broker


def test_record_is_consumed(kafkalite):
    producer = Producer({"bootstrap.servers": kafkalite.bootstrap_servers})
    producer.produce("orders", key=b"42", value=b"two apples")
    assert producer.flush(10) == 0

    settings = {
        "bootstrap.servers": kafkalite.bootstrap_servers,
        "group.id": "shop",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    message = consumer.poll(30)
    assert message.value() == b"two apples"
    consumer.close()


@pytest.fixture
def cluster():
    with Broker(brokers=3, topics={"orders": 6}, config={"message.max.bytes": 10_000}) as broker:
        yield broker


def test_large_record_is_rejected(cluster):
    errors = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce("orders", b"x" * 20_000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    assert [error.name() for error in errors] == ["MSG_SIZE_TOO_LARGE"]
