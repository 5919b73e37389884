"""`kafka-client-metrics`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "Command must include exactly one action"),
        (["--alter"], "One of --name or --generate-name must be specified with --alter."),
        (["--delete"], "A client metrics resource name must be specified with --delete."),
    ],
)
def test_invalid_options_are_refused(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask("kafka-client-metrics", *arguments)
    assert result.status == 1
    assert result.error.startswith(error)
