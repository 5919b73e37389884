"""`kafka-share-groups`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner

GROUPS = "kafka-share-groups"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", "Command must include exactly one action: --list, --describe, --delete,"),
        ("--describe", "Option [describe] takes one of these options: [all-groups], [group]"),
        ("--list --state Assigned", "Invalid state list 'Assigned'. Valid states are: "),
        (
            "--describe --all-groups --state Empty",
            "Option [describe] does not take a value for [state]",
        ),
        (
            "--describe --all-groups --members --offsets",
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        ),
        ("--delete", "Option [delete] takes the options [group] or [all-groups]."),
        (
            "--delete --group a --all-groups",
            "Option [delete] takes either [group] or [all-groups], not both.",
        ),
        (
            "--delete --group a --topic b",
            "Option [delete] does not take the options [topic] or [all-topics].",
        ),
        (
            "--delete-offsets --group a",
            "Option [delete-offsets] takes the following options: [topic], [group]",
        ),
        ("--reset-offsets --to-latest", "Option [reset-offsets] takes the option [group]."),
        (
            "--reset-offsets --group a --topic b --shift-by 1",
            "shift-by is not a recognized option",
        ),
    ],
)
def test_invalid_options_are_refused(offline_tools: ToolRunner, arguments: str, error: str) -> None:
    result = offline_tools.run(GROUPS, *arguments.split())
    assert result.status == 1
    assert result.error.startswith(error)


def test_a_group_that_does_not_exist_is_reported(tools: ToolRunner) -> None:
    result = tools.ask(GROUPS, "--describe", "--group", "none")
    assert result.status == 0
    assert result.lines[-1].startswith("Error: Executing share group command failed due to ")
    assert "Group none not found." in result.error
    assert (
        tools.ask(GROUPS, "--delete", "--group", "none")
        .lines[-1]
        .endswith("GroupIdNotFoundException: Group 'none' is not a share group.")
    )
