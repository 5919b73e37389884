"""`kafka-delegation-tokens`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "Command must include exactly one action"),
        (["--create"], 'Missing required argument "[max-life-time-period]"'),
        (["--describe", "--owner-principal", "ann"], "kafka-delegation-tokens: 'ann' is not a"),
        (
            ["--renew", "--renew-time-period", "1", "--hmac", "?"],
            "kafka-delegation-tokens: --hmac '?' is not base64",
        ),
    ],
)
def test_invalid_options_are_refused(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask("kafka-delegation-tokens", *arguments)
    assert result.status == 1
    assert result.error.startswith(error)
