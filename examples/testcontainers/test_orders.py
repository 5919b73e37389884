"""Tests with a kafkalite container."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from kafkalite_container import KafkaliteContainer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaliteContainer]:
    with KafkaliteContainer(topics={"orders": 3}) as container:
        yield container


def test_an_order_is_written(kafka: KafkaliteContainer) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("orders", b"two apples", partition=2)
    assert producer.flush(10) == 0


def test_the_clock_of_the_broker_moves(kafka: KafkaliteContainer) -> None:
    kafka.run("clock", "pause")
    before = kafka.run("clock")
    assert kafka.run("clock", "advance", "7d") != before
