"""`kafka-topics`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

TOPICS = "kafka-topics"


def test_topic_is_created_listed_described_and_deleted(tools: ToolRunner) -> None:
    created = tools.ask(
        TOPICS, "--create", "--topic", "new", "--partitions", "2", "--replication-factor", "1",
        "--config", "retention.ms=1000", "--config", "cleanup.policy=compact",
    )  # fmt: skip
    assert created == (0, ["Created topic new."], "")
    assert tools.ask(TOPICS, "--list").lines == ["new", "orders"]
    described = tools.ask(TOPICS, "--describe", "--topic", "new").lines
    assert re.fullmatch(
        r"Topic: new\tTopicId: \S{22}\tPartitionCount: 2\tReplicationFactor: 1\t"
        r"Configs: min.insync.replicas=1,cleanup.policy=compact,retention.ms=1000",
        described[0],
    )
    assert described[1:] == [
        "\tTopic: new\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: ",
        "\tTopic: new\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: ",
    ]
    assert tools.ask(TOPICS, "--delete", "--topic", "new") == (0, [], "")
    assert tools.ask(TOPICS, "--list").lines == ["orders"]


def test_topic_has_the_defaults_of_the_broker(tools: ToolRunner) -> None:
    assert tools.ask(TOPICS, "--create", "--topic", "new").status == 0
    assert "PartitionCount: 1" in tools.ask(TOPICS, "--describe", "--topic", "new").lines[0]


def test_existing_topic_is_an_error_unless_it_may_exist(tools: ToolRunner) -> None:
    refused = tools.ask(TOPICS, "--create", "--topic", "orders")
    text = "Error while executing topic command : Topic 'orders' already exists."
    assert refused == (1, [text], "")
    assert tools.ask(TOPICS, "--create", "--if-not-exists", "--topic", "orders") == (0, [], "")


def test_missing_topic_is_an_error_unless_it_may_be_missing(tools: ToolRunner) -> None:
    for action in ("--describe", "--delete"):
        refused = tools.ask(TOPICS, action, "--topic", "none")
        text = "Error while executing topic command : Topic 'none' does not exist as expected"
        assert refused == (1, [text], "")
        assert tools.ask(TOPICS, action, "--if-exists", "--topic", "none") == (0, [], "")
    altered = ("--alter", "--topic", "none", "--partitions", "2")
    assert tools.ask(TOPICS, *altered).status == 1
    assert tools.ask(TOPICS, *altered, "--if-exists").status == 0


def test_partitions_are_added(tools: ToolRunner) -> None:
    assert tools.ask(TOPICS, "--alter", "--topic", "orders", "--partitions", "5").status == 0
    assert "PartitionCount: 5" in tools.ask(TOPICS, "--describe", "--topic", "orders").lines[0]
    refused = tools.ask(TOPICS, "--alter", "--topic", "orders", "--partitions", "2")
    assert refused.status == 1
    assert refused.lines == [
        (
            "Error while executing topic command : The topic orders currently has 5 partition(s); "
            "2 would not be an increase."
        )
    ]
    assert 'argument "[partitions]"' in tools.ask(TOPICS, "--alter", "--topic", "orders").error


def test_topics_are_selected_by_a_pattern(tools: ToolRunner) -> None:
    tools.ask(TOPICS, "--create", "--topic", "other")
    assert tools.ask(TOPICS, "--list", "--topic", "o.*r").lines == ["other"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--list", "--no-such-option"], "--no-such-option is not a recognized option\nOption"),
        (["--create", "--topic", "a", "--replica-assignment", "1:1"], "duplicate entries"),
        (["--create", "--topic", "a", "--replica-assignment", "1,1:2"], "different replication"),
        (["--list", "--describe"], "Command must include exactly one action: --list"),
        (["--create"], 'Missing required argument "[topic]"'),
        (["--create", "--topic", "a", "--config", "x"], "--config 'x': write NAME=VALUE"),
        (["--create", "--topic", "a", "--partitions", "x"], "invalid int value"),
        (["--create", "--topic", "a", "--partitions", "0"], "partitions must be greater than 0"),
        (["--create", "--topic", "a", "--replication-factor", "0"], "between 1 and 32767"),
        (["--describe", "--topic", "a["], "a[ is an invalid regex."),
    ],
)  # fmt: skip
def test_unsupported_options_are_named(tools: ToolRunner, arguments: list[str], error: str) -> None:
    refused = tools.ask(TOPICS, *arguments)
    assert refused.status == 1
    assert error in (refused.error or refused.lines[0])


def test_filters_select_topics_and_partitions(tools: ToolRunner) -> None:
    tools.ask(TOPICS, "--create", "--topic", "new", "--config", "retention.ms=1000")
    # min.insync.replicas of the cluster is an override of each topic, as in Kafka's tool.
    lines = tools.ask(TOPICS, "--describe", "--topics-with-overrides").lines
    assert [line.rpartition("Configs: ")[2] for line in lines] == [
        "min.insync.replicas=1,retention.ms=1000",
        "min.insync.replicas=1",
    ]
    for option in ("--unavailable-partitions", "--under-replicated-partitions"):
        assert tools.ask(TOPICS, "--describe", option) == (0, [], "")
        assert (
            'Option "[describe]" can\'t be used without option'
            in tools.ask(TOPICS, "--list", option).error
        )
