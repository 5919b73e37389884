"""Broker.check: what became of the records of real clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.lab.checker import commit_rules, delivery_rules, log_rules
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "orders"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={TOPIC: 1}, storage="memory") as broker:
        broker.start_checking()
        yield broker


def produced(broker: Broker, count: int, **settings: object) -> None:
    """Write records, each in a request of its own."""
    config = broker.client_config("librdkafka") | {"client.id": "writer", "linger.ms": 0}
    producer = Producer(config | settings)
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number)
        assert producer.flush(10) == 0


def consumer(broker: Broker, name: str, **settings: object) -> Consumer:
    config = broker.client_config("librdkafka") | {
        "client.id": name,
        "group.id": "shop",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    reader = Consumer(config | settings)
    reader.subscribe([TOPIC])
    return reader


def read(reader: Consumer, count: int) -> None:
    for message in reader.consume(count, 10):
        assert message.error() is None
        count -= 1
    assert count == 0


def test_correct_clients_lose_nothing(broker: Broker) -> None:
    produced(broker, 10, **{"enable.idempotence": True})
    reader = consumer(broker, "reader")
    read(reader, 10)
    reader.commit(asynchronous=False)
    reader.close()
    result = broker.check()
    assert result.findings == ()
    assert (result.acknowledged, result.delivered) == (10, 10)


def test_a_commit_past_unread_records_loses_them(broker: Broker) -> None:
    produced(broker, 3)
    reader = consumer(broker, "reader")
    read(reader, 3)
    with broker.faults.add(api="Fetch", hold=True):
        produced(broker, 4)
        reader.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
        (finding,) = broker.check().violations
    reader.close()
    assert (finding.rule, finding.cause) == (
        delivery_rules.LOST,
        delivery_rules.SKIPPED_BY_COMMIT,
    )
    assert finding.offsets is not None
    assert finding.offsets.last == 6


def test_a_lost_answer_doubles_records_without_idempotence(broker: Broker) -> None:
    broker.faults.add(api="Produce", disconnect="after", times=1)
    produced(broker, 1, **{"enable.idempotence": False, "socket.timeout.ms": 1000})
    reader = consumer(broker, "reader")
    read(reader, 2)
    reader.close()
    (finding,) = broker.check().violations
    assert (finding.rule, finding.records) == (log_rules.DUPLICATE, 1)
    assert finding.client is not None
    assert finding.client.id == "writer"


def test_a_lower_commit_is_a_regression(broker: Broker) -> None:
    produced(broker, 5)
    reader = consumer(broker, "reader")
    read(reader, 5)
    for offset in (5, 2):
        reader.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    reader.close()
    (finding,) = broker.check().of_rule(commit_rules.REGRESSION)
    assert (finding.cause, finding.records) == (commit_rules.MOVED_BACK, 3)


def test_a_check_needs_a_history() -> None:
    with (
        Broker(storage="memory") as broker,
        pytest.raises(RuntimeError, match="call start_checking before the clients start"),
    ):
        broker.check()


def test_a_new_history_begins_empty(broker: Broker) -> None:
    produced(broker, 1)
    broker.start_checking()
    assert broker.check().acknowledged == 0
