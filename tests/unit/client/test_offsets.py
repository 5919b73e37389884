"""Offsets of partitions, at their leaders."""

from __future__ import annotations

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.offsets import NO_OFFSET, end_offsets, first_offsets, list_offsets
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker


async def test_offsets_of_each_leader_are_found() -> None:
    with Broker(brokers=2, topics={"orders": 2}) as broker:
        for partition in (0, 1, 1):
            broker.produce("orders", "value", partition=partition, timestamp=1_000)
        broker.produce("orders", "value", partition=1, timestamp=2_000)
        first, second = (TopicPartition("orders", index) for index in (0, 1))
        unknown = TopicPartition("orders", 2)
        async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as client:
            assert await end_offsets(client, [first, second, unknown]) == {first: 1, second: 3}
            assert await first_offsets(client, [second]) == {second: 0}
            found = await list_offsets(client, {first: 1_500, second: 1_500})
            assert await list_offsets(client, {}) == {}
    assert (found[first].offset, found[first].error) == (NO_OFFSET, ErrorCode.NONE)
    assert (found[second].offset, found[second].timestamp_ms) == (2, 2_000)
