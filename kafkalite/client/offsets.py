"""Offsets of partitions: the first, the last, and those of a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.client.epochs import TopicPartition
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.client.client import KafkaClient

EARLIEST: Final = -2
LATEST: Final = -1
"""Timestamps that stand for the first offset of a partition and for the end of it."""
NO_OFFSET: Final = -1

_VERSIONS: Final = Versions(1, 7)
_CLIENT_REPLICA: Final = -1


class ListedOffset(NamedTuple):
    """An offset and the timestamp of its record, both -1 without such a record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    error: ErrorCode


async def end_offsets(
    client: KafkaClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the high watermarks of partitions; those without a leader are omitted."""
    found = await list_offsets(client, dict.fromkeys(partitions, LATEST))
    return {partition: each.offset for partition, each in found.items() if not each.error}


async def first_offsets(
    client: KafkaClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the first offsets of partitions; those without a leader are omitted."""
    found = await list_offsets(client, dict.fromkeys(partitions, EARLIEST))
    return {partition: each.offset for partition, each in found.items() if not each.error}


async def list_offsets(
    client: KafkaClient, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ListedOffset]:
    """Return the first offset of each partition whose record is not older than the timestamp.

    `EARLIEST` and `LATEST` are timestamps, too. Partitions without a leader are omitted. Raises
    UnreachableError if a leader does not answer.
    """
    if not timestamps:
        return {}
    leaders = await _leaders(client, timestamps)
    answers = await asyncio.gather(
        *(_ask(client, address, rows) for address, rows in leaders.items())
    )
    return {partition: found for answer in answers for partition, found in answer.items()}


async def _leaders(
    client: KafkaClient, timestamps: Mapping[TopicPartition, int]
) -> dict[Address, dict[TopicPartition, int]]:
    """Return the leaders of partitions, with the timestamps of their partitions."""
    metadata = await client.metadata(sorted({topic for topic, _ in timestamps}))
    addresses = {each.node_id: Address(each.host, each.port) for each in metadata.brokers}
    leaders: dict[Address, dict[TopicPartition, int]] = {}
    for topic in metadata.topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            if partition in timestamps and row.leader_id in addresses:
                of_leader = leaders.setdefault(addresses[row.leader_id], {})
                of_leader[partition] = timestamps[partition]
    return leaders


async def _ask(
    client: KafkaClient, leader: Address, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ListedOffset]:
    rows: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
    for (topic, index), timestamp in timestamps.items():
        row = ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        rows.setdefault(topic, []).append(row)
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=partitions)
        for topic, partitions in rows.items()
    ]
    request = ListOffsetsRequest(replica_id=_CLIENT_REPLICA, topics=topics)
    response = await client.ask(leader, request, _VERSIONS)
    return {
        TopicPartition(topic.name, row.partition_index): ListedOffset(
            row.offset, row.timestamp, row.leader_epoch, ErrorCode(row.error_code)
        )
        for topic in response.topics
        for row in topic.partitions
    }
