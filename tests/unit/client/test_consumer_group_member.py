"""Members of consumer groups."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kafkalite.client import TopicPartition
from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.consumer_group_member import ConsumerGroupMember
from kafkalite.client.group_offsets import NO_MEMBERSHIP
from kafkalite.client.groups import describe_group
from kafkalite.ports.clock import AdjustableClock
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONFIG = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "1",
    "group.consumer.min.heartbeat.interval.ms": "1",
}


@asynccontextmanager
async def member(broker: Broker) -> AsyncIterator[ConsumerGroupMember]:
    async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as client:
        yield ConsumerGroupMember(client, "readers", ["orders"], AdjustableClock())


async def test_partitions_are_divided_among_members() -> None:
    both = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    with Broker(topics={"orders": 2}, config=CONFIG) as broker:
        async with member(broker) as first, member(broker) as second:
            assert await first.join() == both
            assert first.membership.generation > 0
            assigned = await second.join()
            while await first.keep():
                pass
            remaining = await first.join()
            while not assigned:
                while await second.keep():
                    pass
                assigned = await second.join()
            assert sorted([*remaining, *assigned]) == both
            await second.leave()
            await second.leave()
            assert second.membership == NO_MEMBERSHIP
            async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as client:
                group = await describe_group(client, "readers")
            assert (group.type, len(group.members)) == ("consumer", 1)


async def test_a_member_that_was_removed_joins_again() -> None:
    with Broker(topics={"orders": 1}, config=CONFIG) as broker:
        async with member(broker) as first:
            await first.join()
            epoch = first.membership.generation
            first._epoch = epoch + 5
            while await first.keep():
                pass
            assert await first.join() == [TopicPartition("orders", 0)]
