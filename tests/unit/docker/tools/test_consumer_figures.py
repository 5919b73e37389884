"""Options and figures of the tools that measure consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.records import ConsumerRecord
from kafkalite.docker.tools.consumer_figures import Interval, ReadFigures
from kafkalite.docker.tools.pacing import Pace

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

RECORD = ConsumerRecord(TopicPartition("orders", 0), 0, b"value", b"key", (), 0, 0)


def test_an_interval_has_what_was_read_in_it() -> None:
    figures = ReadFigures(Pace(0), interval_ms=0)
    assert figures.add(RECORD) is not None
    second = figures.add(RECORD)
    assert second is not None
    assert (second.records, second.size) == (1, 8)
    assert (figures.total().records, figures.total().size) == (2, 16)


def test_a_report_waits_for_its_time() -> None:
    assert ReadFigures(Pace(0), interval_ms=60_000).add(RECORD) is None


def test_rates_are_those_of_a_second() -> None:
    interval = Interval(1_000, 3_000, 10, 2 * 1024 * 1024)
    assert interval.per_second(interval.records) == 5
    assert interval.megabytes == 2
    assert Interval(1, 1, 1, 1).elapsed_ms == 1


@pytest.mark.parametrize("tool", ["kafka-consumer-perf-test", "kafka-share-consumer-perf-test"])
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", "Exactly one of the following arguments is required: [messages], [num-records]"),
        ("--num-records 1 --reporting-interval 0", "Reporting interval must be greater than 0."),
        ("--num-records 1 --threads 0", "--threads must be greater than 0"),
        ("--num-records 1 --print-metrics", "--print-metrics prints metrics of Java's client"),
        (
            "--num-records 1 --consumer.config a --command-config b",
            'Option "[consumer.config]" can\'t be used with option "[command-config]"',
        ),
    ],
)
def test_invalid_options_are_refused(
    offline_tools: ToolRunner, tool: str, arguments: str, error: str
) -> None:
    words = ["--bootstrap-server", "localhost:1", "--topic", "orders", *arguments.split()]
    result = offline_tools.run(tool, *words)
    assert result.status == 1
    assert result.error.startswith(error)
