"""Unhandled errors: records and commits that were refused, and members that were expelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from kafkalite.lab.sweep.runs import recorded
from kafkalite.lab.sweep.unhandled import (
    UNHANDLED,
    lost_records,
    notes_of,
    record_count,
)
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.sweep.requests import RequestRecorder


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1, "dead": 1}, storage="memory", clock="manual") as running:
        yield running


def send(broker: Broker, *values: str) -> None:
    """Send records one by one, without a retry."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop", "retries": 0}
    producer = Producer(settings)
    for value in values:
        producer.produce("orders", value)
        assert producer.flush(30) == 0


def found(broker: Broker, recorder: RequestRecorder, usual_count: int) -> list[str]:
    anomalies = [*lost_records(broker, recorder.exchanges(), usual_count)]
    assert {each.rule for each in anomalies} <= {UNHANDLED}
    return [each.text for each in anomalies]


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ({"error": "KAFKA_STORAGE_ERROR"}, "refused with KAFKA_STORAGE_ERROR"),
        ({"disconnect": "before"}, "lost with the connection"),
    ],
)
def test_a_refused_record_that_is_never_written_is_found(
    broker: Broker, action: dict[str, str], reason: str
) -> None:
    recorder = recorded(broker)
    broker.faults.add(api="Produce", nth=2, **action)  # type: ignore[arg-type]
    send(broker, "apples", "pears", "plums")
    assert record_count(broker) == 2
    text = f"1 record of shop to orders-0: {reason}, and never written, but the command succeeded"
    assert found(broker, recorder, 3) == [text]
    assert found(broker, recorder, 2) == []
    broker.produce("dead", "pears")
    assert found(broker, recorder, 3) == []


def test_a_record_that_is_written_without_an_answer_or_again_is_not_lost(broker: Broker) -> None:
    recorder = recorded(broker)
    broker.faults.add(api="Produce", nth=1, disconnect="after")
    broker.faults.add(api="Produce", nth=2, error="KAFKA_STORAGE_ERROR")
    send(broker, "apples", "pears", "pears")
    assert found(broker, recorder, 3) == []


def consumer_of(broker: Broker) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
    )


def test_a_commit_is_noted_that_is_refused_and_not_followed_by_another(broker: Broker) -> None:
    recorder = recorded(broker)
    broker.faults.add(api="OffsetCommit", nth=2, error="GROUP_AUTHORIZATION_FAILED")
    consumer = consumer_of(broker)

    def commit(offset: int) -> None:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)

    commit(1)
    assert [*notes_of(broker, recorder.exchanges())] == []
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        commit(3)
    (note,) = notes_of(broker, recorder.exchanges())
    assert note == (
        "unhandled error: group billing got GROUP_AUTHORIZATION_FAILED for its commit of offset 3 "
        "of orders-0, and has committed 1 at the end"
    )
    commit(4)
    assert [*notes_of(broker, recorder.exchanges())] == []
    consumer.close()


def test_an_expelled_member_is_noted(broker: Broker) -> None:
    recorder = recorded(broker)
    broker.produce("orders", "apples")
    consumer = consumer_of(broker)
    consumer.subscribe(["orders"])
    broker.faults.add(api="Heartbeat", lost="answer")
    consumer.poll(0.1)
    broker.wait_for_group("billing", members=1)
    broker.clock.advance(seconds=7)
    notes = [*notes_of(broker, recorder.exchanges())]
    consumer.close()
    (note,) = notes
    assert note.startswith("expelled member: ")
    assert "(session-timeout)" in note
