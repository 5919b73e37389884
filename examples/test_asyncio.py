"""aiokafka in an async test; the broker runs in a separate thread."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kafkalite.testing import Broker


async def send_and_receive():
    async with Broker(topics={"orders": 1}) as broker:
        servers = broker.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("orders", b"two apples")
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=servers, group_id="shop", auto_offset_reset="earliest"
        ) as consumer:
            return (await consumer.getone()).value


def test_record_is_consumed():
    assert asyncio.run(send_and_receive()) == b"two apples"
