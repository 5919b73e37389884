"""`kafka-consumer-perf-test`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-consumer-perf-test"


def test_missing_records_are_reported(tools: ToolRunner) -> None:
    result = tools.ask(TOOL, "--topic", "orders", "--messages", "1", "--timeout", "1",
                       "--hide-header", "--date-format", "yyyy")  # fmt: skip
    assert result.status == 0
    assert result.lines[0] == "Warning: --messages is deprecated. Use --num-records instead."
    assert result.lines[1].startswith("WARNING: Exiting before consuming the expected number")
    year, _, *figures = result.lines[2].split(", ")
    assert (len(year), figures[2]) == (4, "0")


def test_topics_of_an_expression_are_read_with_reports(broker: Broker, tools: ToolRunner) -> None:
    broker.produce("orders", "value")
    result = tools.ask(TOOL, "--include", "or.*", "--num-records", "1", "--show-detailed-stats",
                       "--reporting-interval", "1")  # fmt: skip
    header, line = result.lines
    assert header.startswith("time, threadId, data.consumed.in.MB, MB.sec")
    assert line.split(", ")[1] == "0"
    assert line.split(", ")[4] == "1"


def test_a_topic_and_a_number_are_needed(tools: ToolRunner) -> None:
    assert tools.ask(TOOL).error.startswith("Exactly one of --include/--topic is required.")
    refused = tools.ask(TOOL, "--include", "(", "--num-records", "1")
    assert refused.error.startswith("--include '(' is not a regular expression: ")
