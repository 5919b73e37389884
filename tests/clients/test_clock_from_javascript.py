"""A broker whose clock is controlled by a test in another language."""

from __future__ import annotations

import json
import subprocess

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkalite.testing import Broker
from tests.clients.client_libraries import kafkajs_program
from tests.oracle.requirements import required

pytestmark = [pytest.mark.client, pytest.mark.endurance]


def test_javascript_test_advances_time_by_a_week() -> None:
    with required():
        program = kafkajs_program("clock.js")
    config = {"connections.max.idle.ms": -1}
    with Broker(
        topics={"orders": 1}, control=True, clock="manual@2026-03-01", config=config
    ) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shop"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 42)], asynchronous=False)
        consumer.close()
        command = [*program, broker.bootstrap_servers, broker.control_url]
        completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 0, completed.stderr
    result = json.loads(completed.stdout)
    assert (result["before"], result["after"]) == ("42", "-1")
    assert result["iso"] == "2026-03-09T00:00:00.000Z"
    assert "expired" in result["kinds"]
