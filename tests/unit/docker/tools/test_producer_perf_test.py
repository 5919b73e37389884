"""`kafka-producer-perf-test`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-producer-perf-test"
ORDERS = ("--topic", "orders", "--num-records", "4", "--throughput")


def test_lines_of_a_file_are_sent(broker: Broker, tools: ToolRunner, tmp_path: Path) -> None:
    path = tmp_path / "payload"
    path.write_text("a\nbc\n")
    result = tools.run(
        TOOL, *ORDERS, "1000", "--payload-file", str(path),
        "--producer-props", f"bootstrap.servers={broker.bootstrap_servers}", "acks=1",
    )  # fmt: skip
    assert result.lines[0].startswith("4 records sent, ")
    read = tools.ask("kafka-console-consumer", "--topic", "orders", "--from-beginning",
                     "--max-messages", "4")  # fmt: skip
    assert sorted(read.lines) == ["a", "a", "bc", "bc"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "argument --topic is required"),
        ([*ORDERS, "-1"], "one of the arguments --record-size --payload-file"),
    ],
)
def test_invalid_options_are_refused(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask(TOOL, *arguments)
    assert result.status == 1
    assert result.error.startswith(error)
