"""A broker whose time is driven by a test that is not written in Python."""

from __future__ import annotations

import json
import subprocess

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafkalite.testing import Broker
from tests.clients.roster import kafkajs_program
from tests.oracle.requirements import required

pytestmark = pytest.mark.client


def test_a_week_passes_for_a_test_in_javascript() -> None:
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
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["before"], told["after"]) == ("42", "-1")
    assert told["iso"] == "2026-03-09T00:00:00.000Z"
    assert "expired" in told["kinds"]
