"""Requests to the leaders of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.client import TopicPartition
from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.partition_requests import ask_leaders, by_leader
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol.versions import Versions
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Mapping


def request_of(rows: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
    partitions = [
        DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
        for (_, index), offset in rows.items()
    ]
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name="orders", partitions=partitions)
    return DeleteRecordsRequest(topics=[topic], timeout_ms=1_000)


async def test_each_leader_gets_its_partitions() -> None:
    values = {TopicPartition("orders", index): 0 for index in (0, 1, 7)}
    with Broker(topics={"orders": 2}, brokers=2) as broker:
        async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as client:
            leaders = await by_leader(client, values)
            assert sorted(map(list, leaders.values())) == [
                [TopicPartition("orders", 0)],
                [TopicPartition("orders", 1)],
            ]
            assert len(await ask_leaders(client, values, request_of, Versions(0, 2))) == 2
            assert await ask_leaders(client, {}, request_of, Versions(0, 2)) == []
