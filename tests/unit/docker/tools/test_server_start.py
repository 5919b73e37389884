"""`kafka-server-start`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.docker.tools import server_start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.docker.tools.tool import ToolRunner

START = "kafka-server-start"


def test_broker_has_the_properties_of_the_file_and_of_the_options(
    offline_tools: ToolRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[tuple[Any, Any]] = []

    def record(environment: object, _: str, *, properties: object) -> int:
        starts.append((environment, properties))
        return 0

    monkeypatch.setattr(server_start, "run", record)
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nlog.retention.ms=5\nother.key=1\n")
    environment = {"KAFKA_NUM_PARTITIONS": "9", "KAFKALITE_BROKERS": "3", "KAFKA_OPTS": "-D"}
    result = offline_tools.run(
        START, str(path), "--override", "num.partitions=4", environment=environment
    )
    assert result.status == 0
    assert starts == [
        (
            {"KAFKALITE_BROKERS": "3", "KAFKA_OPTS": "-D"},
            {"num.partitions": "4", "log.retention.ms": "5"},
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["/none"], "cannot read /none"),
        (["-daemon", "/none"], "-daemon is not supported here"),
        ([], "file"),
    ],
)
def test_invalid_arguments_are_named(
    offline_tools: ToolRunner, arguments: list[str], error: str
) -> None:
    result = offline_tools.run(START, *arguments)
    assert result.status == 1
    assert error in result.error
