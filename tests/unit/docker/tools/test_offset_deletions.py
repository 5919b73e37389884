"""Deleted offsets of groups; `tests/kafka_tools` compares the output with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

GROUPS = "kafka-consumer-groups"


def test_offsets_of_all_partitions_are_deleted(tools: ToolRunner) -> None:
    reset = ("--reset-offsets", "--group", "g", "--topic", "orders", "--to-latest", "--execute")
    tools.ask(GROUPS, *reset)
    deleted = tools.ask(GROUPS, "--delete-offsets", "--group", "g", "--topic", "orders")
    assert [line.split() for line in deleted.lines[2:]] == [
        ["TOPIC", "PARTITION", "STATUS"],
        *(["orders", str(index), "Successful"] for index in range(3)),
    ]
