"""Real clients go on correctly while a broker is restored and reset."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer

from kafkalite.testing import Broker
from tests.clients.client_libraries import FRANZ_GO, client_named
from tests.clients.observer import wait_until
from tests.clients.process import running_driver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.server.snapshot import Snapshot
    from tests.clients.client_libraries import Client
    from tests.clients.process import DriverProcess

pytestmark = pytest.mark.endurance

TOPIC = "orders"
TIMEOUT_S = 30.0
ROUNDS = 3
SETTINGS = {
    "group.id": "shop",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "topic.metadata.refresh.interval.ms": 500,
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(storage="memory", topics={TOPIC: 1}) as broker:
        yield broker


def go_back(broker: Broker, snapshot: Snapshot, way: str) -> None:
    """Let a broker have its first state again."""
    if way == "reset":
        broker.reset()
    else:
        broker.restore(snapshot, disconnect=way == "disconnect")


def values_of(number: int) -> list[bytes]:
    """Return fewer values in each round, so that the position of a consumer is after the end.

    A position within the log would be valid: as in a real Kafka, the consumer would go on there.
    """
    return [f"{number}-{index}".encode() for index in range(5 - number)]


def read_until(consumer: Consumer, value: bytes) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None and message.value() == value:
            return
    raise AssertionError(f"{value!r} does not arrive")


@pytest.mark.parametrize(
    ("way", "protocol"),
    [
        ("restore", "classic"),
        ("disconnect", "classic"),
        ("reset", "classic"),
        # A member of a group that does not exist any more ends: GROUP_ID_NOT_FOUND is fatal for it.
        ("restore", "consumer"),
        ("disconnect", "consumer"),
    ],
)
def test_librdkafka_goes_on(broker: Broker, way: str, protocol: str) -> None:
    client = broker.client_config("librdkafka")
    producer = Producer({**client, "enable.idempotence": True, "linger.ms": 0})
    group = {"group.protocol": "consumer"} if protocol == "consumer" else {}
    consumer = Consumer({**client, **SETTINGS, **group})
    consumer.subscribe([TOPIC])
    if protocol == "consumer":
        deadline = time.monotonic() + TIMEOUT_S
        while not consumer.assignment():
            consumer.poll(0.1)
            assert time.monotonic() < deadline
    snapshot = broker.snapshot()
    for number in range(ROUNDS):
        values = values_of(number)
        for value in values:
            producer.produce(TOPIC, value)
        assert producer.flush(TIMEOUT_S) == 0
        read_until(consumer, values[-1])
        with suppress(KafkaException):  # the consumer has not joined again yet
            consumer.commit(asynchronous=False)
        assert [each.value for each in broker.records(TOPIC)] == values
        go_back(broker, snapshot, way)
        assert broker.records(TOPIC) == []
    consumer.close()


@pytest.mark.parametrize("way", ["restore", "disconnect", "reset"])
async def test_aiokafka_goes_on(broker: Broker, way: str) -> None:
    client = broker.client_config("aiokafka")
    consumer = AIOKafkaConsumer(
        TOPIC,
        group_id="shop",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=500,
        **client,
    )
    producer = AIOKafkaProducer(enable_idempotence=True, metadata_max_age_ms=500, **client)
    snapshot = broker.snapshot()
    async with consumer, producer:
        for number in range(ROUNDS):
            values = values_of(number)
            for value in values:
                await asyncio.wait_for(producer.send_and_wait(TOPIC, value), TIMEOUT_S)
            async with asyncio.timeout(TIMEOUT_S):
                while (await consumer.getone()).value != values[-1]:
                    pass
            found = await asyncio.to_thread(broker.records, TOPIC)
            assert [each.value for each in found] == values
            await asyncio.to_thread(go_back, broker, snapshot, way)


@pytest.mark.parametrize(
    ("client", "ways"),
    [
        (client_named("java"), ("restore", "disconnect", "reset")),
        # As with a real Kafka, clients of franz-go refuse a topic that was created again.
        (FRANZ_GO, ("restore", "disconnect")),
    ],
    ids=["java", "franz-go"],
)
def test_java_and_franz_go_go_on(client: Client, ways: tuple[str, ...], tmp_path: Path) -> None:
    config: dict[str, str | float] = {"group.initial.rebalance.delay.ms": 0}
    with (
        Broker(storage="memory", topics={TOPIC: 1}, config=config) as broker,
        running_driver(client, broker.bootstrap_servers, tmp_path) as driver,
    ):
        for way in ways:
            driver.join(way, f"group-{way}", TOPIC, "classic")
            snapshot = broker.snapshot()
            for number in range(ROUNDS):
                # A commit before that, for a group that does not exist any more, is fatal for Java.
                broker.wait_for_group(f"group-{way}", state="Stable", members=1, timeout=TIMEOUT_S)
                values = values_of(number)
                driver.produce(TOPIC, "none", [(0, None, each.decode()) for each in values])
                wait_until_committed(driver, values[-1].decode())
                assert [each.value for each in broker.records(TOPIC)] == values
                go_back(broker, snapshot, way)
            driver.leave(way)
            driver.events()


def wait_until_committed(driver: DriverProcess, value: str) -> None:
    """Wait until a consumer has read a value, and has committed afterwards."""
    seen: list[str] = []

    def is_committed() -> bool:
        for kind, _, detail in driver.events():
            assert kind != "error", detail
            if kind == "records":
                seen.extend("read" for row in detail if row[3] == value)  # type: ignore[index]
            elif seen:
                seen.append(kind)
        return "commit" in seen

    wait_until(is_committed, f"{value} is read and committed", TIMEOUT_S)
