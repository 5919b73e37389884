"""`kafka-share-consumer-perf-test`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-share-consumer-perf-test"
EARLIEST = ("--alter", "--group", "g", "--add-config", "share.auto.offset.reset=earliest")


def test_consumers_share_the_records(broker: Broker, tools: ToolRunner) -> None:
    broker.produce("orders", "value", partition=0)
    broker.produce("orders", "value", partition=1)
    assert tools.ask("kafka-configs", *EARLIEST).status == 0
    result = tools.ask(TOOL, "--topic", "orders", "--group", "g", "--num-records", "2",
                       "--threads", "2", "--show-consumer-stats", "--hide-header",
                       "--date-format", "yyyy")  # fmt: skip
    first, second, total = (line.split(", ") for line in result.lines)
    assert first[0].startswith("Share consumer 1 consumption metrics- ")
    assert int(first[5]) + int(second[5]) == int(total[5]) == 2


def test_a_topic_is_needed(tools: ToolRunner) -> None:
    assert tools.ask(TOOL).error.startswith('Missing required argument "[topic]"')
