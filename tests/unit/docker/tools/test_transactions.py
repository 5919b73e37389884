"""`kafka-transactions`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.client import Producer, TopicPartition

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-transactions"


async def leave_open(servers: str) -> None:
    async with Producer(servers, transactional_id="shop") as producer:
        await producer.begin()
        await producer.send(TopicPartition("orders", 0), b"value")


def test_an_open_transaction_is_aborted(broker: Broker, tools: ToolRunner) -> None:
    asyncio.run(leave_open(broker.bootstrap_servers))
    partition = ("--topic", "orders", "--partition", "0")
    _, row = tools.ask_last(TOOL, "describe-producers", *partition).lines
    assert row.split()[-1] == "0"
    assert len(tools.ask_last(TOOL, "find-hanging", "--broker-id", "1").lines) == 1
    assert tools.ask_last(TOOL, "abort", *partition, "--start-offset", "0") == (0, [], "")
    _, row = tools.ask_last(TOOL, "describe-producers", *partition).lines
    assert row.split()[-1] == "None"


def test_the_transaction_of_a_producer_is_aborted(broker: Broker, tools: ToolRunner) -> None:
    asyncio.run(leave_open(broker.bootstrap_servers))
    partition = ("--topic", "orders", "--partition", "0")
    _, row = tools.ask_last(TOOL, "describe-producers", *partition).lines
    producer_id, epoch, *_ = row.split()
    producer = ("--producer-id", producer_id, "--producer-epoch", epoch)
    aborted = tools.ask_last(TOOL, "abort", *partition, *producer, "--coordinator-epoch", "-1")
    assert aborted == (0, [], "")
    _, row = tools.ask_last(TOOL, "describe-producers", *partition).lines
    assert row.split()[-1] == "None"


def test_a_transaction_without_a_coordinator_hangs(broker: Broker, tools: ToolRunner) -> None:
    asyncio.run(leave_open(broker.bootstrap_servers))
    hanging = ("find-hanging", "--topic", "orders", "--max-transaction-timeout", "-1")
    assert len(tools.ask_last(TOOL, *hanging).lines) == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["describe"], "argument --transactional-id is required"),
        (["abort", "--topic", "a"], "argument --partition is required"),
        (
            ["abort", "--topic", "a", "--partition", "0"],
            "The transaction to abort must be identified either with --start-offset",
        ),
        (
            ["abort", "--topic", "a", "--partition", "0", "--producer-id", "1"],
            "Missing required argument --producer-epoch",
        ),
        (["find-hanging"], "The `find-hanging` command requires either --topic or --broker-id"),
        (["describe-producers", "--topic", "orders", "--partition", "9"], "there is no partition"),
        (
            ["describe-producers", "--topic", "orders", "--partition", "0", "--broker-id", "9"],
            "there is no broker 9",
        ),
    ],
)
def test_invalid_options_are_refused(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask_last(TOOL, *arguments)
    assert result.status == 1
    assert result.error.startswith(error)
