"""A committed transaction, an aborted one, and a fenced producer."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from kafkalite.testing import Broker


def new_producer(broker):
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "shop"}
    producer = Producer(settings)
    producer.init_transactions(30)
    return producer


def test_aborted_records_are_invisible():
    with Broker(topics={"orders": 1}) as broker:
        producer = new_producer(broker)
        producer.begin_transaction()
        producer.produce("orders", b"aborted")
        producer.flush(10)
        producer.abort_transaction(30)
        producer.begin_transaction()
        producer.produce("orders", b"committed")
        producer.commit_transaction(30)

        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "audit",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        assert consumer.poll(30).value() == b"committed"
        consumer.close()


def test_second_producer_fences_the_first():
    with Broker(topics={"orders": 1}) as broker:
        zombie = new_producer(broker)
        zombie.begin_transaction()
        zombie.produce("orders", b"two apples")
        zombie.flush(10)
        new_producer(broker)
        with pytest.raises(KafkaException):
            zombie.commit_transaction(30)
        assert "fenced" in [entry.kind for entry in broker.explain(transactional_id="shop")]
