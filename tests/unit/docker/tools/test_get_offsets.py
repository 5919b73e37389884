"""`kafka-get-offsets`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-get-offsets"


def test_ranges_of_partitions_are_selected(tools: ToolRunner) -> None:
    tools.send("a\n", "--topic", "orders")
    assert tools.ask(TOOL, "--topic-partitions", "ord.*:1-,none").lines == [
        "orders:1:0",
        "orders:2:0",
    ]
    assert tools.ask(TOOL, "--topic-partitions", "orders:-1", "--time", "-1").lines == [
        "orders:0:1"
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--topic", "a", "--topic-partitions", "a:0"], "--topic-partitions cannot be used with"),
        (["--time", "soon"], "Malformed time argument soon"),
        (["--topic-partitions", "a:b"], "Invalid rule specification: a:b"),
        (["--partitions", "a"], "--partitions expects a comma separated list of numeric"),
        (["--topic", "("], "( is an invalid regex"),
    ],
)
def test_invalid_options_are_refused(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask(TOOL, *arguments)
    assert result.status == 1
    assert result.error.startswith(f"Error occurred: {error}")
