"""Records of topics, read from logs: transactions, and batches that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.command_table import CommandError
from kafkalite.control.topic_records import UnknownTopicError, produce, read
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, build_batch
from kafkalite.storage.record_format import NewRecord
from tests.unit.control.ports import ANY_PORT
from tests.unit.server.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.control.topic_records import Isolation


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    running = Broker(
        Settings(listen=ANY_PORT, topics={"orders": 2}, config={"log.segment.bytes": "1048576"})
    )
    await running.start()
    yield running
    await running.stop()


def new(*values: bytes, key: bytes | None = None) -> list[NewRecord]:
    return [NewRecord(key, value, 5) for value in values]


async def values(
    broker: Broker, isolation: Isolation, start: int = 0
) -> list[tuple[bytes | None, bool]]:
    return [
        (each.value, each.is_aborted)
        async for each in read(broker, "orders", partition=0, start=start, isolation=isolation)
    ]


async def test_records_of_transactions_depend_on_the_isolation(broker: Broker) -> None:
    client = await Client.to(broker.bootstrap_servers)
    await client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 4)
    await produce(broker, "orders", new(b"plain", b"second"))
    for committed in (True, False, None):
        begun = await client.ask(
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4
        )
        assert begun.error_code == 0
        producer = BatchProducer(begun.producer_id, begun.producer_epoch, 0)
        batch = build_batch(
            new(f"{committed}".encode()), attributes=TRANSACTIONAL, producer=producer
        )
        data = ProduceRequest.PartitionProduceData(index=0, records=batch)
        topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
        answer = await client.ask(
            ProduceRequest(transactional_id="t", acks=-1, timeout_ms=9, topic_data=[topic]), 12
        )
        assert answer.responses[0].partition_responses[0].error_code == 0
        if committed is not None:
            end = EndTxnRequest(
                transactional_id="t",
                producer_id=begun.producer_id,
                producer_epoch=begun.producer_epoch,
                committed=committed,
            )
            assert (await client.ask(end, 4)).error_code == 0
    committed_values = [(b"plain", False), (b"second", False), (b"True", False)]
    assert await values(broker, "read_committed") == committed_values
    assert await values(broker, "read_committed", start=1) == committed_values[1:]
    assert await values(broker, "read_uncommitted") == [
        *committed_values, (b"False", True), (b"None", False),
    ]  # fmt: skip
    await client.close()


async def test_records_have_the_partition_of_their_key(broker: Broker) -> None:
    records = [*new(b"a", key=b"d"), *new(b"b"), *new(b"c", key=b"d")]
    written = await produce(broker, "orders", records)
    assert written == [(1, 0), (0, 0), (1, 1)]
    assert await produce(broker, "orders", new(b"d", key=b"d"), partition=0) == [(0, 1)]
    found = [(each.partition, each.value) async for each in read(broker, "orders")]
    assert found == [(0, b"b"), (0, b"d"), (1, b"a"), (1, b"c")]


async def test_errors_name_the_topic_and_what_it_has(broker: Broker) -> None:
    with pytest.raises(UnknownTopicError, match="no topic 'order'; similar names are orders"):
        await produce(broker, "order", new(b"a"))
    with pytest.raises(CommandError, match="'orders' has the partitions 0 to 1, but not 2"):
        await produce(broker, "orders", new(b"a"), partition=2)
    with pytest.raises(CommandError, match="but not 3"):
        await anext(read(broker, "orders", partition=3))
    with pytest.raises(CommandError, match="orders-0: MESSAGE_TOO_LARGE"):
        await produce(broker, "orders", new(bytes(2_000_000)))
