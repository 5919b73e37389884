"""The texts that the tools for groups have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.groups import GroupListing
from kafkalite.docker.tools.group_commands import (
    SHARE,
    STREAMS,
    assignment_text,
    write_deletions,
    write_groups,
    write_unknown_group,
)

if TYPE_CHECKING:
    import pytest


def test_groups_are_filtered_by_state(capsys: pytest.CaptureFixture[str]) -> None:
    groups = [GroupListing(name, "share", "share", name.title(), 1) for name in ("empty", "stable")]
    write_groups(groups, "Stable, Dead")
    assert capsys.readouterr().out.split() == ["GROUP", "STATE", "stable", "Stable"]
    write_groups(groups, None, has_types=True)
    assert capsys.readouterr().out.split()[:4] == ["GROUP", "TYPE", "empty", "Share"]


def test_deletions_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    write_deletions({"a": None, "b": "a reason"}, SHARE)
    assert capsys.readouterr().out == (
        "\nError: Deletion of some share groups failed:\n"
        "* Group 'b' could not be deleted due to: a reason\n"
        "\nThese share groups were deleted successfully: 'a'\n"
    )


def test_the_status_of_an_unknown_group_is_that_of_the_tool() -> None:
    assert write_unknown_group("none", SHARE) == 0
    assert write_unknown_group("none", STREAMS) == 1


def test_partitions_are_grouped_by_topic() -> None:
    partitions = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 2)]
    assert assignment_text(partitions) == "a:0,1;b:2"
    assert assignment_text([]) is None
