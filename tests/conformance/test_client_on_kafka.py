"""Producer and consumer on a real Apache Kafka of three nodes, which has no partition epochs."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from kafkalite.client import (
    InvalidPartitionEpochError,
    OffsetOutOfRangeError,
    PartitionConsumer,
    Producer,
    ProducerRecord,
    TopicPartition,
)
from kafkalite.client.client import KafkaClient
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from tests.oracle.real_cluster import real_cluster
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.oracle.real_kafka import RealKafka

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]

ORDERS = TopicPartition("orders", 0)
TIMEOUT_MS = 30_000
ATTEMPTS = count()
"""Numbers in topic names: a test that is run again must create other topics."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RealKafka]]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    with required(), real_cluster(directory, 3, COMMON_CONFIG) as running:
        yield running


async def create(servers: str, topic: str, *replicas: int) -> None:
    """Create a topic with one partition; its first replica is the leader."""
    async with KafkaClient([Address.parse(each) for each in servers.split(",")]) as client:
        assignment = CreateTopicsRequest.CreatableReplicaAssignment(
            partition_index=0, broker_ids=list(replicas)
        )
        row = CreateTopicsRequest.CreatableTopic(
            name=topic, num_partitions=-1, replication_factor=-1, assignments=[assignment]
        )
        response = await client.ask_any(
            CreateTopicsRequest(topics=[row], timeout_ms=TIMEOUT_MS), Versions(7, 7)
        )
        assert response.topics[0].error_code == 0


async def delete(servers: str, topic: str) -> None:
    async with KafkaClient([Address.parse(each) for each in servers.split(",")]) as client:
        row = DeleteTopicsRequest.DeleteTopicState(name=topic)
        response = await client.ask_any(
            DeleteTopicsRequest(topics=[row], timeout_ms=TIMEOUT_MS), Versions(6, 6)
        )
        assert response.responses[0].error_code == 0


async def test_records_offsets_and_epochs_on_kafka(nodes: list[RealKafka]) -> None:
    servers = ",".join(node.bootstrap for node in nodes)
    await create(servers, "orders", 2, 3, 1)
    async with (
        Producer(servers) as producer,
        PartitionConsumer(servers, group_id="shop", auto_offset_reset="earliest") as consumer,
    ):
        sent = await producer.send_batch(ORDERS, [ProducerRecord(b"1"), ProducerRecord(b"2", b"k")])
        assert (sent.first_offset, sent.last_offset) == (0, 1)
        consumer.assign([ORDERS])
        records = await consumer.poll(TIMEOUT_MS)
        assert [(record.offset, record.value) for record in records] == [(0, b"1"), (1, b"2")]
        position = await consumer.position(ORDERS)
        assert (position.offset, position.leader_epoch, position.partition_epoch) == (2, 0, -1)
        await consumer.commit()
        assert await consumer.committed([ORDERS]) == {ORDERS: position}

        nodes[1].stop()
        assert (await producer.send(ORDERS, b"3")).first_offset == 2
        (record,) = await consumer.poll(TIMEOUT_MS)
        assert record.value == b"3"
        assert (await consumer.position(ORDERS)).leader_epoch == record.leader_epoch > 0


async def test_an_offset_in_a_topic_that_was_created_again_on_kafka(nodes: list[RealKafka]) -> None:
    """Kafka reports no partition epochs: the topic id shows that the topic is another one."""
    servers = nodes[0].bootstrap
    name = f"again-{next(ATTEMPTS)}"
    again = TopicPartition(name, 0)
    await create(servers, name, 1)
    async with (
        Producer(servers) as producer,
        PartitionConsumer(servers, auto_offset_reset="earliest") as consumer,
    ):
        await producer.send_batch(again, [ProducerRecord(b"1"), ProducerRecord(b"2")])
        consumer.assign([again])
        assert len(await consumer.poll(TIMEOUT_MS)) == 2
        await delete(servers, name)
        await create(servers, name, 1)
        with pytest.raises(InvalidPartitionEpochError, match="topic id"):
            await consumer.poll(TIMEOUT_MS)
        consumer.seek(again, 0)
        await producer.send(again, b"other 1")
        (record,) = await consumer.poll(TIMEOUT_MS)
        assert record.value == b"other 1"


async def test_an_offset_without_epochs_beyond_the_end_on_kafka(nodes: list[RealKafka]) -> None:
    servers = nodes[0].bootstrap
    name = f"beyond-{next(ATTEMPTS)}"
    beyond = TopicPartition(name, 0)
    await create(servers, name, 1)
    async with PartitionConsumer(servers, auto_offset_reset="none") as consumer:
        consumer.assign([beyond])
        consumer.seek(beyond, 7)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.poll(TIMEOUT_MS)
