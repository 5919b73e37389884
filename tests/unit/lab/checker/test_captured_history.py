"""Histories from captures that brokers record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.capture.reading.captures import ignore
from kafkalite.lab.checker import commit_rules
from kafkalite.lab.checker.captured_history import captured_history
from kafkalite.lab.checker.check import check
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path


def record(directory: Path, data: Path | None = None) -> None:
    """Record a consumer that commits a lower offset than before; `data` is for the broker's."""
    with Broker(topics={"orders": 1}, capture=directory, data_directory=data) as broker:
        config = broker.client_config("librdkafka")
        producer = Producer(config | {"client.id": "writer"})
        for number in range(5):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(10) == 0
        reader = Consumer(
            config | {"client.id": "reader", "group.id": "shop", "auto.offset.reset": "earliest"}
        )
        reader.subscribe(["orders"])
        assert len(reader.consume(5, 10)) == 5
        for offset in (5, 3):
            reader.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        reader.close()


def test_a_capture_has_the_history_of_its_clients(tmp_path: Path) -> None:
    record(tmp_path)
    result = check(captured_history([tmp_path], ignore))
    assert (result.acknowledged, result.delivered) == (5, 5)
    (finding,) = (each for each in result.findings if each.rule == commit_rules.REGRESSION)
    assert (finding.records, finding.group) == (2, "shop")
    (file,) = tmp_path.glob("*.pcapng")
    assert all(each.file == str(file) and each.offset > 0 for each in finding.proofs)
