"""Earlier states are read from the data directory of a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.testing import StoppedBroker
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

TIMEOUT_S = 30
COMMITTED = "committed(shop, orders, 0)"


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[RealKafka]:
    with required():
        broker = RealKafka(tmp_path / "kafka", {"group.initial.rebalance.delay.ms": "0"})
        broker.start()
    yield broker
    broker.kill()


def consume_and_commit(bootstrap: str, *, protocol: str) -> None:
    """Consume a record as a member, commit it, and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": protocol,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None
    assert message.error() is None
    consumer.commit(message=message, asynchronous=False)
    consumer.close()


def test_groups_and_transactions_of_kafka_have_their_earlier_states(kafka: RealKafka) -> None:
    bootstrap = kafka.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("orders", b"apples")
    producer.commit_transaction(TIMEOUT_S)
    # Members wait until their coordinators are available, but commits of no member do not.
    for protocol in ("classic", "consumer"):
        consume_and_commit(bootstrap, protocol=protocol)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "shop"})
    for offset in (7, 9, 3):
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    metadata = consumer.consumer_group_metadata()
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, 8)], metadata, TIMEOUT_S)
    producer.commit_transaction(TIMEOUT_S)
    consumer.close()
    kafka.stop()

    stopped = StoppedBroker(kafka.data)
    found = stopped.bisect(f"{COMMITTED} < 5")
    assert (found.before, found.after) == ({COMMITTED: 9}, {COMMITTED: 3})
    assert stopped.at(found.offset).committed("shop", "orders", 0) == 9
    assert stopped.at(found.at_iso).committed("shop", "orders", 0) == 3
    marker = stopped.bisect(f"{COMMITTED} == 8")
    assert marker.record.startswith("COMMIT of producer ")
    assert stopped.at("0s").transaction("payments").state.label == "CompleteCommit"
    ended = stopped.bisect("transaction(payments) == PrepareCommit")
    assert ended.before == {"transaction(payments)": "Ongoing"}
    for protocol in ("classic", "consumer"):
        joined = stopped.bisect(f"members({protocol}) == 1 and state({protocol}) == Stable")
        group = stopped.at(joined.at_iso).group(protocol)
        assert (group.type, group.state, len(group.members)) == (protocol, "Stable", 1)
        assert stopped.at("0s").group(protocol).offsets[0].offset == 1
    assert stopped.at("0s").topic("orders").partitions[0].end_offset == 2
