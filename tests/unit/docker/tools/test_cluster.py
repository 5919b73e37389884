"""`kafka-cluster cluster-id`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.docker.tools.tool import ToolRunner


def test_id_of_the_cluster_is_printed(tools: ToolRunner) -> None:
    result = tools.ask("kafka-cluster", "cluster-id")
    assert result.status == 0
    assert re.fullmatch(r"Cluster ID: \S{22}", result.lines[0])


def test_properties_of_the_client_have_a_short_option(tools: ToolRunner, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=UNKNOWN")
    result = tools.ask_last("kafka-cluster", "cluster-id", "-c", str(path))
    assert result.status == 1
    assert "security.protocol" in result.error


@pytest.mark.parametrize("command", ["unregister", "unregister-controller"])
def test_a_node_to_unregister_is_named(tools: ToolRunner, command: str) -> None:
    result = tools.ask_last("kafka-cluster", command)
    assert result.status == 1
    assert result.error.startswith("argument --id/-i is required\n")


def test_an_unknown_controller_is_not_unregistered(tools: ToolRunner) -> None:
    result = tools.ask_last("kafka-cluster", "unregister-controller", "--id", "9")
    assert (result.status, result.lines) == (1, [])
    assert result.error.startswith(
        "org.apache.kafka.common.errors.ControllerIdNotRegisteredException: Controller ID 9 "
    )
