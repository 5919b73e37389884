"""Commands as requests and as lines of a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.commands.clock import ChangeClock
from kafkalite.control.commands.explain import Explain
from kafkalite.control.commands.faults import RemoveFault
from kafkalite.control.commands.groups import DeleteGroup, ShowGroup
from kafkalite.control.commands.topics import CreateTopic
from kafkalite.control.console.command_lines import lines_of

if TYPE_CHECKING:
    from kafkalite.control.command_table import Command

URL = "http://h:1"


@pytest.mark.parametrize(
    ("command", "request_line", "shell"),
    [
        (
            Explain(group="a b", limit=3),
            "GET /v1/explain?group=a+b&limit=3",
            "kafkalite explain --group 'a b' --limit 3",
        ),
        (ShowGroup("a/b"), "GET /v1/groups/a%2Fb", "curl http://h:1/v1/groups/a%2Fb"),
        (DeleteGroup("g"), "DELETE /v1/groups/g", "curl -X DELETE http://h:1/v1/groups/g"),
        (RemoveFault("f1"), "DELETE /v1/faults/f1", "kafkalite fault remove f1"),
        (
            ChangeClock(advance_ms=500),
            'POST /v1/clock {"advance_ms": 500}',
            "kafkalite clock advance 500",
        ),
        (ChangeClock(mode="manual"), 'POST /v1/clock {"mode": "manual"}', "kafkalite clock pause"),
        (
            CreateTopic("t"),
            'POST /v1/topics {"name": "t"}',
            """curl --json '{"name": "t"}' http://h:1/v1/topics""",
        ),
    ],
)
def test_a_command_is_written_as_it_is_sent(
    command: Command[object], request_line: str, shell: str
) -> None:
    lines = lines_of(command, URL)
    assert f"{lines.method} {lines.path} {lines.body}".strip() == request_line
    assert lines.shell == shell
    assert lines.purpose
