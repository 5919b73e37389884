"""A lost answer: a producer without idempotence writes its record again."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from kafkalite.testing import Broker

OUTCOMES = {
    "librdkafka": "exposed by default",
    "aiokafka": "exposed by default",
    "kafka-python": "safe",
}


def librdkafka(servers, **settings):
    producer = Producer({"bootstrap.servers": servers, **settings})
    producer.produce("orders", b"apples")
    assert producer.flush(30) == 0


def kafka_python(servers, **settings):
    with KafkaProducer(bootstrap_servers=servers, **settings) as producer:
        producer.send("orders", b"apples").get(30)


def aiokafka(servers, **settings):
    async def send():
        async with AIOKafkaProducer(bootstrap_servers=servers, **settings) as producer:
            await producer.send_and_wait("orders", b"apples")

    asyncio.run(send())


CLIENTS = {
    "librdkafka": (librdkafka, {"enable.idempotence": True}),
    "aiokafka": (aiokafka, {"enable_idempotence": True}),
    "kafka-python": (kafka_python, {"enable_idempotence": True}),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_record_is_written_twice_unless_the_producer_is_idempotent(name):
    client, idempotent = CLIENTS[name]
    by_default = 1 if OUTCOMES[name] == "safe" else 2
    for settings, count in (({}, by_default), (idempotent, 1)):
        with Broker(topics={"orders": 1}) as broker:
            broker.faults.add(api="Produce", disconnect="after", nth=1)
            client(broker.bootstrap_servers, **settings)
            assert [each.value for each in broker.records("orders")] == [b"apples"] * count
            broker.faults.assert_all_fired()
