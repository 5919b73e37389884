"""`kafka-consumer-groups`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer

from kafkalite.client import OffsetAndEpochs, PartitionConsumer, TopicPartition

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

GROUPS = "kafka-consumer-groups"
PARTITIONS = 3
HEADER = [
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
]


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
    assert described.status == 0
    assert described.lines[0] == ""
    assert described.lines[1].split() == HEADER
    assert [line.split() for line in described.lines[2:]] == [
        ["readers", "orders", "0", "1", "2", "1", "-", "-", "-"]
    ]
    assert described.error == "\nConsumer group 'readers' has no active members.\n"
    assert tools.ask(GROUPS, "--describe", "--all-groups") == described


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_printed(broker: Broker, tools: ToolRunner, protocol: str) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "readers",
        "group.protocol": protocol,
        "client.id": "reader",
    }
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.05)
    described = tools.ask(GROUPS, "--describe", "--group", "readers")
    member_id = consumer.memberid()
    consumer.close()
    assert (described.status, described.error) == (0, "")
    assert [line.split() for line in described.lines[2:]] == [
        ["readers", "orders", str(index), "-", "0", "-", member_id, "/127.0.0.1", "reader"]
        for index in range(PARTITIONS)
    ]


def test_missing_group_is_reported(tools: ToolRunner) -> None:
    result = tools.ask(GROUPS, "--describe", "--group", "none")
    assert result.status == 0
    assert result.error.startswith("java.util.concurrent.ExecutionException: org.apache.kafka")
    assert result.lines == [
        "",
        (
            "Error: Executing consumer group command failed due to "
            "org.apache.kafka.common.errors.GroupIdNotFoundException: Group none not found."
        ),
    ]


def test_groups_are_listed_with_type_and_state(broker: Broker, tools: ToolRunner) -> None:
    asyncio.run(commit(broker.bootstrap_servers, 1))
    listed = tools.ask(GROUPS, "--list", "--state", "--type")
    assert [line.split() for line in listed.lines] == [
        ["GROUP", "TYPE", "STATE"],
        ["readers", "Classic", "Empty"],
    ]
    assert tools.ask(GROUPS, "--list", "--state", "stable").lines == [
        "GROUP                     STATE"
    ]


def test_state_and_members_are_described(broker: Broker, tools: ToolRunner) -> None:
    asyncio.run(commit(broker.bootstrap_servers, 1))
    state = tools.ask(GROUPS, "--describe", "--group", "readers", "--state")
    assert [line.split() for line in state.lines[1:]] == [
        ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"],
        ["readers", broker.bootstrap_servers, "(1)", "-", "Empty", "0"],
    ]
    members = tools.ask(GROUPS, "--describe", "--group", "readers", "--members")
    assert [line.split() for line in members.lines[1:]] == [
        ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    ]
    assert members.error == state.error == "\nConsumer group 'readers' has no active members.\n"


def test_groups_are_deleted(broker: Broker, tools: ToolRunner) -> None:
    asyncio.run(commit(broker.bootstrap_servers, 1))
    missing = (
        "* Group 'none' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist."
    )
    both = tools.ask(GROUPS, "--delete", "--group", "readers", "--group", "none")
    assert (both.status, both.lines) == (0, [
        "",
        "Error: Deletion of some consumer groups failed:",
        missing,
        "",
        "These consumer groups were deleted successfully: 'readers'",
    ])  # fmt: skip
    asyncio.run(commit(broker.bootstrap_servers, 1))
    deleted = tools.ask(GROUPS, "--delete", "--all-groups")
    assert deleted.lines == ["Deletion of requested consumer groups ('readers') was successful."]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "Command must include exactly one action: --list, --describe"),
        (["--describe"], "Option [describe] takes one of these options: [all-groups], [group]"),
        (["--delete"], "Option [delete] takes one of these options: [all-groups], [group]"),
        (
            ["--describe", "--group", "g", "--state", "--members"],
            "takes at most one of these options: [members]",
        ),
        (["--list", "--state", "Stable,Done"], "Invalid state list 'Stable,Done'. Valid states"),
        (["--list", "--type", "share"], "Invalid types list 'share'. Valid types are: Consumer,"),
        (["--delete-offsets", "--group", "g"], "Option [delete-offsets] takes the option: [topic]"),
    ],
)
def test_unsupported_options_are_named(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask(GROUPS, *arguments)
    assert result.status == 1
    assert error in result.error
