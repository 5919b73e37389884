"""A data directory is moved from Kafka to kafkalite and back, more than once.

Each broker finds the topics, the groups and their offsets, the transactional ids and the users of
the other one, and adds its own. Once Kafka is killed, so that kafkalite recovers its logs.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from shutil import copytree, rmtree
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.clients.observer import wait_until
from tests.conformance.sasl_cases import create_users
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]

_RECORDS: Final = 20
_TIMEOUT_S: Final = 30.0


def add_data(bootstrap: str, name: str) -> None:
    """Create a topic, and write and read it with groups of both protocols and a transaction."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(_TIMEOUT_S)
    wait_until(lambda: name in admin.list_topics(timeout=_TIMEOUT_S).topics, "the topic")
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(_RECORDS):
        producer.produce(name, f"{name}-{number}", partition=number % 2)
    assert producer.flush(_TIMEOUT_S) == 0
    for protocol in ("classic", "consumer"):
        read_and_commit(bootstrap, name, f"{name}-{protocol}", protocol)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "the-same"})
    producer.init_transactions(_TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(name, b"in a transaction", partition=0)
    producer.commit_transaction(_TIMEOUT_S)


def read_and_commit(bootstrap: str, topic: str, group: str, protocol: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    read: list[object] = []

    def is_read() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            read.append(message.value())
        return len(read) == _RECORDS

    wait_until(is_read, "the records")
    consumer.commit(asynchronous=False)
    consumer.close()


def contents(bootstrap: str) -> dict[str, Any]:
    """Return the topics, the offsets of all groups, and the users."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = admin.list_topics(timeout=_TIMEOUT_S).topics
    groups = sorted(each.group_id for each in admin.list_consumer_groups().result().valid)
    offsets = {}
    for group in groups:
        request = [ConsumerGroupTopicPartitions(group)]
        found = admin.list_consumer_group_offsets(request)[group].result(_TIMEOUT_S)
        offsets[group] = sorted(
            (each.topic, each.partition, each.offset) for each in found.topic_partitions
        )
    users: Any = admin.describe_user_scram_credentials()  # its type does not say which result
    return {
        "topics": sorted(
            (name, len(topic.partitions))
            for name, topic in topics.items()
            if not name.startswith("__")
        ),
        "offsets": offsets,
        "users": sorted(users.result(_TIMEOUT_S)),
    }


def wait_for(bootstrap: str, expected: Mapping[str, Any]) -> None:
    """Wait until a broker has loaded all data: Kafka loads groups after its start."""

    def is_loaded() -> bool:
        try:
            return contents(bootstrap) == expected
        except KafkaException:
            return False

    wait_until(is_loaded, "the data")


def move(source: Path, target: Path) -> None:
    if target.exists():
        rmtree(target)
    copytree(source, target)


@contextmanager
def running(broker: RealKafka | ServedKafkalite, *, is_killed: bool = False) -> Iterator[str]:
    """Run a broker until the end of the block."""
    with ExitStack() as stack:
        stack.callback(broker.kill)
        broker.start()
        yield broker.bootstrap
        if not is_killed:
            broker.stop()


def test_a_directory_moves_between_both_brokers(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path / "kafka")
    kafkalite = ServedKafkalite(tmp_path / "kafkalite")
    expected: dict[str, Any] = {}
    for number in range(2):
        with required(), running(kafka, is_killed=number == 1) as bootstrap:
            if number:
                wait_for(bootstrap, expected)
            else:
                create_users(bootstrap, is_open=True)
            add_data(bootstrap, f"kafka-{number}")
            expected = contents(bootstrap)
        move(kafka.data, kafkalite.data)
        with running(kafkalite) as bootstrap:
            assert contents(bootstrap) == expected
            add_data(bootstrap, f"kafkalite-{number}")
            expected = contents(bootstrap)
        move(kafkalite.data, kafka.data)
    with required(), running(kafka) as bootstrap:
        wait_for(bootstrap, expected)
    assert len(expected["offsets"]) == 8
    assert expected["users"] == ["alice", "bob"]


def test_a_start_without_tiered_storage_names_the_topics_that_have_it(tmp_path: Path) -> None:
    """Kafka starts, too. It would need a plug-in for tiered storage, so kafkalite has the topic."""
    kafka = RealKafka(tmp_path / "kafka")
    enabled = {**COMMON_CONFIG, "remote.log.storage.system.enable": "true"}
    kafkalite = ServedKafkalite(tmp_path / "kafkalite", enabled)
    with required(), running(kafka):
        pass
    move(kafka.data, kafkalite.data)
    with running(kafkalite) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        tiered = NewTopic("tiered", 1, 1, config={"remote.storage.enable": "true"})
        admin.create_topics([tiered])["tiered"].result(_TIMEOUT_S)
    move(kafkalite.data, kafka.data)
    message = (
        "You have to delete all topics with the property remote.storage.enable=true before "
        "disabling tiered storage cluster-wide"
    )
    with running(kafka):
        wait_until(lambda: message in kafka.log_text(), "the error of Kafka")
    with running(ServedKafkalite(tmp_path / "kafkalite", COMMON_CONFIG)):
        log = "".join(path.read_text() for path in (tmp_path / "kafkalite").glob("*.log"))
    assert message in log
