"""`kafka-verifiable-consumer`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner


def test_static_members_are_not_supported(tools: ToolRunner) -> None:
    result = tools.ask("kafka-verifiable-consumer", "--topic", "orders", "--group-id", "g",
                       "--group-instance-id", "a")  # fmt: skip
    assert result.status == 1
    assert result.error.startswith("--group-instance-id is not supported here")
