"""`cub kafka-ready`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner


def test_cluster_with_enough_brokers_is_ready(broker: Broker, tools: ToolRunner) -> None:
    servers = broker.bootstrap_servers
    assert tools.run("cub", "kafka-ready", "-b", servers, "1", "20") == (0, [], "")
    assert tools.run("cub", "kafka-ready", "1", "20", "-b", servers).status == 0


def test_cluster_with_fewer_brokers_is_not_ready(broker: Broker, tools: ToolRunner) -> None:
    result = tools.run("cub", "kafka-ready", "-b", broker.bootstrap_servers, "2", "0")
    assert result.status == 1
    assert "Expected 2 brokers" in result.error


def test_closed_port_is_not_ready(offline_tools: ToolRunner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    result = offline_tools.run("cub", "kafka-ready", "-b", f"127.0.0.1:{port}", "1", "1")
    assert result.status == 1
    assert "connection refused" in result.error


def test_zookeeper_need_not_be_ready(offline_tools: ToolRunner) -> None:
    assert offline_tools.run("cub", "zk-ready", "z:2181", "20").status == 0


def test_invalid_numbers_are_an_error(offline_tools: ToolRunner) -> None:
    result = offline_tools.run("cub", "kafka-ready", "-b", "a:1", "one", "20")
    assert result.status == 1
    assert "with two numbers" in result.error
