"""`kafka-leader-election`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-leader-election"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "Missing required option(s): election-type"),
        (["--election-type", "new"], "--election-type is one of preferred, unclean"),
        (["--election-type", "UNCLEAN"], "One and only one of the following options is required"),
        (["--election-type", "unclean", "--topic", "a"], "Missing required option(s): partition"),
    ],
)
def test_invalid_options_are_refused(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask(TOOL, *arguments)
    assert result.status == 1
    assert result.error.startswith(error)
