"""Consoles over captures of a real Kafka, and over the data directory of a stopped broker."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafkalite.capture.reading.problems import Problems
from kafkalite.lab.file_console.capture_index import read_index
from kafkalite.lab.file_console.capture_source import CaptureSource
from kafkalite.lab.file_console.directory_source import DirectorySource
from kafkalite.ports.clock import AdjustableClock
from kafkalite.testing import Broker
from tests.captures.member_lives import CAPTURE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.lab.file_console.capture_index import CaptureIndex

TRANSACTIONS = CAPTURE.with_name("facts.pcapng.gz")


@pytest.fixture(scope="session")
def member_lives() -> Iterator[CaptureIndex]:
    index = read_index([str(CAPTURE)], Problems())
    yield index
    index.close()


@pytest.fixture(scope="session")
def transactions() -> Iterator[CaptureIndex]:
    index = read_index([str(TRANSACTIONS)], Problems())
    yield index
    index.close()


@pytest.fixture
def groups_source(member_lives: CaptureIndex) -> CaptureSource:
    return CaptureSource([str(CAPTURE)], member_lives, Problems(), [])


@pytest.fixture
def transactions_source(transactions: CaptureIndex) -> CaptureSource:
    return CaptureSource([str(TRANSACTIONS)], transactions, Problems(), [9092])


def new_member(settings: dict[str, str]) -> Consumer:
    """Return a member of a group that has partitions of `orders`."""
    consumer = Consumer(settings | {"client.id": "one", "enable.auto.commit": "false"})
    consumer.subscribe(["orders"])
    for _ in range(200):
        consumer.poll(0.05)
        if consumer.assignment():
            return consumer
    raise AssertionError("the member has no partitions")


@pytest.fixture(scope="session")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a stopped broker with records, commits and transactions."""
    path = tmp_path_factory.mktemp("broker") / "data"
    config = {"group.initial.rebalance.delay.ms": 0}
    with Broker(topics={"other": 1}, data_directory=path, config=config) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topic = NewTopic("orders", 2, config={"retention.ms": "604800001"})
        admin.create_topics([topic])["orders"].result(10)
        for number in range(30):
            broker.produce("orders", f"value-{number}", key=f"key-{number}", partition=0)
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        with closing(new_member(settings | {"group.id": "new", "group.protocol": "consumer"})):
            pass
        consumer = new_member(settings | {"group.id": "shop"})
        for offset in (7, 9, 3):
            consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        consumer.close()
        producer = Producer(settings | {"transactional.id": "pay"})
        producer.init_transactions(10)
        for ends in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce("other", b"paid", partition=0)
            producer.flush(10)
            ends(10)
    return path


@pytest.fixture
def directory_source(data_directory: Path) -> Iterator[DirectorySource]:
    source = DirectorySource(str(data_directory), AdjustableClock())
    yield source
    source.close()
