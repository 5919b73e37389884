"""Requests to the leaders of partitions, each with the partitions of that leader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.client.epochs import TopicPartition
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.client.client import KafkaClient
    from kafkalite.protocol.message import Message
    from kafkalite.protocol.versions import Versions

Value = TypeVar("Value")


async def by_leader(
    client: KafkaClient, values: Mapping[TopicPartition, Value]
) -> dict[Address, dict[TopicPartition, Value]]:
    """Return the leaders of partitions, each with its partitions; those without one are omitted."""
    metadata = await client.metadata(sorted({topic for topic, _ in values}))
    addresses = {each.node_id: Address(each.host, each.port) for each in metadata.brokers}
    leaders: dict[Address, dict[TopicPartition, Value]] = {}
    for topic in metadata.topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            if partition in values and row.leader_id in addresses:
                of_leader = leaders.setdefault(addresses[row.leader_id], {})
                of_leader[partition] = values[partition]
    return leaders


async def ask_leaders(
    client: KafkaClient,
    values: Mapping[TopicPartition, Value],
    request_of: Callable[[Mapping[TopicPartition, Value]], Message],
    versions: Versions,
) -> list[Any]:
    """Return the responses of the leaders of partitions to the requests with their partitions.

    Raises UnreachableError if a leader does not answer.
    """
    if not values:
        return []
    leaders = await by_leader(client, values)
    return list(
        await asyncio.gather(
            *(client.ask(address, request_of(rows), versions) for address, rows in leaders.items())
        )
    )
