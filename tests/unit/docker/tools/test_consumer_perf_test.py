"""`kafka-consumer-perf-test`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-consumer-perf-test"


def test_missing_records_are_reported(tools: ToolRunner) -> None:
    result = tools.ask(TOOL, "--topic", "orders", "--messages", "1", "--timeout", "1",
                       "--hide-header")  # fmt: skip
    assert result.status == 0
    assert result.lines[0].split(", ")[4] == "0"
    assert result.lines[1].startswith("WARNING: Exiting before consuming the expected number")


def test_a_topic_and_a_number_are_needed(tools: ToolRunner) -> None:
    assert tools.ask(TOOL).error.startswith("Exactly one of --include/--topic is required.")
    refused = tools.ask(TOOL, "--topic", "orders")
    assert refused.error.startswith('Missing required argument "[num-records]"')
