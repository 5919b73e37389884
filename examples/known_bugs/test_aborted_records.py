"""Aborted records: a consumer with read_uncommitted reads them."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from kafkalite.testing import Broker

OUTCOMES = {
    "librdkafka": "safe",
    "aiokafka": "exposed by default",
    "kafka-python": "exposed by default",
}


def librdkafka(servers):
    settings = {"bootstrap.servers": servers, "group.id": "shop", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    value = consumer.poll(30).value()
    consumer.close()
    return value


def kafka_python(servers):
    settings = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
    with KafkaConsumer("orders", **settings) as consumer:
        return next(consumer).value


def aiokafka(servers):
    async def read():
        settings = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("orders", **settings) as consumer:
            return (await consumer.getone()).value

    return asyncio.run(read())


CLIENTS = {"librdkafka": librdkafka, "aiokafka": aiokafka, "kafka-python": kafka_python}


@pytest.mark.parametrize("name", OUTCOMES)
def test_only_some_clients_skip_aborted_records_by_default(name):
    with Broker(topics={"orders": 1}) as broker:
        servers = broker.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "transactional.id": "shop"})
        producer.init_transactions()
        for value, end in (
            (b"aborted", producer.abort_transaction),
            (b"committed", producer.commit_transaction),
        ):
            producer.begin_transaction()
            producer.produce("orders", value)
            producer.flush()
            end()
        first = b"committed" if OUTCOMES[name] == "safe" else b"aborted"
        assert CLIENTS[name](servers) == first
