"""The position in a deleted topic is not used for the next topic of the same name."""

import asyncio

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalite.client import (
    InvalidPartitionEpochError,
    PartitionConsumer,
    Producer,
    ProducerRecord,
    TopicPartition,
)
from kafkalite.testing import Broker

ORDERS = TopicPartition("orders", 0)


def create_again(servers):
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics(["orders"])["orders"].result()
    admin.create_topics([NewTopic("orders", 1)])["orders"].result()


async def send(servers, *values):
    async with Producer(servers) as producer:
        await producer.send_batch(ORDERS, [ProducerRecord(value) for value in values])


async def consume_across_two_topics(servers):
    await send(servers, b"two apples", b"one pear")
    async with PartitionConsumer(servers) as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 0)
        assert len(await consumer.poll()) == 2
        stored = await consumer.position(ORDERS)

        await asyncio.to_thread(create_again, servers)
        await send(servers, b"three plums", b"a melon", b"a fig")

        # A consumer without epochs would continue at offset 2, with the fig.
        with pytest.raises(InvalidPartitionEpochError) as caught:
            await consumer.poll()
        assert caught.value.partition_epochs == {ORDERS: stored.partition_epoch}

        consumer.seek(ORDERS, 0)
        return [record.value for record in await consumer.poll()]


def test_an_offset_of_a_deleted_topic_is_reported():
    config = {"kafkalite.partition.epochs": True}
    with Broker(topics={"orders": 1}, config=config) as broker:
        values = asyncio.run(consume_across_two_topics(broker.bootstrap_servers))
    assert values == [b"three plums", b"a melon", b"a fig"]
