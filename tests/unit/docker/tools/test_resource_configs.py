"""Configurations of topics, brokers, loggers, client metrics and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

CONFIGS = "kafka-configs"


def test_all_entities_of_a_type_are_described(tools: ToolRunner) -> None:
    assert tools.ask(CONFIGS, "--describe", "--entity-type", "topics").lines == [
        "Dynamic configs for topic orders are:"
    ]
    headings = tools.ask(CONFIGS, "--describe", "--entity-type", "brokers").lines
    assert [each for each in headings if each.endswith(":")] == [
        "Dynamic configs for broker 1 are:",
        "Default configs for brokers in the cluster are:",
    ]


def test_a_level_of_a_logger_is_set(tools: ToolRunner) -> None:
    logger = ("--broker-logger", "1")
    set_level = tools.ask(CONFIGS, "--alter", *logger, "--add-config", "root=DEBUG")
    assert set_level.lines == ["Completed updating config for broker-logger 1."]
    assert any("root=DEBUG" in line for line in tools.ask(CONFIGS, "--describe", *logger).lines)
