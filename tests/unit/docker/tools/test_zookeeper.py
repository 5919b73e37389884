"""`zookeeper-server-start` and `zookeeper-shell`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner


def test_start_of_zookeeper_is_not_needed(offline_tools: ToolRunner) -> None:
    result = offline_tools.run("zookeeper-server-start", "zookeeper.properties")
    assert result.status == 0
    assert "needs no ZooKeeper" in result.error


def test_shell_of_zookeeper_fails(offline_tools: ToolRunner) -> None:
    assert offline_tools.run("zookeeper-shell", "z:2181", "ls", "/").status == 1
