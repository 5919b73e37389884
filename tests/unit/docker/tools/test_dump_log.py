"""`kafka-dump-log`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kafkalite.storage.batch import CONTROL, build_batch
from kafkalite.storage.record_format import NewRecord
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-dump-log"
SEGMENT = "00000000000000000000"


def test_logs_of_coordinators_are_decoded(tmp_path: Path, offline_tools: ToolRunner) -> None:
    config = {"offsets.topic.num.partitions": "1"}
    with Broker(topics={"orders": 1}, data_directory=tmp_path, config=config) as broker:
        servers = broker.bootstrap_servers
        offline_tools.run(
            "kafka-consumer-groups", "--bootstrap-server", servers, "--reset-offsets", "--group",
            "g", "--topic", "orders", "--to-latest", "--execute",
        )  # fmt: skip
    path = tmp_path / "__consumer_offsets-0" / f"{SEGMENT}.log"
    dumped = offline_tools.run(TOOL, "--offsets-decoder", "--files", str(path))
    assert dumped.status == 0
    expected = 'key: {"type":"1","data":{"group":"g","topic":"orders","partition":0}} payload: '
    assert any(expected in line for line in dumped.lines)


def test_entries_of_indexes_are_printed(tmp_path: Path, offline_tools: ToolRunner) -> None:
    index = tmp_path / f"{SEGMENT}.index"
    index.write_bytes(struct.pack(">iiii", 5, 70, 9, 140))
    times = tmp_path / f"{SEGMENT}.timeindex"
    times.write_bytes(struct.pack(">qi", 1_000, 5))
    other = tmp_path / "leader-epoch-checkpoint"
    assert offline_tools.run(TOOL, "--files", f"{index},{times},{other}").lines == [
        f"Dumping {index}",
        "offset: 5 position: 70",
        "offset: 9 position: 140",
        f"Dumping {times}",
        "timestamp: 1000 offset: 5",
        f"Dumping {other}",
        f"Ignoring unknown file {other}",
    ]
    checked = offline_tools.run(TOOL, "--index-sanity-check", "--files", str(index))
    assert checked.lines[1] == f"{index} passed sanity check."
    index.write_bytes(b"abc")
    assert "is damaged" in offline_tools.run(TOOL, "--files", str(index)).error


def test_index_whose_name_is_no_offset_is_refused(
    tmp_path: Path, offline_tools: ToolRunner
) -> None:
    index = tmp_path / "orders.index"
    index.write_bytes(bytes(8))
    result = offline_tools.run(TOOL, "--files", str(index))
    assert (result.status, "has no valid name" in result.error) == (1, True)


@pytest.mark.parametrize(
    ("attributes", "decoder"),
    [
        (CONTROL, "--print-data-log"),
        (0, "--offsets-decoder"),
        (0, "--cluster-metadata-decoder"),
    ],
)
def test_record_that_a_decoder_cannot_read_is_named(
    tmp_path: Path, offline_tools: ToolRunner, attributes: int, decoder: str
) -> None:
    path = tmp_path / f"{SEGMENT}.log"
    record = NewRecord(timestamp=0, key=b"\0", value=b"\x80")
    path.write_bytes(build_batch([record], attributes=attributes))
    result = offline_tools.run(TOOL, decoder, "--files", str(path))
    assert result.status == 1
    assert result.error.startswith(f"{TOOL}: {path} is damaged at position ")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], 'Missing required argument "[files]"'),
        (
            ["--files", "1.log", "--remote-log-metadata-decoder"],
            "--remote-log-metadata-decoder: kafkalite has no remote logs",
        ),
        (["--files", "/none/1.log"], "kafka-dump-log: /none/1.log: no such file or directory"),
    ],
)
def test_invalid_options_are_refused(
    offline_tools: ToolRunner, arguments: list[str], error: str
) -> None:
    result = offline_tools.run(TOOL, *arguments)
    assert result.status == 1
    assert result.error.startswith(error)
