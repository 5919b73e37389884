"""Real clients at a cluster that was recorded: they find what was there, as it was answered."""

from __future__ import annotations

import subprocess
import warnings
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.testing import Broker
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Told = tuple[list[bytes], int]
    Client = Callable[[str], Awaitable[Told]]

pytestmark = [
    pytest.mark.client,
    # kafka-python reads its own files in an old way.
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]

VALUES = [b"apple", b"pear", b"plum", b"fig"]
PATIENCE_S = 120
"""Only what hangs takes so long, however busy the machine is."""


async def confluent(bootstrap: str, protocol: str = "classic") -> Told:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in VALUES:
        producer.produce("orders", value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "shop",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    read = consumer.consume(len(VALUES), PATIENCE_S)
    (committed,) = consumer.commit(asynchronous=False) or []
    consumer.close()
    return [each.value() or b"" for each in read], committed.offset


async def confluent_consumer(bootstrap: str) -> Told:
    return await confluent(bootstrap, "consumer")


async def aiokafka(bootstrap: str) -> Told:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in VALUES:
            await producer.send_and_wait("orders", value, partition=0)
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="shop",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with consumer:
        read = [(await consumer.getone()).value for _ in VALUES]
        await consumer.commit()
        (partition,) = consumer.assignment()
        return read, await consumer.committed(partition)


async def kafka_python(bootstrap: str) -> Told:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaConsumer, KafkaProducer  # noqa: PLC0415 - it warns of itself

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for value in VALUES:
        producer.send("orders", value, partition=0).get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="shop",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    read = [next(consumer).value for _ in VALUES]
    consumer.commit()
    (partition,) = consumer.assignment()
    committed = consumer.committed(partition)
    consumer.close()
    return read, committed


CLIENTS = (confluent, confluent_consumer, aiokafka, kafka_python)


def named(client: Client) -> str:
    return client.__name__


async def record(client: Client, path: Path) -> None:
    async with Broker(topics={"orders": 1}, capture=path) as broker:
        assert await client(broker.bootstrap_servers) == (VALUES, len(VALUES))


@pytest.mark.parametrize("client", CLIENTS, ids=named)
async def test_a_client_lives_again_what_was_recorded(client: Client, tmp_path: Path) -> None:
    await record(client, tmp_path)

    async with Broker(replay=tmp_path, match="lenient") as broker:
        # It writes and commits again, and is told what was told the first time.
        assert await client(broker.bootstrap_servers) == (VALUES, len(VALUES))


async def test_another_client_reads_what_one_has_written(tmp_path: Path) -> None:
    await record(confluent_consumer, tmp_path)

    async with Broker(replay=tmp_path, match="seeded") as broker:
        read, committed = await aiokafka(broker.bootstrap_servers)

    # The group goes on behind what it had read; what is new was written since.
    assert (read, committed) == (VALUES, 2 * len(VALUES))


async def test_a_client_that_asks_of_all_partitions_at_once_is_answered(tmp_path: Path) -> None:
    """What each of them is told does not depend on who else is asked about in the same breath."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaConsumer  # noqa: PLC0415 - it warns of itself

    with Broker(topics={"orders": 3}, capture=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for partition, value in enumerate(VALUES[:3]):
            producer.produce("orders", value, partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
        for partition in range(3):
            consumer.assign([TopicPartition("orders", partition, 0)])
            assert consumer.consume(1, PATIENCE_S)
            consumer.get_watermark_offsets(TopicPartition("orders", partition), PATIENCE_S)
        consumer.close()

    with Broker(replay=tmp_path, match="lenient") as broker:
        reader = KafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
            consumer_timeout_ms=PATIENCE_S * 1000,
        )
        assert {next(reader).value for _ in range(3)} == set(VALUES[:3])
        reader.close()


@pytest.mark.parametrize("client", [confluent, confluent_consumer], ids=named)
async def test_threads_that_race_are_answered_by_position(client: Client, tmp_path: Path) -> None:
    await record(client, tmp_path)

    async with Broker(replay=tmp_path, match="strict") as broker:
        assert await client(broker.bootstrap_servers) == (VALUES, len(VALUES))


def test_partitions_are_read_by_offset_whichever_is_asked_for_first(tmp_path: Path) -> None:
    """A client that is given records of a partition that it did not ask for ends its process."""
    with required():
        kcat = program("kcat")

    def read(bootstrap: str) -> list[str]:
        command = [kcat, "-C", "-b", bootstrap, "-t", "orders", "-o", "beginning", "-e", "-q"]
        done = subprocess.run(
            [*command, "-f", "%p %s\n"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return sorted(done.stdout.splitlines())

    said = sorted(f"{partition} {value.decode()}" for partition in range(3) for value in VALUES)
    with Broker(topics={"orders": 3}, capture=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for value in VALUES:
            for partition in range(3):
                producer.produce("orders", value, partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        assert read(broker.bootstrap_servers) == said
    for _ in range(3):
        with Broker(replay=tmp_path, match="strict") as broker:
            assert read(broker.bootstrap_servers) == said


def test_what_is_said_word_for_word_is_answered_word_for_word(tmp_path: Path) -> None:
    with required():
        kcat = program("kcat")

    def ask(bootstrap: str) -> list[str]:
        command = [kcat, "-b", bootstrap, "-L", "-J", "-t", "orders"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        return done.stdout.replace(bootstrap, "").split()

    with Broker(topics={"orders": 3}, capture=tmp_path) as broker:
        told = ask(broker.bootstrap_servers)
    with Broker(replay=tmp_path, match="strict") as broker:
        assert ask(broker.bootstrap_servers) == told


async def test_what_was_not_recorded_is_left_to_the_live_broker(tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}, capture=tmp_path) as broker:
        Producer({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=PATIENCE_S)

    # Nobody produced there, so there is nothing to be told of that but by the live broker.
    live = Broker(topics={"orders": 1}, replay=tmp_path, match="lenient", on_miss="live")
    async with live as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"new", partition=0)
        assert producer.flush(PATIENCE_S) == 0
