"""The final state of a run: records that are doubled, and transactions that are open."""

from __future__ import annotations

from confluent_kafka import Producer

from kafkalite.lab.sweep.final_state import HANGING, Anomaly, anomalies_of, in_sync
from kafkalite.lab.sweep.requests import Partition
from kafkalite.testing import Broker


def test_an_open_transaction_is_found_until_it_ends() -> None:
    with Broker(topics={"orders": 1}, storage="memory") as broker:
        broker.start_checking()
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "pay"}
        producer = Producer(settings)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"apples")
        assert producer.flush(30) == 0
        text = "the transaction of pay was not ended (Ongoing)"
        assert [*anomalies_of(broker)] == [Anomaly(HANGING, text)]
        producer.commit_transaction(30)
        assert not anomalies_of(broker)
        assert in_sync(broker) == {Partition("orders", 0): 1}


def test_records_are_found_twice_although_no_client_has_read_them() -> None:
    with Broker(topics={"orders": 1}, storage="memory") as broker:
        broker.start_checking()
        broker.faults.add(api="Produce", disconnect="after", nth=1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"apples")
        assert producer.flush(30) == 0
        (found,) = anomalies_of(broker)
    assert found.rule == "duplicate in the log"
    assert "sent it again without idempotence" in found.text
