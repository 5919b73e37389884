"""`kafka-console-share-consumer`, with the groups that it creates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

CONSUMER = "kafka-console-share-consumer"
GROUPS = "kafka-share-groups"
READ = ("--topic", "one", "--group", "sharers", "--max-messages")
EARLIEST = ("--alter", "--group", "sharers", "--add-config", "share.auto.offset.reset=earliest")
DELIVERY = ("--formatter-property", "print.delivery=true")


def test_released_records_are_delivered_again(tools: ToolRunner) -> None:
    tools.ask("kafka-topics", "--create", "--topic", "one")
    tools.send("a\nb\n", "--topic", "one")
    assert tools.ask("kafka-configs", *EARLIEST).status == 0
    released = tools.ask(CONSUMER, *READ, "1", "--release", *DELIVERY)
    assert (released.status, released.lines) == (0, ["Delivery:1\ta"])
    assert tools.ask(CONSUMER, *READ, "1", "--reject").lines == ["a"]
    assert tools.ask(CONSUMER, *READ, "1").error == "Processed a total of 1 messages\n"
    described = tools.ask(GROUPS, "--describe", "--group", "sharers")
    assert described.lines[1].split() == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert described.lines[-1].split()[-1] == "0"
    assert tools.ask(GROUPS, "--list").lines == ["sharers"]
    topic = ("--group", "sharers", "--topic", "one")
    reset = tools.ask(GROUPS, "--reset-offsets", *topic, "--to-earliest", "--execute")
    assert reset.lines[-1].split() == ["sharers", "one", "0", "0"]
    deleted = tools.ask(GROUPS, "--delete-offsets", *topic)
    assert deleted.lines[-1].split() == ["one", "Successful"]
    assert tools.ask(GROUPS, "--delete", "--group", "sharers").lines == [
        "Deletion of requested share groups ('sharers') was successful."
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", "--topic is a required argument"),
        ("--topic one --release --reject", "At most one of --reject and --release may be"),
    ],
)
def test_invalid_options_are_refused(offline_tools: ToolRunner, arguments: str, error: str) -> None:
    result = offline_tools.run(CONSUMER, *arguments.split())
    assert result.status == 1
    assert result.error.startswith(error)
