"""Real clients with a stand-in for a recorded cluster: they get the recorded responses."""

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

    Reply = tuple[list[bytes], int]
    Client = Callable[[str], Awaitable[Reply]]

pytestmark = [
    pytest.mark.client,
    # kafka-python reads its own files with deprecated functions.
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]

VALUES = [b"apple", b"pear", b"plum", b"fig"]
PATIENCE_S = 120
"""Even on a busy machine, only a hanging client takes longer."""


async def confluent(bootstrap: str, protocol: str = "classic") -> Reply:
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
    return [record.value() or b"" for record in read], committed.offset


async def confluent_consumer(bootstrap: str) -> Reply:
    return await confluent(bootstrap, "consumer")


async def aiokafka(bootstrap: str) -> Reply:
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


async def kafka_python(bootstrap: str) -> Reply:
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


def client_name(client: Client) -> str:
    return client.__name__


async def record(client: Client, path: Path) -> None:
    async with Broker(topics={"orders": 1}, capture=path) as broker:
        assert await client(broker.bootstrap_servers) == (VALUES, len(VALUES))


@pytest.mark.parametrize("client", CLIENTS, ids=client_name)
async def test_client_repeats_its_recorded_session(client: Client, tmp_path: Path) -> None:
    await record(client, tmp_path)

    async with Broker(replay=tmp_path, match="lenient") as broker:
        # It writes and commits again, and gets the same responses as the first time.
        assert await client(broker.bootstrap_servers) == (VALUES, len(VALUES))


async def test_another_client_reads_recorded_records(tmp_path: Path) -> None:
    await record(confluent_consumer, tmp_path)

    async with Broker(replay=tmp_path, match="seeded") as broker:
        read, committed = await aiokafka(broker.bootstrap_servers)

    # The group continues after the records that it had read.
    assert (read, committed) == (VALUES, 2 * len(VALUES))


async def test_request_for_all_partitions_at_once_is_answered(tmp_path: Path) -> None:
    """The response for a partition does not depend on the other partitions of the request."""
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


@pytest.mark.parametrize("client", [confluent, confluent_consumer], ids=client_name)
async def test_fetches_of_concurrent_client_threads_are_answered_by_offset(
    client: Client, tmp_path: Path
) -> None:
    await record(client, tmp_path)

    async with Broker(replay=tmp_path, match="strict") as broker:
        assert await client(broker.bootstrap_servers) == (VALUES, len(VALUES))


@pytest.mark.endurance
def test_partitions_are_read_by_offset_in_any_order(tmp_path: Path) -> None:
    """A client that gets records of a partition that it did not request aborts its process."""
    with required():
        kcat = program("kcat")

    def read(bootstrap: str) -> list[str]:
        command = [kcat, "-C", "-b", bootstrap, "-t", "orders", "-o", "beginning", "-e", "-q"]
        completed = subprocess.run(
            [*command, "-f", "%p %s\n"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return sorted(completed.stdout.splitlines())

    expected_lines = sorted(
        f"{partition} {value.decode()}" for partition in range(3) for value in VALUES
    )
    with Broker(topics={"orders": 3}, capture=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for value in VALUES:
            for partition in range(3):
                producer.produce("orders", value, partition=partition)
        assert producer.flush(PATIENCE_S) == 0
        assert read(broker.bootstrap_servers) == expected_lines
    for _ in range(3):
        with Broker(replay=tmp_path, match="strict") as broker:
            assert read(broker.bootstrap_servers) == expected_lines


@pytest.mark.endurance
def test_identical_requests_get_identical_responses(tmp_path: Path) -> None:
    with required():
        kcat = program("kcat")

    def ask(bootstrap: str) -> list[str]:
        command = [kcat, "-b", bootstrap, "-L", "-J", "-t", "orders"]
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        return completed.stdout.replace(bootstrap, "").split()

    with Broker(topics={"orders": 3}, capture=tmp_path) as broker:
        reply = ask(broker.bootstrap_servers)
    with Broker(replay=tmp_path, match="strict") as broker:
        assert ask(broker.bootstrap_servers) == reply


async def test_unrecorded_topics_are_served_by_the_live_broker(tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}, capture=tmp_path) as broker:
        Producer({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=PATIENCE_S)

    # The recording has no Produce request for it, so only the live broker can answer.
    live = Broker(topics={"orders": 1}, replay=tmp_path, match="lenient", on_miss="live")
    async with live as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"new", partition=0)
        assert producer.flush(PATIENCE_S) == 0
