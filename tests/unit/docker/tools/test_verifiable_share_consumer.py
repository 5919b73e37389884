"""`kafka-verifiable-share-consumer`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner


def test_records_are_acknowledged(broker: Broker, tools: ToolRunner) -> None:
    broker.produce("orders", "value", partition=1)
    result = tools.ask("kafka-verifiable-share-consumer", "--topic", "orders", "--group-id", "g",
                       "--max-messages", "1", "--offset-reset-strategy", "EARLIEST",
                       "--acknowledgement-mode", "SYNC")  # fmt: skip
    events = [json.loads(line) for line in result.lines]
    assert [each["name"] for each in events] == [
        *("startup_complete", "offset_reset_strategy_set", "records_consumed"),
        *("offsets_acknowledged", "shutdown_complete", "shutdown_requested"),
    ]
    row = {"topic": "orders", "partition": 1, "count": 1, "offsets": [0]}
    assert events[2]["partitions"] == events[3]["partitions"] == [row]
    assert events[3]["success"] is True


def test_records_are_acknowledged_by_a_pattern(broker: Broker, tools: ToolRunner) -> None:
    for number in range(2):
        broker.produce("orders", str(number), partition=0)
    result = tools.ask("kafka-verifiable-share-consumer", "--topic", "orders", "--group-id", "g",
                       "--max-messages", "3", "--offset-reset-strategy", "earliest",
                       "--acknowledgement-mode", "sync", "--ack-pattern", "accept,release",
                       "--verbose")  # fmt: skip
    assert result.status == 0, result.error


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("accept", "--ack-pattern requires --acknowledgement-mode to be 'sync' or 'async'"),
        ("maybe", "--ack-pattern: maybe is not one of accept, release, reject, renew"),
    ],
)
def test_invalid_patterns_are_refused(offline_tools: ToolRunner, pattern: str, error: str) -> None:
    result = offline_tools.run("kafka-verifiable-share-consumer", "--topic", "a", "--group-id",
                               "g", "--ack-pattern", pattern)  # fmt: skip
    assert result.status == 1
    assert result.error.startswith(error)
