"""Members of share groups read and acknowledge records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.groups import (
    delete_share_offsets,
    describe_group,
    find_group,
    group_partitions,
    set_offsets,
)
from kafkalite.client.share_reader import ACCEPT, REJECT, RELEASE, ShareReader
from kafkalite.ports.clock import AdjustableClock
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

CONFIG = {
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "1",
    "group.share.min.heartbeat.interval.ms": "1",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}, config=CONFIG, brokers=2) as running:
        for number in range(4):
            running.produce("orders", f"value-{number}", partition=number % 2)
        yield running


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[KafkaClient]:
    async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as connected:
        yield connected


async def read(client: KafkaClient, kinds: list[int]) -> list[tuple[bytes | None, int]]:
    """Read until there are as many records as `kinds`, and acknowledge each of them."""
    reader = ShareReader(client, "sharers", ["orders"], AdjustableClock())
    found: list[tuple[bytes | None, int]] = []
    try:
        await reader.join()
        while len(found) < len(kinds):
            for record, delivery_count in sorted(await reader.poll(100), key=str):
                if len(found) < len(kinds):
                    reader.acknowledge(record, kinds[len(found)])
                    found.append((record.value, delivery_count))
    finally:
        await reader.close()
    return sorted(found, key=str)


async def test_records_without_acceptance_are_delivered_again(client: KafkaClient) -> None:
    await read(client, [])
    starts = {TopicPartition("orders", index): 0 for index in (0, 1)}
    await set_offsets(client, await find_group(client, "sharers"), starts)
    first = await read(client, [RELEASE] * 4)
    assert first == [(b"value-%d" % number, 1) for number in range(4)]
    second = await read(client, [ACCEPT, ACCEPT, REJECT])
    assert [count for _, count in second] == [2, 2, 2]
    (last,) = await read(client, [ACCEPT])
    assert {value for value, _ in [*second, last]} == {value for value, _ in first}
    group = await describe_group(client, "sharers")
    assert [row.lag for row in await group_partitions(client, group)] == [0, 0]
    assert await delete_share_offsets(client, "sharers", ["orders"]) == {"orders": 0}
    assert await group_partitions(client, group) == []


async def test_acknowledgements_are_committed_at_once(broker: Broker, client: KafkaClient) -> None:
    broker.create_topic("payments")
    reader = ShareReader(client, "payers", ["payments"], AdjustableClock())
    await reader.join()
    try:
        await reader.poll(1)
        broker.produce("payments", "paid")
        while not (records := await reader.poll(100)):
            pass
        reader.acknowledge(records[0].record, ACCEPT)
        assert await reader.commit() == {TopicPartition("payments", 0): 0}
        assert await reader.commit() == {}
    finally:
        await reader.close()
