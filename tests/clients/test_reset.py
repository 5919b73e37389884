"""Clients that are connected before a reset carry on after it, on the same connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from kafkalite.testing import Broker
from tests.clients.observer import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.client

_TIMEOUT_S = 30.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    config: dict[str, str | float] = {
        "group.initial.rebalance.delay.ms": 0,
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "auto.create.topics.enable": False,
    }
    with Broker(topics={"orders": 2}, config=config) as running:
        yield running


def values_after(consumer: Consumer, value: bytes) -> list[bytes]:
    """Return the values that a consumer reads up to this one."""
    found: list[bytes] = []

    def has_value() -> bool:
        message = consumer.poll(0.1)
        # Errors about the deleted topic are for people.
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
        return value in found

    wait_until(has_value, f"{value!r} is read", _TIMEOUT_S)
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_and_a_producer_of_librdkafka_carry_on(broker: Broker, protocol: str) -> None:
    servers = {
        "bootstrap.servers": broker.bootstrap_servers,
        "topic.metadata.refresh.interval.ms": 200,
    }
    producer = Producer({**servers, "enable.idempotence": True, "linger.ms": 0})
    session = {"heartbeat.interval.ms": 100} if protocol == "classic" else {}
    consumer = Consumer({
        **servers, **session, "group.id": "shop", "group.protocol": protocol,
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
    })  # fmt: skip
    consumer.subscribe(["orders"])
    try:
        producer.produce("orders", b"before", partition=0)
        producer.flush(_TIMEOUT_S)
        assert values_after(consumer, b"before") == [b"before"]
        consumer.commit(asynchronous=False)
        assert broker.committed("shop") == {("orders", 0): 1}
        former = broker.topic("orders").topic_id
        answer = broker.reset()
        assert (answer.deleted_groups, answer.created_topics) == (("shop",), ("orders",))
        assert broker.topic("orders").topic_id != former
        # The metadata of a producer has the id of the former topic for a short time.
        wait_until(lambda: delivers(producer, b"after"), "a record is accepted", _TIMEOUT_S)
        assert b"before" not in values_after(consumer, b"after")
        group = broker.wait_for_group("shop", state="Stable", members=1, timeout=_TIMEOUT_S)
        assert group.type == protocol
        consumer.commit(asynchronous=False)
        assert broker.lag("shop")["orders", 0] == 0
    finally:
        consumer.close()


def test_a_transactional_producer_of_librdkafka_carries_on_after_an_abort(broker: Broker) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "shop",
            "topic.metadata.refresh.interval.ms": 200,
        }
    )
    producer.init_transactions(_TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("orders", b"before", partition=0)
    producer.flush(_TIMEOUT_S)
    assert broker.reset().deleted_transactional_ids == ("shop",)
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(_TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.INVALID_PRODUCER_ID_MAPPING
    producer.abort_transaction(_TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("orders", b"after", partition=0)
    producer.commit_transaction(_TIMEOUT_S)
    assert [each.value for each in broker.records("orders")] == [b"after"]


def delivers(producer: Producer, value: bytes) -> bool:
    """Write a record, and return whether the broker has accepted it."""
    errors: list[object] = []
    producer.produce(
        "orders", value, partition=0, on_delivery=lambda error, _: errors.append(error)
    )
    producer.flush(_TIMEOUT_S)
    return errors == [None]


def test_a_consumer_and_a_producer_of_aiokafka_carry_on(broker: Broker) -> None:
    async def carry_on() -> None:
        servers = {"bootstrap_servers": broker.bootstrap_servers, "metadata_max_age_ms": 200}
        producer = AIOKafkaProducer(**servers)
        consumer = AIOKafkaConsumer(
            "orders",
            group_id="shop",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            enable_auto_commit=False,
            **servers,
        )
        await producer.start()
        await consumer.start()
        try:
            await producer.send_and_wait("orders", b"before", partition=0)
            assert (await consumer.getone()).value == b"before"
            await consumer.commit()
            await asyncio.to_thread(broker.reset)
            await producer.send_and_wait("orders", b"after", partition=0)
            async with asyncio.timeout(_TIMEOUT_S):
                assert (await consumer.getone()).value == b"after"
            group = await asyncio.to_thread(
                broker.wait_for_group, "shop", state="Stable", members=1, timeout=_TIMEOUT_S
            )
            assert group.epoch == 1
        finally:
            await consumer.stop()
            await producer.stop()

    asyncio.run(carry_on())
