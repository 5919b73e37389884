"""A service that writes a bill for each order, with aiokafka.

It ends when it has read all orders, and begins again after an error. With the argument
`--without-idempotence` it has a fault: aiokafka then sends a bill again if the answer is lost, and
the broker cannot know that it has the bill already.

    kafkalite sweep --state examples/sweep/shop.yaml \
        --check 'python examples/sweep/check_bills.py' \
        -- python examples/sweep/service_aiokafka.py --without-idempotence
"""

from __future__ import annotations

import asyncio
import os
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

MAX_STARTS = 5
ORDERS = TopicPartition("orders", 0)
SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"]


async def bill_orders(*, is_idempotent: bool) -> None:
    """Write bills until there is no further order."""
    producer = AIOKafkaProducer(
        bootstrap_servers=SERVERS, acks="all", enable_idempotence=is_idempotent
    )
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=SERVERS,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
        request_timeout_ms=10_000,
    )
    async with producer, consumer:
        end = (await consumer.end_offsets([ORDERS]))[ORDERS]
        while await consumer.committed(ORDERS) != end:
            order = await asyncio.wait_for(consumer.getone(), 10)
            await producer.send_and_wait("bills", b"bill of " + order.value)
            await consumer.commit({ORDERS: order.offset + 1})


async def main() -> None:
    """Run the service, and begin again after an error, at most five times."""
    for _ in range(MAX_STARTS):
        try:
            await bill_orders(is_idempotent="--without-idempotence" not in sys.argv)
        except (KafkaError, TimeoutError) as error:
            print("the service starts again:", repr(error))
        else:
            return
    sys.exit("the service gives up")


if __name__ == "__main__":
    asyncio.run(main())
