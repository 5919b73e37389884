"""`kafka-producer-perf-test`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-producer-perf-test"
ORDERS = ("--topic", "orders", "--num-records", "4", "--throughput")
SIZED = (*ORDERS, "-1", "--record-size", "2")


def test_records_that_the_broker_refuses_are_reported(tools: ToolRunner) -> None:
    result = tools.ask(TOOL, *ORDERS, "-1", "--record-size", "2000000", "--num-records", "2")
    assert result.status == 0
    error = "org.apache.kafka.common.errors.RecordTooLargeException: "
    assert [line.startswith(error) for line in result.error.splitlines()] == [True, True]
    assert result.lines[0].startswith("0 records sent, ")


@pytest.mark.parametrize(("distribution", "keys"), [("range", {0, 1}), ("random", {0, 1})])
def test_warmup_and_keys(
    broker: Broker, tools: ToolRunner, distribution: str, keys: set[int]
) -> None:
    result = tools.ask(TOOL, *SIZED, "--warmup-records", "1", "--record-key-range", "2",
                       "--key-distribution", distribution, "--random-seed", "7")  # fmt: skip
    first, steady, total, rest = result.lines
    assert first.startswith("Warmup first 1 records. Steady state results will print after")
    assert steady == "In steady state."
    assert total.startswith("4 records sent, ")
    assert rest.startswith("3 steady state records sent, ")
    assert {int.from_bytes(each.key or b"") for each in broker.records("orders")} == keys


def test_lines_of_a_file_are_sent(broker: Broker, tools: ToolRunner, tmp_path: Path) -> None:
    path = tmp_path / "payload"
    path.write_text("a\nbc\n")
    result = tools.run(
        TOOL, *ORDERS, "1000", "--payload-file", str(path),
        "--producer-props", f"bootstrap.servers={broker.bootstrap_servers}", "acks=1",
    )  # fmt: skip
    assert result.lines[0].startswith("4 records sent, ")
    read = tools.ask("kafka-console-consumer", "--topic", "orders", "--from-beginning",
                     "--max-messages", "4")  # fmt: skip
    assert sorted(read.lines) == ["a", "a", "bc", "bc"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "argument --topic is required"),
        ([*ORDERS, "-1"], "one of the arguments --record-size --payload-file"),
        ([*SIZED, "--warmup-records", "4"], "The value for --warmup-records must be strictly"),
        ([*SIZED, "--reporting-interval", "0"], "--reporting-interval should be greater than"),
        ([*SIZED, "--record-key-range", "0"], "--record-key-range should be greater than zero."),
        ([*SIZED, "--record-key-range", "1"], "--key-distribution must be 'range' or 'random'"),
        ([*SIZED, "--num-records", "0"], "--num-records should be greater than zero."),
        ([*SIZED, "--record-size", "0"], "--record-size should be greater than zero."),
        ([*SIZED, "--print-metrics"], "--print-metrics prints metrics of Java's client"),
        ([*SIZED, "--key-distribution", "range"], "--record-key-range is required when"),
    ],
)
def test_invalid_options_are_refused(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask(TOOL, *arguments)
    assert result.status == 1
    assert result.error.startswith(error)
