"""`kafka-verifiable-consumer`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_static_members_stay_in_their_group(
    broker: Broker, tools: ToolRunner, protocol: str
) -> None:
    broker.produce("orders", "value")
    words = ("--topic", "orders", "--group-id", "g", "--max-messages", "1")
    member = ("--group-instance-id", "a", "--group-protocol", protocol)
    result = tools.ask("kafka-verifiable-consumer", *words, *member)
    assert (result.status, result.error) == (0, "")
    described = tools.ask("kafka-consumer-groups", "--describe", "--group", "g", "--members")
    assert [line.split()[0] for line in described.lines if line] == ["GROUP", "g"]
