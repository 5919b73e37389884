"""Readers of a topic; the tests of `kafkalite consume` have the starts and ends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.consumer import PartitionConsumer
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import ClientError
from kafkalite.client.offsets import OffsetTarget
from kafkalite.client.producer import Producer
from kafkalite.client.topic_reader import TopicReader
from kafkalite.testing import Broker
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.client.records import ConsumerRecord


@asynccontextmanager
async def reader_of(
    broker: Broker,
    group_id: str | None,
    *,
    follows: bool = False,
    clock: ManualClock | None = None,
) -> AsyncIterator[TopicReader]:
    async with (
        KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as client,
        TopicReader.open(
            client,
            ["orders"],
            group_id=group_id,
            start=OffsetTarget(),
            isolation="read_committed",
            follows=follows,
            clock=clock,
        ) as reader,
    ):
        yield reader


async def read_all(reader: TopicReader) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while (records := await reader.poll()) is not None:
        found += records
        await reader.set_all_read()
    return found


@pytest.mark.usefixtures("old_versions")
async def test_old_brokers_are_supported() -> None:
    with Broker(topics={"orders": 2}) as broker:
        servers = broker.bootstrap_servers
        async with Producer(servers, transactional_id="shop", compression="lz4") as producer:
            for partition in (0, 1, 0):
                await producer.begin()
                await producer.send(TopicPartition("orders", partition), b"committed")
                await producer.end(commits=True)
            await producer.begin()
            await producer.send(TopicPartition("orders", 0), b"aborted")
            await producer.end(commits=False)
        async with reader_of(broker, "shop") as reader:
            await reader.join()
            assert [each.value for each in await read_all(reader)] == [b"committed"] * 3
        async with reader_of(broker, "shop") as reader:
            await reader.join()
            assert await read_all(reader) == []


async def test_rebalance_continues_at_the_committed_offsets() -> None:
    clock = ManualClock(0)
    with Broker(topics={"orders": 2}) as broker:
        for number in range(4):
            broker.produce("orders", str(number), partition=number % 2)
        async with reader_of(broker, "shop", follows=True, clock=clock) as first:
            await first.join()
            found: list[ConsumerRecord] = []
            while len(found) < 4:
                found += await first.poll() or []
            await first.set_all_read()
            async with reader_of(broker, "shop", follows=True, clock=clock) as second:
                joining = asyncio.ensure_future(second.join())
                while not joining.done():
                    clock.advance(3_000)  # a heartbeat is due
                    assert not await first.poll()
                broker.produce("orders", "4", partition=0)
                broker.produce("orders", "5", partition=1)
                later: list[ConsumerRecord] = []
                while len(later) < 2:
                    later += [*(await first.poll() or []), *(await second.poll() or [])]
    assert {each.value for each in later} == {b"4", b"5"}


async def test_what_was_read_is_committed_from_time_to_time() -> None:
    clock = ManualClock(0)
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", "a")
        async with reader_of(broker, "shop", follows=True, clock=clock) as reader:
            await reader.join()
            found = await reader.poll()
            assert found is not None
            reader.set_read(found)
            clock.advance(5_000)
            await reader.poll()
            async with PartitionConsumer(broker.bootstrap_servers, group_id="shop") as consumer:
                partition = TopicPartition("orders", 0)
                assert (await consumer.committed([partition]))[partition].offset == 1


async def test_partition_without_a_leader_is_an_error() -> None:
    with Broker(brokers=2, topics={"orders": 2}) as broker:
        broker.nodes[2].stop()
        async with reader_of(broker, None) as reader:
            with pytest.raises(ClientError, match=r"orders-[01] has no leader that answers"):
                await reader.assign([TopicPartition("orders", index) for index in (0, 1)])
