"""`kafka-log-dirs`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-log-dirs"


def test_all_partitions_are_listed(tools: ToolRunner) -> None:
    *_, line = tools.ask(TOOL, "--describe").lines
    (broker,) = json.loads(line)["brokers"]
    partitions = [each["partition"] for each in broker["logDirs"][0]["partitions"]]
    assert sorted(partitions) == ["orders-0", "orders-1", "orders-2"]


def test_describe_is_needed(tools: ToolRunner) -> None:
    result = tools.ask(TOOL)
    assert result.status == 1
    assert result.error.startswith('Missing required argument "[describe]"\nOption')
