"""Clients with stale metadata: the bug that motivates KIP-232 (KAFKA-6262), and its prevention.

A consumer that ignores epochs asks a former leader, takes OFFSET_OUT_OF_RANGE literally and reads
the whole log again. A consumer that uses epochs continues, or reports that its offset is invalid.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.client import (
    Backoff,
    FetchLimits,
    InvalidPartitionEpochError,
    LogTruncationError,
    OffsetAndEpochs,
    OffsetOutOfRangeError,
    PartitionConsumer,
    Producer,
    ProducerRecord,
    TopicPartition,
)
from kafkalite.client.client import KafkaClient
from kafkalite.client.cluster_metadata import ClusterMetadata, PartitionMetadata
from kafkalite.client.fetches import (
    FETCH_VERSIONS,
    FetchedPosition,
    fetch_answers,
    fetch_request,
)
from kafkalite.client.records import decode_batches
from kafkalite.control.commands.nodes import ChangeNode
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from kafkalite.client.consumer import OffsetReset
    from kafkalite.metadata.controller import MetadataController

ORDERS = TopicPartition("orders", 0)
CONFIG = {
    "default.replication.factor": 3,
    "min.insync.replicas": 1,
    "offsets.topic.replication.factor": 3,
    "kafkalite.partition.epochs": True,
}
BACKOFF = Backoff(1, 10)
TIMEOUT_MS = 10_000
LIMITS = FetchLimits(max_wait_ms=1)


class Cluster:
    """Three nodes with the topic `orders`, one partition on all nodes."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        servers = broker.bootstrap_servers.split(",")
        self.addresses = dict(enumerate(servers, start=1))

    @property
    def servers(self) -> str:
        return self.broker.bootstrap_servers

    def _run(self, work: Any) -> Any:  # noqa: ANN401 - any command's result
        return self.broker._run_on_loop(work)

    def node(self, command: ChangeNode) -> None:
        self.broker._perform(command)

    def isolate(self, node_id: int) -> None:
        """Isolate a node until the controller elects other leaders."""
        self.node(ChangeNode(node_id, "isolated"))
        self.broker.clock.advance(seconds=10)

    def remove_lagging_replicas(self) -> None:
        """Let time pass until lagging replicas have left the ISR."""
        for _ in range(3):
            self.broker.clock.advance(seconds=30)

    def leader(self) -> int:
        async def find() -> int:
            return self._metadata.image.topics["orders"].partitions[0].leader

        leader: int = self._run(find())
        return leader

    @property
    def _metadata(self) -> MetadataController:
        cluster = self.broker._running_broker().cluster
        assert cluster is not None
        return cluster.metadata

    def move_leader(self, node_id: int, *, unclean: bool = False) -> None:
        async def move() -> None:
            self._metadata.move_leader("orders", 0, node_id, is_unclean=unclean)

        self._run(move())

    def consumer(
        self, servers: str | None = None, reset: OffsetReset = "earliest", group: str = "shop"
    ) -> PartitionConsumer:
        return PartitionConsumer(
            servers or self.servers,
            group_id=group,
            auto_offset_reset=reset,
            limits=LIMITS,
            backoff=BACKOFF,
        )

    async def produce(self, *values: bytes) -> None:
        # A former leader accepts records, and loses them later.
        async with Producer(self.addresses[self.leader()], backoff=BACKOFF) as producer:
            await producer.send_batch(ORDERS, [ProducerRecord(value) for value in values])

    async def delete(self) -> None:
        async with KafkaClient([Address.parse(self.addresses[self.leader()])]) as client:
            row = DeleteTopicsRequest.DeleteTopicState(name="orders")
            deleted = await client.ask_any(
                DeleteTopicsRequest(topics=[row], timeout_ms=TIMEOUT_MS), Versions(6, 6)
            )
            assert deleted.responses[0].error_code == ErrorCode.NONE

    async def create_again(self) -> None:
        """Delete the topic, and create it again."""
        await self.delete()
        async with KafkaClient([Address.parse(each) for each in self.addresses.values()]) as client:
            topic = CreateTopicsRequest.CreatableTopic(
                name="orders", num_partitions=1, replication_factor=3
            )
            created = await client.ask_any(
                CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), Versions(7, 7)
            )
            assert created.topics[0].error_code == ErrorCode.NONE

    async def leave_a_former_leader(self) -> int:
        """Isolate the leader, let another node lead, and append records there.

        The former leader has three records and its old metadata. The log has five records.
        """
        former = self.leader()
        async with self.consumer() as consumer:  # creates the topic of committed offsets
            assert await consumer.committed([ORDERS]) == {}
        await self.produce(b"1", b"2", b"3")
        self.isolate(former)
        assert self.leader() != former
        await self.produce(b"4", b"5")
        return former


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Broker(3, {"orders": 1}, CONFIG, clock="manual") as broker:
        yield Cluster(broker)


class NaiveConsumer:
    """A consumer that ignores epochs, and resets an offset out of range to the earliest.

    It reads the metadata from one broker, as a client does whose least loaded broker is that one.
    """

    def __init__(self, server: str, offset: int) -> None:
        self._address = Address.parse(server)
        self.position = OffsetAndEpochs(offset)
        self.resets = 0

    async def poll(self) -> list[bytes | None]:
        async with KafkaClient([self._address]) as client:
            response = await client.metadata(["orders"], client_versions=Versions(9, 12))
            metadata = ClusterMetadata.parse(response)
            known = metadata.partitions[ORDERS]
            used = PartitionMetadata(known.leader, topic_id=known.topic_id)
            fetched = {ORDERS: FetchedPosition(self.position, used)}
            fetch = await client.ask(
                metadata.brokers[known.leader], fetch_request(fetched, LIMITS, 1), FETCH_VERSIONS
            )
            ((_, answer),) = fetch_answers(fetch, fetched)
        if answer.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.position = OffsetAndEpochs(0)
            self.resets += 1
            return []
        assert answer.code is ErrorCode.NONE
        records, position = decode_batches(ORDERS, answer.records, self.position, -1)
        self.position = OffsetAndEpochs(position.offset)
        return [record.value for record in records]


async def read(consumer: PartitionConsumer, count: int) -> list[bytes | None]:
    """Return the values of the next records."""
    values: list[bytes | None] = []
    while len(values) < count:
        records = await consumer.poll(TIMEOUT_MS)
        assert records
        values += [record.value for record in records]
    return values


@asynccontextmanager
async def consumer_of_the_leader(
    cluster: Cluster, *other_nodes: int
) -> AsyncIterator[PartitionConsumer]:
    """Yield a consumer that has found the present leader and has read all records there."""
    servers = [cluster.addresses[node] for node in (cluster.leader(), *other_nodes)]
    async with cluster.consumer(",".join(servers)) as consumer:
        consumer.assign([ORDERS])
        assert await read(consumer, 5) == [b"1", b"2", b"3", b"4", b"5"]
        yield consumer


# --- KAFKA-6262: a former leader with a shorter log ---------------------------------------------


async def test_a_consumer_without_epochs_reads_the_whole_log_again(cluster: Cluster) -> None:
    former = await cluster.leave_a_former_leader()
    consumer = NaiveConsumer(cluster.addresses[former], 5)
    assert await consumer.poll() == []
    assert consumer.resets == 1
    assert await consumer.poll() == [b"1", b"2", b"3"]


async def test_a_consumer_with_stored_epochs_rejects_the_metadata_of_a_former_leader(
    cluster: Cluster,
) -> None:
    former = await cluster.leave_a_former_leader()
    async with consumer_of_the_leader(cluster) as consumer:
        stored = await consumer.position(ORDERS)
        assert (stored.offset, stored.leader_epoch) == (5, 1)
    async with cluster.consumer(cluster.addresses[former]) as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, stored.offset, stored.offset_epoch)
        await cluster.produce(b"6")
        assert await read(consumer, 1) == [b"6"]
        assert consumer.metadata.outdated_responses == 1


async def test_a_consumer_with_committed_epochs_rejects_the_metadata_of_a_former_leader(
    cluster: Cluster,
) -> None:
    former = await cluster.leave_a_former_leader()
    async with consumer_of_the_leader(cluster) as consumer:
        await consumer.commit()
        committed = (await consumer.committed([ORDERS]))[ORDERS]
        assert (committed.offset, committed.leader_epoch) == (5, 1)
    servers = ",".join([cluster.addresses[former], cluster.servers])
    async with cluster.consumer(servers) as consumer:
        consumer.assign([ORDERS])
        assert await consumer.poll(100) == []
        assert (await consumer.position(ORDERS)).offset == 5
        await cluster.produce(b"6")
        assert await read(consumer, 1) == [b"6"]
        assert consumer.metadata.outdated_responses == 1


async def test_a_running_consumer_never_replaces_its_metadata_by_that_of_a_former_leader(
    cluster: Cluster,
) -> None:
    former = await cluster.leave_a_former_leader()
    async with consumer_of_the_leader(cluster, former) as consumer:
        now_ms = consumer._clock.now_ms()
        for _ in range(6):  # each refresh begins with another broker
            assert await consumer.metadata.refresh(now_ms + TIMEOUT_MS)
            known = consumer.metadata.partition(ORDERS)
            assert known is not None
            assert (known.leader, known.leader_epoch) == (cluster.leader(), 1)
        assert consumer.metadata.outdated_responses >= 1
        await cluster.produce(b"6")
        assert await read(consumer, 1) == [b"6"]


async def test_an_offset_without_epochs_is_not_reset_if_another_broker_knows_a_newer_leader(
    cluster: Cluster,
) -> None:
    former = await cluster.leave_a_former_leader()
    async with cluster.consumer(cluster.addresses[former]) as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 5)
        await cluster.produce(b"6")
        assert await read(consumer, 1) == [b"6"]


async def test_a_producer_leaves_a_leader_that_was_stopped(cluster: Cluster) -> None:
    async with Producer(cluster.servers, backoff=BACKOFF) as producer:
        assert (await producer.send(ORDERS, b"1")).first_offset == 0
        stopped = cluster.leader()
        cluster.node(ChangeNode(stopped, "stopped"))
        assert (await producer.send(ORDERS, b"2")).first_offset == 1
        known = producer.metadata.partition(ORDERS)
        assert known is not None
        assert known.leader == cluster.leader() != stopped


async def test_a_producer_rejects_frozen_metadata(cluster: Cluster) -> None:
    async with Producer(cluster.servers, acks=1, backoff=BACKOFF) as producer:
        await producer.send(ORDERS, b"1")
        former = cluster.leader()
        others = [node for node in cluster.addresses if node != former]
        frozen, leader = others
        cluster.node(ChangeNode(frozen, metadata="frozen"))
        cluster.move_leader(leader)
        assert (await producer.send(ORDERS, b"2")).first_offset == 1
        now_ms = producer._clock.now_ms()
        for _ in range(3):
            assert await producer.metadata.refresh(now_ms + TIMEOUT_MS)
        assert producer.metadata.outdated_responses >= 1
        assert producer.metadata.leader_address(ORDERS) == Address.parse(cluster.addresses[leader])


async def test_a_consumer_continues_at_the_end_of_the_log_after_an_election(
    cluster: Cluster,
) -> None:
    """The leader epoch of the position has no records yet."""
    await cluster.produce(b"1")
    cluster.move_leader(cluster.leader() % 3 + 1)
    async with cluster.consumer(reset="latest") as consumer:
        consumer.assign([ORDERS])
        position = await consumer.position(ORDERS)
        assert (position.offset, position.leader_epoch) == (1, 1)
        assert await consumer.poll(0) == []
        await cluster.produce(b"2")
        assert await read(consumer, 1) == [b"2"]


async def test_a_stopped_leader_interrupts_a_consumer_only_until_the_next_is_known(
    cluster: Cluster,
) -> None:
    await cluster.produce(b"1", b"2")
    async with cluster.consumer() as consumer:
        consumer.assign([ORDERS])
        await read(consumer, 2)
        cluster.node(ChangeNode(cluster.leader(), "stopped"))
        await cluster.produce(b"3")
        assert await read(consumer, 1) == [b"3"]
        assert (await consumer.position(ORDERS)).leader_epoch == 1


# --- a truncated log -----------------------------------------------------------------------------


async def test_an_unclean_election_is_reported_as_a_truncation(cluster: Cluster) -> None:
    leader = cluster.leader()
    lagging = leader % 3 + 1
    await cluster.produce(b"1", b"2", b"3")
    cluster.node(ChangeNode(lagging, replication="paused"))
    async with Producer(cluster.servers, acks=1, backoff=BACKOFF) as producer:
        await producer.send_batch(ORDERS, [ProducerRecord(b"4"), ProducerRecord(b"5")])
    cluster.remove_lagging_replicas()
    async with cluster.consumer(reset="earliest") as consumer:
        consumer.assign([ORDERS])
        assert len(await read(consumer, 5)) == 5
        cluster.move_leader(lagging, unclean=True)
        with pytest.raises(LogTruncationError) as caught:
            await consumer.poll(TIMEOUT_MS)
        divergent = caught.value.divergent_offsets[ORDERS]
        assert divergent is not None
        assert (divergent.offset, divergent.leader_epoch) == (3, 0)
        assert (await consumer.position(ORDERS)).offset == 5
        consumer.seek(ORDERS, divergent.offset, divergent.offset_epoch)
        await cluster.produce(b"again 4")
        assert await read(consumer, 1) == [b"again 4"]


async def test_deleted_records_are_neither_a_truncation_nor_a_new_topic(cluster: Cluster) -> None:
    await cluster.produce(b"1", b"2")
    async with cluster.consumer(reset="none") as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 7)
        with pytest.raises(OffsetOutOfRangeError, match="orders-0 7"):
            await consumer.poll(TIMEOUT_MS)
    async with cluster.consumer(reset="earliest") as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 7)
        assert await read(consumer, 2) == [b"1", b"2"]


# --- a topic that is created again ---------------------------------------------------------------


async def test_an_offset_of_a_deleted_topic_is_invalid_in_the_new_topic(cluster: Cluster) -> None:
    await cluster.produce(b"1", b"2")
    async with cluster.consumer() as consumer:
        consumer.assign([ORDERS])
        await read(consumer, 2)
        stored = await consumer.position(ORDERS)
        await cluster.create_again()
        await cluster.produce(b"other 1", b"other 2", b"other 3")
        with pytest.raises(InvalidPartitionEpochError) as caught:
            await consumer.poll(TIMEOUT_MS)
        assert caught.value.partition_epochs == {ORDERS: stored.partition_epoch}
    async with cluster.consumer() as consumer:
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, stored.offset, stored.offset_epoch)
        with pytest.raises(InvalidPartitionEpochError):
            await consumer.poll(TIMEOUT_MS)
        consumer.seek(ORDERS, 0)
        assert await read(consumer, 3) == [b"other 1", b"other 2", b"other 3"]
        assert (await consumer.position(ORDERS)).partition_epoch > stored.partition_epoch


async def test_an_offset_beyond_the_end_of_a_new_topic_is_invalid_and_not_reset(
    cluster: Cluster,
) -> None:
    await cluster.produce(b"1", b"2")
    async with cluster.consumer() as consumer:
        consumer.assign([ORDERS])
        await read(consumer, 2)
        await cluster.create_again()
        with pytest.raises(InvalidPartitionEpochError):
            await consumer.poll(TIMEOUT_MS)


async def test_an_offset_of_a_deleted_topic_does_not_replace_one_of_the_new_topic(
    cluster: Cluster,
) -> None:
    await cluster.produce(b"1", b"2")
    async with cluster.consumer() as former, cluster.consumer() as consumer:
        former.assign([ORDERS])
        await read(former, 2)
        await cluster.create_again()
        await cluster.produce(b"other 1")
        consumer.assign([ORDERS])
        await read(consumer, 1)
        await consumer.commit()
        with pytest.raises(InvalidPartitionEpochError):
            await former.commit()
        position = await consumer.position(ORDERS)
        assert await consumer.committed([ORDERS]) == {ORDERS: position}


async def test_a_broker_with_frozen_metadata_does_not_bring_back_a_deleted_topic(
    cluster: Cluster,
) -> None:
    """The maximum partition epoch grows when a topic is deleted."""
    frozen = cluster.leader() % 3 + 1
    async with cluster.consumer() as consumer:
        consumer.assign([ORDERS])
        assert await consumer.poll(0) == []
        cluster.node(ChangeNode(frozen, metadata="frozen"))
        await cluster.delete()
        deadline_ms = consumer._clock.now_ms() + TIMEOUT_MS
        while consumer.metadata.partition(ORDERS) is not None:
            assert await consumer.metadata.refresh(deadline_ms)
        for _ in range(3):
            assert await consumer.metadata.refresh(deadline_ms)
            assert consumer.metadata.partition(ORDERS) is None
        assert consumer.metadata.outdated_responses >= 1


async def test_a_committed_offset_of_a_deleted_topic_is_not_used(cluster: Cluster) -> None:
    await cluster.produce(b"1", b"2")
    async with cluster.consumer() as consumer:
        consumer.assign([ORDERS])
        await read(consumer, 2)
        await consumer.commit()
        await cluster.create_again()
        await cluster.produce(b"other 1", b"other 2", b"other 3")
    async with cluster.consumer() as consumer:
        consumer.assign([ORDERS])
        # The broker deletes the committed offsets of a deleted topic.
        assert await consumer.committed([ORDERS]) == {}
        assert await read(consumer, 3) == [b"other 1", b"other 2", b"other 3"]
