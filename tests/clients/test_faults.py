"""Faults with real clients: they retry, and succeed once the fault is over."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.client


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as running:
        yield running


def record_count(broker: Broker) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "counting"})
    _, high = consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=10)
    consumer.close()
    end_offset: int = high
    return end_offset


def test_librdkafka_retries_a_refused_produce_until_it_succeeds(broker: Broker) -> None:
    fault = broker.faults.add(api="Produce", topic="orders", error="NOT_ENOUGH_REPLICAS", times=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 10})
    producer.produce("orders", b"two apples")
    assert producer.flush(30) == 0
    assert record_count(broker) == 1
    assert (fault.matches, fault.firings) == (3, 2)


def test_a_fault_is_installed_and_removed_under_a_running_producer(broker: Broker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 10}
    producer = Producer(settings)
    producer.produce("orders", b"before")
    assert producer.flush(30) == 0
    with broker.faults.add(api="Produce", error="NOT_ENOUGH_REPLICAS") as fault:
        producer.produce("orders", b"meanwhile")
        while fault.firings < 2:
            producer.poll(0.01)
        assert record_count(broker) == 1
    assert producer.flush(30) == 0
    assert record_count(broker) == 2


def test_idempotent_producer_writes_once_despite_a_lost_response(broker: Broker) -> None:
    fault = broker.faults.add(api="Produce", disconnect="after", times=1)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "retry.backoff.ms": 10,
        }
    )
    producer.produce("orders", b"two apples")
    assert producer.flush(30) == 0
    assert (fault.matches, fault.firings) == (2, 1)
    assert record_count(broker) == 1


def test_kafka_python_retries_a_refused_produce_until_it_succeeds(broker: Broker) -> None:
    fault = broker.faults.add(api="Produce", topic="orders", error="NOT_ENOUGH_REPLICAS", times=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses deprecated functions of the standard library
        from kafka import KafkaProducer  # noqa: PLC0415 - see above

        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, retries=5, retry_backoff_ms=10
        )
        assert producer.send("orders", b"two apples").get(30).offset == 0
        producer.close()
    assert fault.firings == 2


async def test_aiokafka_continues_after_faults_of_fetches_and_commits(
    broker: Broker,
) -> None:
    fetch = broker.faults.add(api="Fetch", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=1)
    commit = broker.faults.add(api="OffsetCommit", group="shop", error="NOT_COORDINATOR", times=1)
    servers = broker.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait("orders", b"two apples")
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=servers, group_id="shop", auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:  # fmt: skip
        message = await asyncio.wait_for(consumer.getone(), 30)
        assert message.value == b"two apples"
        await consumer.commit()
        assert await consumer.committed(next(iter(consumer.assignment()))) == 1
    counts = await asyncio.to_thread(lambda: (fetch.firings, commit.firings))
    assert counts == (1, 1)


def test_explain_reports_an_injected_fault(broker: Broker) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
    fault = broker.faults.add(api="OffsetCommit", group="shop", error="GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaException):
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    refused = broker.explain("shop")[-1]
    assert refused.facts["fault"] == fault.id
    assert fault.id in refused.text
