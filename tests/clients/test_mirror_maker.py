"""MirrorMaker: a worker of Connect copies topics, their settings and offsets of groups.

It reads one kafkalite and writes to another, in transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from kafkalite.testing import Broker
from tests.clients.committed_reader import CommittedReader
from tests.clients.connect import Worker
from tests.clients.observer import committed_offsets, end_offsets, wait_until
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.client, pytest.mark.endurance, pytest.mark.timeout(240)]

_TOPIC: Final = "orders"
_COPY: Final = f"here.{_TOPIC}"
_GROUP: Final = "readers"
_PARTITIONS: Final = 3
_RECORDS: Final = 300
_RETENTION_MS: Final = "86400001"
_TIMEOUT_S: Final = 120.0
_PACKAGE: Final = "org.apache.kafka.connect.mirror"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CONFIG: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@pytest.fixture
def here() -> Iterator[Broker]:
    """Start the cluster that is read."""
    with Broker(config=_CONFIG, log_level="error") as broker:
        yield broker


@pytest.fixture
def there() -> Iterator[Broker]:
    """Start the cluster that is written."""
    with Broker(config=_CONFIG, log_level="error") as broker:
        yield broker


@pytest.fixture
def worker(there: Broker, tmp_path: Path) -> Iterator[Worker]:
    """Launch a worker of the cluster that is written."""
    with required():
        jar_directory()
    worker = Worker(there.bootstrap_servers, tmp_path, "worker")
    worker.launch()
    yield worker
    worker.kill()


def _write_and_read(here: Broker) -> None:
    """Create the topic, write its records, and let a group commit the end of each partition."""
    admin = AdminClient({"bootstrap.servers": here.bootstrap_servers})
    topic = NewTopic(_TOPIC, _PARTITIONS, 1, config={"retention.ms": _RETENTION_MS})
    admin.create_topics([topic])[_TOPIC].result()
    producer = Producer({"bootstrap.servers": here.bootstrap_servers})
    for number in range(_RECORDS):
        producer.produce(_TOPIC, f"{number}".encode(), partition=number % _PARTITIONS)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": here.bootstrap_servers, "group.id": _GROUP})
    ends = [
        TopicPartition(_TOPIC, partition, _RECORDS // _PARTITIONS)
        for partition in range(_PARTITIONS)
    ]
    consumer.commit(offsets=ends, asynchronous=False)
    consumer.close()


def _start_connectors(worker: Worker, here: Broker, there: Broker) -> None:
    clusters = {
        "source.cluster.alias": "here",
        "target.cluster.alias": "there",
        "source.cluster.bootstrap.servers": here.bootstrap_servers,
        "target.cluster.bootstrap.servers": there.bootstrap_servers,
        "replication.factor": "1",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "topics": _TOPIC,
        "groups": _GROUP,
    }
    source = {
        "exactly.once.support": "required",
        "consumer.isolation.level": "read_committed",
        "source.consumer.isolation.level": "read_committed",
        "sync.topic.configs.interval.seconds": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.lag.max": "0",
        "consumer.poll.timeout.ms": "100",
    }
    checkpoint = {
        "checkpoints.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    heartbeat = {
        "heartbeats.topic.replication.factor": "1",
        "emit.heartbeats.interval.seconds": "1",
    }
    for name, settings in (
        ("Source", source),
        ("Checkpoint", checkpoint),
        ("Heartbeat", heartbeat),
    ):
        connector = {"connector.class": f"{_PACKAGE}.Mirror{name}Connector", "tasks.max": "2"}
        config = {**clusters, **settings, **connector}
        worker.ask_until_success("PUT", f"/connectors/{name}/config", config)


def test_records_settings_and_offsets_are_copied(
    here: Broker, there: Broker, worker: Worker
) -> None:
    _write_and_read(here)
    _start_connectors(worker, here, there)
    admin = AdminClient({"bootstrap.servers": there.bootstrap_servers})
    wait_until(
        lambda: {_COPY, "heartbeats"} <= admin.list_topics().topics.keys(), "the copy", _TIMEOUT_S
    )
    with CommittedReader(there.bootstrap_servers, {_COPY: _PARTITIONS}, _TIMEOUT_S) as reader:

        def is_complete() -> bool:
            reader.read()
            return len(reader.messages) >= _RECORDS

        wait_until(is_complete, "copies", _TIMEOUT_S)
        reader.read_to_the_end()
    copies = [(each.partition(), int(each.value() or b"")) for each in reader.messages]
    for partition in range(_PARTITIONS):
        expected = list(range(partition, _RECORDS, _PARTITIONS))
        assert [number for index, number in copies if index == partition] == expected
    resource = ConfigResource(ConfigResource.Type.TOPIC, _COPY)
    settings = admin.describe_configs([resource])[resource].result()
    assert settings["retention.ms"].value == _RETENTION_MS
    # An offset becomes the position after the latest record whose offsets in both are known.
    wait_until(
        lambda: len(committed_offsets(there.bootstrap_servers, _GROUP, _COPY)) == _PARTITIONS,
        "offsets of the group",
        _TIMEOUT_S,
    )
    offsets = committed_offsets(there.bootstrap_servers, _GROUP, _COPY)
    ends = end_offsets(there.bootstrap_servers, _COPY, _PARTITIONS)
    assert all(0 < offset <= ends[partition] for partition, offset in offsets.items())
