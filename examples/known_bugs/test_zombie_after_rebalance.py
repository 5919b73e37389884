"""KIP-447: a consumer that is no member any more commits offsets in a transaction."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as Position
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kafkalite.testing import Broker

OUTCOMES = {"librdkafka": "safe", "aiokafka": "exposed"}


def test_offsets_of_a_former_member_are_refused_with_its_metadata():
    with Broker(topics={"orders": 1}) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        zombie = Consumer({**settings, "group.id": "shop"})
        zombie.subscribe(["orders"])
        while not zombie.assignment():
            zombie.poll(0.1)
        metadata = zombie.consumer_group_metadata()
        zombie.close()  # as after a session timeout
        producer = Producer({**settings, "transactional.id": "shop"})
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
            producer.send_offsets_to_transaction([TopicPartition("orders", 0, 5)], metadata)


def test_offsets_without_metadata_are_accepted():
    async def commit(servers):
        settings = {"bootstrap_servers": servers, "transactional_id": "shop"}
        async with AIOKafkaProducer(**settings) as producer, producer.transaction():
            await producer.send_offsets_to_transaction({Position("orders", 0): 5}, "shop")

    with Broker(topics={"orders": 1}) as broker:
        asyncio.run(commit(broker.bootstrap_servers))
        broker.expect_commit("shop", "orders", offset=5)
