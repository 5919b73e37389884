"""`kafka-run-class`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.docker.programs import TOOLS
from kafkalite.docker.tools.run_class import CLASSES
from tests.kafka_tools.scripts import SCRIPTS

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-run-class"


def test_former_classes_run_the_tools(tools: ToolRunner) -> None:
    assert tools.ask_last(TOOL, "-loggc", "kafka.admin.TopicCommand", "--list").lines == ["orders"]
    named = ["-name", "offsets", "kafka.tools.GetOffsetShell", "--topic", "orders"]
    assert len(tools.ask_last(TOOL, *named).lines) == 3


def test_former_classes_have_former_options(broker: Broker, tools: ToolRunner) -> None:
    address = ("--broker-list", broker.bootstrap_servers)
    result = tools.run(TOOL, "kafka.tools.GetOffsetShell", *address, "--topic", "orders")
    assert (result.status, len(result.lines)) == (0, 3)


def test_an_unknown_class_is_named(offline_tools: ToolRunner) -> None:
    result = offline_tools.run(TOOL, "kafka.None")
    assert result.status == 1
    assert result.error.startswith("Error: Could not find or load main class kafka.None\n")
    assert offline_tools.run(TOOL).error.startswith("USAGE: kafka-run-class")


def test_the_classes_are_those_of_the_scripts() -> None:
    named = {tool: classes[0] for tool, classes in CLASSES.items() if tool in SCRIPTS}
    assert named == {tool: SCRIPTS[tool].main_class for tool in named}
    assert {tool for tool in TOOLS if tool in SCRIPTS} <= named.keys()
