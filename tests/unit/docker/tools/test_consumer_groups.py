"""`kafka-consumer-groups`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.client import OffsetAndEpochs, PartitionConsumer, TopicPartition

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

GROUPS = "kafka-consumer-groups"


async def commit(servers: str, offset: int) -> None:
    partition = TopicPartition("orders", 0)
    async with PartitionConsumer(servers, group_id="readers") as consumer:
        consumer.assign([partition])
        await consumer.commit({partition: OffsetAndEpochs(offset)})


def test_offsets_of_a_group_are_printed(broker: Broker, tools: ToolRunner) -> None:
    tools.send("a\nb\nc\nd\n", "--topic", "orders")
    asyncio.run(commit(broker.bootstrap_servers, 1))
    assert tools.ask(GROUPS, "--list").lines == ["readers"]
    described = tools.ask(GROUPS, "--describe", "--group", "readers")
    assert described.lines == [
        "GROUP\tTOPIC\tPARTITION\tCURRENT-OFFSET\tLOG-END-OFFSET\tLAG",
        "readers\torders\t0\t1\t2\t1",
    ]
    assert tools.ask(GROUPS, "--describe", "--all-groups") == described


def test_missing_group_is_an_error(tools: ToolRunner) -> None:
    result = tools.ask(GROUPS, "--describe", "--group", "none")
    assert result.status == 1
    assert "Consumer group 'none' does not exist" in result.error


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "exactly one of --list and --describe"),
        (["--describe"], "--describe needs --group or --all-groups"),
        (["--reset-offsets"], "--reset-offsets is not supported here"),
    ],
)
def test_unsupported_options_are_named(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask(GROUPS, *arguments)
    assert result.status == 1
    assert error in result.error
