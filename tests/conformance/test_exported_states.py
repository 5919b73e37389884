"""The state of a real Kafka, exported, loaded, and read by Java's tools."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.cluster_options import ClusterAccess
from kafkalite.cli.export import state_text_of
from kafkalite.client.access import PLAINTEXT
from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.groups import GroupListing, set_offsets
from kafkalite.client.producer import Producer
from kafkalite.client.records import ProducerRecord
from kafkalite.client.topics import create_topic
from kafkalite.config.typed_json import to_json
from kafkalite.control.declared_state.source import parse_state
from kafkalite.testing import Broker
from tests.oracle.fixtures import running_targets
from tests.oracle.jars import java_command
from tests.oracle.real_kafka import RealKafka
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

TOPIC, GROUP = "exported-orders", "exported-shop"
_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_TIMEOUT_S = 60


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[RealKafka]:
    """Start a Kafka of its own: the export has all that other tests would leave in a shared one."""
    kafka = RealKafka(tmp_path / "kafka", COMMON_CONFIG)
    with running_targets(kafka):
        yield kafka


async def exported(servers: str) -> str:
    addresses = bootstrap_addresses(servers)
    async with KafkaClient(addresses) as client:
        return await state_text_of(client, ClusterAccess(addresses, PLAINTEXT), count=10)


async def test_an_exported_topic_and_group_are_those_of_kafka(kafka: RealKafka) -> None:
    async with KafkaClient(bootstrap_addresses(kafka.bootstrap)) as client:
        configs = {"cleanup.policy": "compact"}
        await create_topic(client, TOPIC, partitions=2, replication_factor=1, configs=configs)
        partition = TopicPartition(TOPIC, 1)
        async with Producer(kafka.bootstrap) as producer:
            for value in (b"one", b"two", None):
                record = ProducerRecord(value, b"key", timestamp_ms=5_000)
                await producer.send_batch(partition, [record])
        group = GroupListing(GROUP, "classic", "", "", 0)
        await set_offsets(client, group, {partition: 1})
    state = parse_state(await exported(kafka.bootstrap)).state
    own = to_json(state) | {
        "topics": {TOPIC: to_json(state.topics[TOPIC])},
        "groups": {GROUP: to_json(state.groups[GROUP])},
        "acls": [],
    }
    with Broker(state=own, storage="memory") as broker:
        again = parse_state(await exported(broker.bootstrap_servers)).state
        assert again.topics == {TOPIC: state.topics[TOPIC]}
        assert again.groups == {GROUP: state.groups[GROUP]}
        assert again.features == state.features
        found = java_output(broker, "--topic", TOPIC, "--group", GROUP, "--max-messages", "2")
    assert found.split() == ["two", "null"]


def java_output(broker: Broker, *arguments: str) -> str:
    """Return the output of Java's console consumer at a broker."""
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    completed = subprocess.run(
        java_command(_CONSUMER, *servers, *arguments),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=True,
    )
    return completed.stdout
