"""`kafka-cluster cluster-id`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner


def test_id_of_the_cluster_is_printed(tools: ToolRunner) -> None:
    result = tools.ask("kafka-cluster", "cluster-id")
    assert result.status == 0
    assert re.fullmatch(r"Cluster ID: \S{22}", result.lines[0])


def test_a_broker_to_unregister_is_named(tools: ToolRunner) -> None:
    result = tools.ask("kafka-cluster", "unregister")
    assert result.status == 1
    assert result.error.startswith("argument --id/-i is required\n")
