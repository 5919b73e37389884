"""`kafka-metadata-quorum describe`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.docker.tools.tool import ToolRunner

REPLICA = r'{{"id": {}, "directoryId": "[\w-]{{22}}"}}'


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Return a cluster of three nodes."""
    with Broker(brokers=3) as running:
        yield running


def test_status_is_printed_as_by_kafka(tools: ToolRunner) -> None:
    result = tools.ask("kafka-metadata-quorum", "describe", "--status")
    assert (result.status, result.error) == (0, "")
    voter, *observers = (REPLICA.format(node_id) for node_id in (1, 2, 3))
    expected = (
        r"ClusterId:              [\w-]{22}",
        r"LeaderId:               1",
        r"LeaderEpoch:            1",
        r"HighWatermark:          \d+",
        r"MaxFollowerLag:         0",
        r"MaxFollowerLagTimeMs:   0",
        rf"CurrentVoters:          \[{voter}\]",
        rf"CurrentObservers:       \[{', '.join(observers)}\]",
    )
    for line, pattern in zip(result.lines, expected, strict=True):
        assert re.fullmatch(pattern, line), line


def test_replication_has_a_row_for_each_node(tools: ToolRunner, broker: Broker) -> None:
    broker.nodes[3].stop()
    header, *rows = tools.ask("kafka-metadata-quorum", "describe", "--replication").lines
    assert header.split() == [
        "NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp",
        "LastCaughtUpTimestamp", "Status",
    ]  # fmt: skip
    columns = [row.split() for row in rows]
    assert [(row[0], row[-1]) for row in columns] == [
        ("1", "Leader"), ("2", "Observer"), ("3", "Observer"),
    ]  # fmt: skip
    lags = [int(row[3]) for row in columns]
    assert lags[:2] == [0, 0]
    assert lags[2] > 0
    readable = tools.ask(
        "kafka-metadata-quorum", "describe", "--replication", "--human-readable"
    ).lines
    assert re.search(r"\t0 ms ago +\t0 ms ago +\tLeader", readable[1])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--status", "--replication"], "Only one of --status or --replication"),
        ([], "One of --status or --replication must be specified"),
        (["--status", "--human-readable"], "only supported along with --replication"),
        (["--status", "--bootstrap-controller", "localhost:1"], "not allowed with"),
    ],
)
def test_other_options_are_refused(
    offline_tools: ToolRunner, arguments: list[str], error: str
) -> None:
    address = ("--bootstrap-server", "localhost:1")
    result = offline_tools.run("kafka-metadata-quorum", *address, "describe", *arguments)
    assert result.status == 1
    assert error in result.error


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "argument --controller-id/-i is required"),
        (["--controller-id", "7"], "argument --controller-directory-id/-d is required"),
        (
            ["--controller-id", "7", "--controller-directory-id", "x"],
            "kafka-metadata-quorum: --controller-directory-id 'x' is not a UUID",
        ),
    ],
)
def test_a_removal_needs_a_controller(tools: ToolRunner, arguments: list[str], error: str) -> None:
    result = tools.ask_last("kafka-metadata-quorum", "remove-controller", *arguments)
    assert result.status == 1
    assert result.error.startswith(error)


def test_controllers_are_not_added(offline_tools: ToolRunner) -> None:
    result = offline_tools.run("kafka-metadata-quorum", "add-controller")
    assert result.status == 1
    assert "add-controller: the controllers are the nodes of the cluster" in result.error


def test_a_removed_controller_can_be_unregistered(tools: ToolRunner) -> None:
    directory_id = "AAAAAAAAAAAAAAAAAAAAKg"
    words = ("remove-controller", "-i", "9", "-d", directory_id, "--unregister")
    planned = tools.ask_last("kafka-metadata-quorum", *words, "--dry-run")
    assert planned.lines == [
        f"DRY RUN of removing KRaft controller 9 with directory id {directory_id}",
        "DRY RUN of unregistering KRaft controller 9",
    ]
    result = tools.ask_last("kafka-metadata-quorum", *words)
    assert result.status == 1
    assert result.error.startswith("Failed to remove KRaft voter 9: Cannot remove voter")
    assert result.error.endswith("run `kafka-cluster.sh unregister-controller --id 9`.\n")
