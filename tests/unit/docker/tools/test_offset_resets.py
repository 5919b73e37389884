"""`kafka-consumer-groups --reset-offsets`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.unit.docker.tools.test_consumer_groups import GROUPS, commit

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

RESET = ("--reset-offsets", "--group", "readers")
HEADER = "GROUP           TOPIC           PARTITION  NEW-OFFSET"


@pytest.fixture
def committed(broker: Broker, tools: ToolRunner) -> ToolRunner:
    """Return a runner whose group `readers` has offset 2 of 3 in partition 0."""
    for number in range(3):
        broker.produce("orders", "x", partition=0, timestamp=1_000 * number)
    asyncio.run(commit(broker.bootstrap_servers, 2))
    return tools


@pytest.mark.parametrize(
    ("scenario", "offset"),
    [
        ("--to-earliest", 0),
        ("--to-latest", 3),
        ("--to-current", 2),
        ("--to-offset 1", 1),
        ("--to-offset 99", 3),
        ("--shift-by -1", 1),
        ("--to-datetime 1970-01-01T00:00:00.500", 1),
        ("--by-duration P99999DT1H2M3.5S", 0),
        ("--by-duration PT1S", 3),
    ],
)
def test_new_offset_is_shown(committed: ToolRunner, scenario: str, offset: int) -> None:
    result = committed.ask(GROUPS, *RESET, "--all-topics", "--dry-run", *scenario.split())
    assert (result.status, result.error) == (0, "")
    assert result.lines[-3:] == [
        "",
        HEADER,
        f"readers         orders          0          {offset}",
    ]


def test_an_export_is_read(committed: ToolRunner, tmp_path: Path) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text('"orders",0,1\n\n')
    read = committed.ask(GROUPS, *RESET, "--from-file", str(path), "--dry-run")
    assert read.lines == ["", HEADER, "readers         orders          0          1"]
    for line in ("orders,0", "orders,x,1"):
        path.write_text(line)
        refused = committed.ask(GROUPS, *RESET, "--from-file", str(path), "--dry-run")
        assert refused.error.startswith("kafka-consumer-groups: --from-file: ")


def test_offset_is_set_on_request(committed: ToolRunner) -> None:
    planned = committed.ask(GROUPS, *RESET, "--topic", "orders:0,1", "--to-earliest")
    assert planned.error.startswith("WARN: No action will be performed as the --execute option is")
    described = committed.ask(GROUPS, "--describe", "--group", "readers")
    assert described.lines[2].split()[3] == "2"
    executed = committed.ask(GROUPS, *RESET, "--topic", "orders:0,1", "--to-earliest", "--execute")
    assert (executed.lines, executed.error) == (planned.lines, "")
    described = committed.ask(GROUPS, "--describe", "--group", "readers")
    assert [line.split()[2:4] for line in described.lines[2:]] == [["0", "0"], ["1", "0"]]


def test_offsets_are_exported(committed: ToolRunner) -> None:
    options = ("--all-topics", "--to-latest", "--export", "--dry-run")
    assert committed.ask(GROUPS, *RESET, *options).lines == ["orders,0,3", ""]
    several = ("--reset-offsets", "--all-groups", *options)
    assert committed.ask(GROUPS, *several).lines == ["orders,0,3", ""]


def test_unknown_groups_and_topics_are_reported(committed: ToolRunner) -> None:
    unknown = ("--reset-offsets", "--group", "none", "--all-topics", "--to-latest", "--dry-run")
    assert committed.ask(GROUPS, *unknown) == (0, ["", HEADER], "")
    result = committed.ask(GROUPS, *RESET, "--topic", "none", "--to-latest", "--dry-run")
    reason = "This server does not host this topic-partition."
    assert (result.status, result.lines) == (
        0,
        ["", f"Error: Executing consumer group command failed due to {reason}"],
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--all-topics"], "requires one of the following scenarios: [[by-duration], [to-latest]"),
        (["--to-latest"], "One of the reset scopes should be defined: --all-topics, --topic."),
        (
            ["--all-topics", "--to-latest", "--to-earliest"],
            'Option "[to-latest]" can\'t be used with option "[to-earliest]"',
        ),
        (["--all-topics", "--to-datetime", "soon"], "'soon' is not a time"),
        (["--all-topics", "--by-duration", "1h"], "--by-duration '1h' is not a duration"),
        (["--all-topics", "--by-duration", "P"], "--by-duration 'P' is not a duration"),
        (["--topic", "a:x", "--to-latest"], "Invalid topic arg 'a:x'"),
        (["--from-file", "f"], "cannot read f"),
    ],
)
def test_invalid_options_are_errors(
    offline_tools: ToolRunner, arguments: list[str], error: str
) -> None:
    result = offline_tools.run(GROUPS, *RESET, *arguments)
    assert result.status == 1
    assert error in result.error
