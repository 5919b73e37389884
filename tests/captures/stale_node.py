"""Records clients of a cluster with partition epochs, one of whose nodes keeps old metadata.

The topic `orders` is deleted and created again, and the leader of `places` moves. The frozen node
learns of neither.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.client import (
    FetchLimits,
    InvalidPartitionEpochError,
    PartitionConsumer,
    Producer,
    ProducerRecord,
    TopicPartition,
)
from kafkalite.client.client import KafkaClient
from kafkalite.client.cluster_metadata import ClusterMetadata, PartitionMetadata
from kafkalite.client.fetches import FETCH_VERSIONS, FetchedPosition, fetch_request
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.client import OffsetAndEpochs

ORDERS, PLACES = TopicPartition("orders", 0), TopicPartition("places", 0)
GROUP = "shop"
LIVE, FROZEN = 1, 3
"""Nodes: one that knows every change, and one whose metadata is frozen."""

_CONFIG = {
    "default.replication.factor": 3,
    # The frozen node does not follow, so it must not have replicas of what is written.
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "kafkalite.partition.epochs": True,
}
_LIMITS = FetchLimits(max_wait_ms=1)
_TIMEOUT_MS = 10_000


class Recorded(NamedTuple):
    """What the capture contains: metadata of both nodes, and positions of both incarnations."""

    live: ClusterMetadata
    stale: ClusterMetadata
    old: OffsetAndEpochs
    new: OffsetAndEpochs


def record_stale_node(directory: Path) -> Recorded:
    """Record the traffic to files in a directory, and return what it contains."""
    topics = {ORDERS.topic: 1, PLACES.topic: 1}
    with Broker(3, topics, _CONFIG, clock="manual", capture=str(directory)) as broker:
        for topic in topics:
            broker.move_leader(topic, 0, LIVE)
        return asyncio.run(_Session(broker).run())


class _Session:
    """The requests, one after the other."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._servers = broker.nodes[LIVE].bootstrap_servers
        self._addresses = {
            node: Address.parse(broker.nodes[node].bootstrap_servers) for node in (LIVE, FROZEN)
        }

    async def run(self) -> Recorded:
        await self._produce(b"1", b"2")
        old = await self._read(2)
        await self._metadata(LIVE, ORDERS, PLACES)
        self._broker.nodes[FROZEN].freeze_metadata()
        await self._recreate()
        live = await self._metadata(LIVE, ORDERS, PLACES)
        assert not live.is_outdated(await self._metadata(LIVE, PLACES))
        await self._metadata(FROZEN, PLACES)
        self._broker.move_leader(PLACES.topic, 0, 2)
        live = await self._metadata(LIVE, ORDERS, PLACES)
        stale = await self._metadata(FROZEN, ORDERS, PLACES)
        assert stale.is_outdated(live)
        await self._produce(b"3")
        new = await self._read(1)
        await self._fetch(old, live.partitions[ORDERS])
        await self._commit(old)
        return Recorded(live, stale, old, new)

    def _consumer(self) -> PartitionConsumer:
        return PartitionConsumer(
            self._servers, group_id=GROUP, auto_offset_reset="earliest", limits=_LIMITS
        )

    async def _produce(self, *values: bytes) -> None:
        async with Producer(self._servers) as producer:
            await producer.send_batch(ORDERS, [ProducerRecord(value) for value in values])

    async def _read(self, count: int) -> OffsetAndEpochs:
        """Read the records after the committed offset, and commit the position after them."""
        async with self._consumer() as consumer:
            consumer.assign([ORDERS])
            while count > 0:
                count -= len(await consumer.poll(_TIMEOUT_MS))
            await consumer.commit()
            return await consumer.position(ORDERS)

    async def _commit(self, position: OffsetAndEpochs) -> None:
        """Commit a position of the deleted topic, which is refused."""
        self._broker.clock.advance(seconds=1)
        async with self._consumer() as consumer:
            try:
                await consumer.commit({ORDERS: position})
            except InvalidPartitionEpochError:
                return
        raise AssertionError("the commit was accepted")

    async def _fetch(self, position: OffsetAndEpochs, known: PartitionMetadata) -> None:
        """Fetch with a partition epoch of the deleted topic, which is refused."""
        fetched = {ORDERS: FetchedPosition(position, known)}
        request = fetch_request(fetched, _LIMITS, 1)
        request.topics[0].partitions[0].incarnation_epoch = position.partition_epoch
        response = await self._ask(LIVE, request, FETCH_VERSIONS)
        (row,) = response.responses[0].partitions
        assert row.error_code == ErrorCode.INVALID_PARTITION_EPOCH

    async def _metadata(self, node: int, *partitions: TopicPartition) -> ClusterMetadata:
        self._broker.clock.advance(seconds=1)
        async with KafkaClient([self._addresses[node]]) as client:
            names = [topic for topic, _ in partitions]
            return ClusterMetadata.parse(await client.metadata(names))

    async def _recreate(self) -> None:
        row = DeleteTopicsRequest.DeleteTopicState(name=ORDERS.topic)
        delete = DeleteTopicsRequest(topics=[row], timeout_ms=_TIMEOUT_MS)
        await self._ask(LIVE, delete, Versions(6, 6))
        assignment = CreateTopicsRequest.CreatableReplicaAssignment(
            partition_index=0, broker_ids=[LIVE, 2]
        )
        topic = CreateTopicsRequest.CreatableTopic(
            name=ORDERS.topic, num_partitions=-1, replication_factor=-1, assignments=[assignment]
        )
        create = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        assert (await self._ask(LIVE, create, Versions(7, 7))).topics[0].error_code == 0

    async def _ask(self, node: int, request: Any, versions: Versions) -> Any:  # noqa: ANN401 - any request and its response
        self._broker.clock.advance(seconds=1)
        async with KafkaClient([self._addresses[node]]) as client:
            return await client.ask(self._addresses[node], request, versions)
