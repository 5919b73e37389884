"""`kafka-streams-application-reset`; `tests/kafka_tools` compares it with Kafka's tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.control.group_members import Members

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.testing import Broker
    from tests.unit.docker.tools.tool import ToolRunner

TOOL = "kafka-streams-application-reset"
ORDERS = ("--application-id", "app", "--input-topics", "orders")
TABLE = "app-table-changelog"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("", (0, None)),
        ("--to-latest", (3, None)),
        ("--to-offset 1", (1, None)),
        ("--to-offset 9", (3, "New offset (9) is higher than latest offset.")),
        ("--shift-by -2", (1, None)),
        ("--shift-by -9", (0, "New offset (-6) is lower than earliest offset.")),
        ("--to-datetime 2020-01-01T00:00:00.000", (0, None)),
        (
            "--to-datetime 2999-01-01T00:00:00.000",
            (3, "Partition 0 from topic orders is empty"),
        ),
        ("--from-file plan.csv", (2, None)),
    ],
)
def test_offsets_are_reset(
    tmp_path: Path,
    broker: Broker,
    tools: ToolRunner,
    target: str,
    expected: tuple[int, str | None],
) -> None:
    offset, line = expected
    (tmp_path / "plan.csv").write_text("".join(f"orders,{index},2\n" for index in range(3)))
    for number in range(3):
        broker.produce("orders", str(number), partition=0)
    words = target.replace("plan.csv", str(tmp_path / "plan.csv")).split()
    result = tools.ask(TOOL, *ORDERS, *words)
    assert (result.status, result.error) == (0, "")
    assert f"Topic: orders Partition: 0 Offset: {offset}" in result.lines
    assert line is None or any(each.startswith(line) for each in result.lines)
    described = tools.ask("kafka-consumer-groups", "--describe", "--group", "app").lines
    assert any(each.split()[:4] == ["app", "orders", "0", str(offset)] for each in described)


def test_internal_topics_are_deleted(tools: ToolRunner) -> None:
    for topic in (TABLE, "app-output", "apps-table-changelog"):
        tools.ask("kafka-topics", "--create", "--topic", topic)
    application = ("--application-id", "app")
    other = tools.ask(TOOL, *application, "--internal-topics", "app-output")
    assert other.error.startswith("ERROR: java.lang.IllegalArgumentException: Invalid topic")
    planned = tools.ask(TOOL, *application, "--dry-run")
    assert planned.lines[2:] == [f"Deleting inferred internal topics [{TABLE}]", "Done."]
    assert tools.ask(TOOL, *application, "--internal-topics", TABLE).lines[1:] == [
        f"Deleting specified internal topics [{TABLE}]",
        "Done.",
    ]
    left = tools.ask("kafka-topics", "--list", "--exclude-internal").lines
    assert left == ["app-output", "apps-table-changelog", "orders"]


def test_members_are_removed_by_force(broker: Broker, tools: ToolRunner) -> None:
    broker._run_on_loop(Members(broker._running_broker()).join_consumer("app", "member"))
    refused = tools.ask(TOOL, *ORDERS)
    assert refused.status == 1
    assert "Consumer group 'app' is still active and has following members" in refused.error
    forced = tools.ask(TOOL, *ORDERS, "--force")
    assert forced.lines[0] == "Force deleting all active members in the group: app"
    assert forced.status == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("", 'Missing required argument "[application-id]"'),
        (
            "--application-id a --to-latest --to-offset 1",
            'Option "[to-latest]" can\'t be used with option "[to-offset]"',
        ),
    ],
)
def test_invalid_options_are_refused(offline_tools: ToolRunner, arguments: str, error: str) -> None:
    result = offline_tools.run(TOOL, *arguments.split())
    assert result.status == 1
    assert result.error.startswith(error)
