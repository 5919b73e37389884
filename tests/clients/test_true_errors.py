"""Errors that a fault makes true, with a real client: it recovers as after an error of Kafka."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.client


@pytest.fixture
def broker() -> Iterator[Broker]:
    # The clock stands still: a member that does not exist any more would never leave its group.
    with Broker(topics={"orders": 1}, clock="manual") as running:
        yield running


def kinds_after_join(broker: Broker, consumer: Consumer, last: str | None = None) -> list[str]:
    """Poll until the consumer joins its group after an event; return the group's history."""
    for _ in range(300):
        consumer.poll(0.1)
        kinds = [entry.kind for entry in broker.explain("shop")]
        if "joined" in kinds[kinds.index(last) if last in kinds else 0 :]:
            return kinds
    raise AssertionError("the consumer has not joined")


@pytest.mark.parametrize(
    ("protocol", "api"), [("classic", "Heartbeat"), ("consumer", "ConsumerGroupHeartbeat")]
)
def test_a_member_with_the_error_joins_again_without_waiting_for_itself(
    broker: Broker, protocol: str, api: str
) -> None:
    settings: dict[str, str | int] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "shop",
        "group.protocol": protocol,
    }
    if protocol == "classic":
        settings["heartbeat.interval.ms"] = 100
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["orders"])
        kinds_after_join(broker, consumer)
        fault = broker.faults.add(api=api, group="shop", error="UNKNOWN_MEMBER_ID", times=1)
        fault.wait(timeout=30)
        kinds = kinds_after_join(broker, consumer, "refused")
        assert kinds.index("expelled") < kinds.index("refused")
        broker.wait_for_group("shop", state="Stable", members=1, timeout=30)


def test_a_fenced_producer_has_lost_its_transaction(broker: Broker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "shop"}
    producer = Producer(settings)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"two apples")
    producer.flush()
    broker.faults.add(api="EndTxn", error="PRODUCER_FENCED", times=1)
    with pytest.raises(KafkaException, match="fenced"):
        producer.commit_transaction()
    (transaction,) = broker.transactions()
    assert transaction.state.label == "CompleteAbort"
    successor = Producer(settings)
    successor.init_transactions()
    successor.begin_transaction()
    successor.produce("orders", b"three pears")
    successor.commit_transaction()
