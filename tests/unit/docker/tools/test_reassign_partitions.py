"""`kafka-reassign-partitions`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkalite.testing import Broker
from tests.unit.docker.tools.tool import ToolRunner

if TYPE_CHECKING:
    from pathlib import Path

TOOL = "kafka-reassign-partitions"


def plan(path: Path, *rows: tuple[int, list[int]]) -> str:
    partitions = [
        {"topic": "orders", "partition": index, "replicas": replicas} for index, replicas in rows
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def test_a_partition_is_moved_to_another_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(topics={"orders": 1}, brokers=2) as broker:
        tools = ToolRunner(broker, capsys, monkeypatch)
        topics = tmp_path / "topics.json"
        topics.write_text('{"topics": [{"topic": "orders"}]}')
        generated = tools.ask(TOOL, "--generate", "--topics-to-move-json-file", str(topics),
                              "--broker-list", "2")  # fmt: skip
        proposed = tmp_path / "proposed.json"
        proposed.write_text(generated.lines[-1])
        options = ("--reassignment-json-file", str(proposed))
        moved = tools.ask(TOOL, "--execute", *options)
        assert moved.lines[-1] == "Successfully started partition reassignment for orders-0"
        verified = tools.ask(TOOL, "--verify", *options)
        assert verified.lines[1] == "Reassignment of partition orders-0 is completed."
        former = plan(tmp_path / "former.json", (0, [1]))
        verified = tools.ask(TOOL, "--verify", "--reassignment-json-file", former)
        assert verified.lines[1].endswith("but replica set is 2 rather than 1.")


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([(0, [1]), (0, [1])], "Partition reassignment contains duplicate topic partitions"),
        ([(0, [1, 1])], "Partition replica lists may not contain duplicate entries"),
        ([(7, [1])], "Error reassigning partition(s):"),
    ],
)
def test_an_invalid_plan_is_refused(
    tools: ToolRunner, tmp_path: Path, rows: list[tuple[int, list[int]]], error: str
) -> None:
    path = plan(tmp_path / "plan.json", *rows)
    result = tools.ask(TOOL, "--execute", "--reassignment-json-file", path)
    assert result.status == 1
    assert any(line.startswith(f"Error: {error}") for line in result.lines)


def test_a_file_is_needed(tools: ToolRunner) -> None:
    result = tools.ask(TOOL, "--execute")
    assert result.error.startswith('Missing required argument "[reassignment-json-file]"')


def test_a_move_between_directories_is_cancelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(topics={"orders": 1}, config={"log.dirs": "/logs/a,/logs/b"}) as broker:
        tools = ToolRunner(broker, capsys, monkeypatch)
        for _ in range(3):
            broker.produce("orders", b"v" * 500_000)
        path = tmp_path / "plan.json"
        row = {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": ["/logs/b"]}
        path.write_text(json.dumps({"version": 1, "partitions": [row]}))
        options = ("--reassignment-json-file", str(path))
        throttle = ("--replica-alter-log-dirs-throttle", "1")
        tools.ask(TOOL, "--execute", *options, *throttle)
        assert tools.ask(TOOL, "--verify", *options).lines[-1].endswith("is still in progress.")
        cancelled = tools.ask(TOOL, "--cancel", *options)
        first, second, *_ = cancelled.lines
        assert first == "None of the specified partition reassignments are active."
        assert second.startswith("Successfully started moving log directory to /logs/a for replica")
        assert (
            "is not being moved from log dir /logs/a"
            in tools.ask(TOOL, "--verify", *options).lines[2]
        )


@pytest.mark.parametrize("topics", [5, [], ["orders"], [{"topic": 5}]])
def test_a_file_without_topics_is_refused(
    tools: ToolRunner, tmp_path: Path, topics: object
) -> None:
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"topics": topics}))
    options = ("--topics-to-move-json-file", str(path), "--broker-list", "1")
    result = tools.ask(TOOL, "--generate", *options)
    assert result.status == 1
    assert "has no list topics" in f"{result.error}{result.lines}"
