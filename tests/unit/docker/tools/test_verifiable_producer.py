"""`kafka-verifiable-producer`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner


def test_refused_records_are_events(tools: ToolRunner) -> None:
    tools.ask("kafka-topics", "--create", "--topic", "compacted", "--partitions", "1",
              "--config", "cleanup.policy=compact")  # fmt: skip
    result = tools.ask("kafka-verifiable-producer", "--topic", "compacted", "--max-messages", "1")
    events = [json.loads(line) for line in result.lines]
    assert [each["name"] for each in events] == [
        "startup_complete",
        "producer_send_error",
        "shutdown_complete",
        "tool_data",
    ]
    assert (events[-1]["sent"], events[-1]["acked"]) == (1, 0)
