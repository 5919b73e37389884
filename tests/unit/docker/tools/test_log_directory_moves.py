"""Moves of `kafka-reassign-partitions` between log directories; Kafka's tool prints the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkalite.docker.tools.log_directory_moves import MoveError, Replica, planned_moves
from kafkalite.testing import Broker
from tests.unit.docker.tools.tool import ToolRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOOL = "kafka-reassign-partitions"


@pytest.fixture
def tools(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[ToolRunner]:
    """Return a runner of tools on a broker with two directories."""
    config = {"log.dirs": "/logs/a,/logs/b"}
    with Broker(topics={"orders": 2}, config=config, storage="memory") as broker:
        yield ToolRunner(broker, capsys, monkeypatch)


def plan(path: Path, directory: str) -> tuple[str, str]:
    partitions = [
        {"topic": "orders", "partition": index, "replicas": [1], "log_dirs": [directory]}
        for index in (0, 1)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return "--reassignment-json-file", str(path)


def test_replicas_are_moved_to_a_directory(tools: ToolRunner, tmp_path: Path) -> None:
    for path in ("/logs/a", "/logs/b"):
        options = plan(tmp_path / "plan.json", path)
        assert tools.ask(TOOL, "--execute", *options).lines[-2:] == [
            f"Successfully started moving log directory to {path} for replica orders-{index} "
            "with broker 1 "
            for index in (0, 1)
        ]
        assert tools.ask(TOOL, "--verify", *options).lines[3:5] == [
            f"Reassignment of replica orders-{index}-1 completed successfully." for index in (0, 1)
        ]
    other = plan(tmp_path / "other.json", "/logs/a")
    assert tools.ask(TOOL, "--verify", *other).lines[3] == (
        "Partition orders-0 on broker 1 is not being moved from log dir /logs/b to /logs/a."
    )


def test_the_rate_of_moves_is_set_and_removed(tools: ToolRunner, tmp_path: Path) -> None:
    options = plan(tmp_path / "plan.json", "/logs/a")
    executed = tools.ask(TOOL, "--execute", *options, "--replica-alter-log-dirs-throttle", "5")
    assert "The replica-alter-dir throttle limit was set to 5 B/s" in executed.lines
    configs = ("--describe", "--entity-type", "brokers", "--entity-name", "1")
    key = "replica.alter.log.dirs.io.max.bytes.per.second"
    tools.ask(TOOL, "--verify", *options)
    assert not any(key in line for line in tools.ask("kafka-configs", *configs).lines)


def test_an_unknown_directory_is_an_error(tools: ToolRunner, tmp_path: Path) -> None:
    failed = tools.ask(TOOL, "--execute", *plan(tmp_path / "plan.json", "/nowhere"))
    assert failed.status == 1
    assert any(
        line.startswith("Error: Failed to alter dir for orders-0-1") for line in failed.lines
    )


def test_a_replica_may_be_in_any_directory() -> None:
    row = {"topic": "t", "partition": 3, "replicas": [1, 2]}
    assert planned_moves([row, {**row, "log_dirs": ["any", "/a"]}]) == {Replica("t", 3, 2): "/a"}
    with pytest.raises(MoveError, match=r"^Size of replicas list \[1, 2\] is different from"):
        planned_moves([{**row, "log_dirs": ["/a"]}])
