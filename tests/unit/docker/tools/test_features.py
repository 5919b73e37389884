"""`kafka-features`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner


def test_a_feature_is_needed(tools: ToolRunner) -> None:
    result = tools.ask("kafka-features", "upgrade")
    assert result.status == 1
    assert result.error.startswith("You must specify at least one feature to upgrade\nOption")


def test_a_feature_is_disabled_and_upgraded(tools: ToolRunner) -> None:
    disabled = tools.ask("kafka-features", "disable", "--feature", "share.version")
    assert disabled.lines == ["share.version was disabled."]
    upgraded = tools.ask("kafka-features", "upgrade", "--feature", "share.version=1")
    assert upgraded.lines == ["share.version was upgraded to 1."]


def test_a_node_has_the_features_of_the_cluster(tools: ToolRunner) -> None:
    described = tools.ask("kafka-features", "describe", "--node-id", "1")
    assert described.lines == tools.ask("kafka-features", "describe").lines
    unknown = tools.ask("kafka-features", "describe", "--node-id", "7")
    assert unknown.error == "--node-id 7: the nodes are 1\n"
