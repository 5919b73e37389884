"""`kafka-delete-records`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-delete-records"


def test_partitions_that_do_not_exist_have_an_error(tools: ToolRunner, tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    rows = [{"topic": "none", "partition": 0, "offset": 1}]
    path.write_text(json.dumps({"partitions": rows}))
    result = tools.ask(TOOL, "--offset-json-file", str(path))
    assert result.status == 0
    assert result.lines[2].startswith("partition: none-0\terror: org.apache.kafka.common.errors.")


def test_an_offset_that_no_request_can_have_is_refused(tools: ToolRunner, tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    rows = [{"topic": "orders", "partition": 0, "offset": 1 << 70}]
    path.write_text(json.dumps({"partitions": rows}))
    result = tools.ask(TOOL, "--offset-json-file", str(path))
    assert result.status == 1
    assert result.error.startswith(f"{TOOL}: {path}: each of partitions needs a valid offset")


def test_a_partition_twice_is_refused(tools: ToolRunner, tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    row = {"topic": "orders", "partition": 0, "offset": 1}
    path.write_text(json.dumps({"partitions": [row, row]}))
    result = tools.ask(TOOL, "--offset-json-file", str(path))
    assert result == (1, [], "Offset json file contains duplicate topic partitions\n")
