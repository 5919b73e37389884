"""Captures for the code blocks that read them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer

from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

CAPTURE_NAMES = (
    "captures", "captures-with-2.15", "captures-with-2.16", "kafka", "kafkalite",
)  # fmt: skip
"""Names of directories with captures in the documentation."""


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a producer and a consumer group that commits; the broker has the topic orders:3."""
    directory = tmp_path_factory.mktemp("recorded")
    with Broker(topics={"orders": 3}, capture=directory) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "payments-1"}
        producer = Producer(settings)
        producer.produce("orders", key=b"42", value=b"two apples", partition=0)
        assert producer.flush(30) == 0
        group = {"group.id": "shop", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings | group)
        consumer.subscribe(["orders"])
        record = consumer.poll(30)
        assert record is not None
        consumer.commit(asynchronous=False)
        consumer.close()
    return directory


@pytest.fixture
def workspace(tmp_path: Path, captures: Path) -> Path:
    """Return a directory with the files that command lines in the documentation name."""
    for name in CAPTURE_NAMES:
        shutil.copytree(captures, tmp_path / name)
    (tmp_path / "server.properties").write_text("num.partitions=3\n", encoding="utf-8")
    return tmp_path
