"""`kafka-streams-groups`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.control.group_members import Members

if TYPE_CHECKING:
    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

GROUPS = "kafka-streams-groups"


def test_a_group_is_described(broker: Broker, tools: ToolRunner) -> None:
    broker._run_on_loop(Members(broker._running_broker()).join_streams("counter", "member"))
    assert tools.ask(GROUPS, "--list").lines == ["counter"]
    state = tools.ask(GROUPS, "--describe", "--group", "counter", "--state")
    assert state.lines[0].split() == [
        *("GROUP", "COORDINATOR", "(ID)", "ASSIGNOR", "STATE", "#MEMBERS")
    ]
    members = tools.ask(GROUPS, "--describe", "--group", "counter", "--members")
    assert members.lines[-1].split()[:3] == ["counter", "member", "p"]
    deleted = tools.ask(GROUPS, "--delete", "--group", "counter")
    assert deleted.lines[-1].endswith("Streams group 'counter' is not EMPTY.")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", "Command must include exactly one action: --list, --describe, --delete,"),
        ("--describe", "Option [describe] takes one of these options: [all-groups], [group]"),
        ("--list --state Assigned", "Invalid state list 'Assigned'. Valid states are: "),
        (
            "--describe --all-groups --topology",
            "Option [topology] takes the option: [group]",
        ),
        (
            "--delete-offsets --group a",
            "Option [delete-offsets] takes one of these options: [all-input-topics], [input-topic]",
        ),
        (
            "--reset-offsets --group a --to-latest",
            "One of the reset scopes should be defined: --all-input-topics, --input-topic.",
        ),
    ],
)
def test_invalid_options_are_refused(offline_tools: ToolRunner, arguments: str, error: str) -> None:
    result = offline_tools.run(GROUPS, *arguments.split())
    assert result.status == 1
    assert result.error.startswith(error)
