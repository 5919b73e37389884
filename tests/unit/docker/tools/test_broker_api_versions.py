"""`kafka-broker-api-versions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner


def test_versions_of_each_broker_are_printed(broker: Broker, tools: ToolRunner) -> None:
    result = tools.ask("kafka-broker-api-versions")
    assert result.status == 0
    assert result.lines[0] == f"{broker.bootstrap_servers} (id: 1 rack: null isFenced: false) -> ("
    assert result.lines[1] == "\tProduce(0): 0 to 13 [usable: 13],"
    assert "\tPushTelemetry(72): UNSUPPORTED," in result.lines
    assert "\tDescribeProducers(61): 0 [usable: 0]," in result.lines
    assert result.lines[-1] == ")"
    assert tools.ask_last("kafka-cluster", "api-versions") == result
