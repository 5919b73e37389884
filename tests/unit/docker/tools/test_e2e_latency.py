"""`kafka-e2e-latency`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-e2e-latency"
NAMES = "--topic new --num-records {} --producer-acks {} --record-size {}"


def test_records_with_keys_and_headers_arrive(broker: Broker, tools: ToolRunner) -> None:
    result = tools.ask(TOOL, *NAMES.format(2, "all", 10).split(), "--record-key-size", "3",
                       "--num-headers", "2", "--record-header-key-size", "4",
                       "--record-header-size", "-1")  # fmt: skip
    assert result.status == 0, result.error
    created, first, average, percentiles = result.lines
    assert created.startswith('Topic "new" does not exist. Will create topic with 1 partition(s)')
    assert first.startswith("0\t")
    assert average.startswith("Avg latency: ")
    assert percentiles.startswith("Percentiles: 50th = ")
    record = broker.records("new")[0]
    assert (len(record.value or b""), len(record.key or b"")) == (10, 3)
    assert [(len(key), value) for key, value in record.headers] == [(4, None)] * 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("a b c", "Invalid number of arguments. Expected 5 or 6 positional arguments, but got 3."),
        ("--topic a", 'Missing required argument "[bootstrap-server]"'),
        (f"--bootstrap-server a:1 {NAMES.format(1, 0, 1)}", "Invalid value for --producer-acks."),
        (
            f"--bootstrap-server a:1 {NAMES.format(0, 1, 1)}",
            "Value for --num-records must be a positive integer.",
        ),
        (
            f"--bootstrap-server a:1 {NAMES.format(1, 1, -1)}",
            "Value for --record-size must be a non-negative integer.",
        ),
        (
            f"--bootstrap-server a:1 {NAMES.format(1, 1, 1)} --record-header-size -2",
            "Value for --record-header-size must be a non-negative integer or -1",
        ),
    ],
)
def test_invalid_options_are_refused(offline_tools: ToolRunner, arguments: str, error: str) -> None:
    result = offline_tools.run(TOOL, *arguments.split())
    assert result.status == 1
    assert result.error.startswith(error)
