"""Transactions with their producers, clients and ages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.typed_json import to_json
from kafkalite.control.command_table import running_cluster
from kafkalite.control.commands.transactions import ListTransactions
from kafkalite.control.internal_requests import answer_of
from kafkalite.control.transaction_reader import list_transactions
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.transactions.state import TransactionState
from tests.unit.control.ports import ANY_PORT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONFIG = {"transaction.state.log.num.partitions": "2"}


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    clock = AdjustableClock(rate=0, now_ms=0)
    running = Broker(Settings(listen=ANY_PORT, topics={"orders": 2}, config=CONFIG), clock=clock)
    await running.start()
    yield running
    await running.stop(grace_s=0)


async def begin(broker: Broker, name: str) -> None:
    running_cluster(broker).transactions.ensure_topic()
    producer = await answer_of(
        broker, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    )
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="orders", partitions=[1, 0])
    added = await answer_of(
        broker,
        AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=name,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    topics=[topic],
                )
            ]
        ),
    )
    codes = added.results_by_transaction[0].topic_results[0].results_by_partition
    assert [each.partition_error_code for each in codes] == [0, 0]


async def test_transactions_have_clients_and_ages(broker: Broker) -> None:
    assert await list_transactions(broker) == []
    await begin(broker, "shop")
    await begin(broker, "b")
    clock = broker.clock
    assert isinstance(clock, AdjustableClock)
    clock.advance(1_500)
    first, shop = await list_transactions(broker)
    assert first.transactional_id == "b"
    assert shop.state is TransactionState.ONGOING
    assert shop.partitions == {("orders", 0), ("orders", 1)}
    assert repr(shop) == (
        "<transactional id 'shop' Ongoing, producer 0 at epoch 0, client kafkalite at 127.0.0.1, "
        "open for 1500 of 60000 ms, partitions: orders-0 orders-1>"
    )
    clock.advance(70_000)
    (_, aborted) = (await ListTransactions().perform(broker)).transactions
    assert to_json(aborted) == {
        "transactional_id": "shop",
        "state": "CompleteAbort",
        "producer_id": 0,
        "producer_epoch": 1,
        "partitions": [],
        "timeout_ms": 60_000,
        "started_iso": "1970-01-01T00:00:00.000Z",
        "age_ms": None,
        "client_id": "kafkalite",
        "client_host": "/127.0.0.1",
    }


async def test_the_client_is_unknown_if_the_history_does_not_have_it(broker: Broker) -> None:
    await begin(broker, "shop")
    running_cluster(broker).history._subjects.clear()
    (shop,) = await list_transactions(broker)
    assert (shop.client_id, shop.client_host) == (None, None)
    assert "client" not in repr(shop)
