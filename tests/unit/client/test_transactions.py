"""Transactions are listed, described and aborted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import ClientError, UnknownNameError
from kafkalite.client.producer import Producer
from kafkalite.client.transactions import (
    abort_in_partition,
    describe_transaction,
    list_transactions,
)
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

FIRST, SECOND = (TopicPartition("orders", index) for index in (0, 1))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(brokers=2, topics={"orders": 2}) as running:
        yield running


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[KafkaClient]:
    async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as connected:
        yield connected


@pytest.fixture
async def producer(broker: Broker) -> AsyncIterator[Producer]:
    """Return a producer with an open transaction in both partitions."""
    async with Producer(broker.bootstrap_servers, transactional_id="shop") as producing:
        await producing.begin()
        await producing.send(FIRST, b"a")
        await producing.send(SECOND, b"b")
        yield producing


async def test_open_and_ended_transactions_are_described(
    client: KafkaClient, producer: Producer
) -> None:
    (listed,) = await list_transactions(client)
    assert (listed.transactional_id, listed.state) == ("shop", "Ongoing")
    assert listed.coordinator in (1, 2)
    described = await describe_transaction(client, "shop")
    assert (described.producer_id, described.timeout_ms) == (listed.producer_id, 60_000)
    assert described.partitions == (FIRST, SECOND)
    assert described.start_ms is not None
    await producer.end(commits=True)
    described = await describe_transaction(client, "shop")
    assert (described.state, described.partitions) == ("CompleteCommit", ())


async def test_unknown_id_has_similar_names(client: KafkaClient, producer: Producer) -> None:
    assert producer
    with pytest.raises(UnknownNameError, match="id 'shops'; similar names are shop"):
        await describe_transaction(client, "shops")


async def test_transaction_of_a_partition_is_aborted(
    broker: Broker, client: KafkaClient, producer: Producer
) -> None:
    assert producer
    start = broker.records("orders", 1, isolation="read_uncommitted")[-1].offset
    with pytest.raises(ClientError, match=f"begins at offset 99; one begins at {start}"):
        await abort_in_partition(client, SECOND, 99)
    producer_id = await abort_in_partition(client, SECOND, start)
    assert producer_id == (await describe_transaction(client, "shop")).producer_id
    (record,) = broker.records("orders", 1, start=start, isolation="read_uncommitted")
    assert record.is_aborted
    with pytest.raises(ClientError, match="begins at offset 0; none is open"):
        await abort_in_partition(client, SECOND, 0)
    with pytest.raises(ClientError, match="topic 'orders' has no partition 2, but 0 to 1"):
        await abort_in_partition(client, TopicPartition("orders", 2), 0)
    with pytest.raises(UnknownNameError, match="no topic 'ordres'; similar names are orders"):
        await abort_in_partition(client, TopicPartition("ordres", 0), 0)
