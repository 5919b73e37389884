"""Commands as requests and as lines of a shell."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli import control_commands
from kafkalite.config.typed_json import read, to_json
from kafkalite.control.commands.clock import ChangeClock
from kafkalite.control.commands.clusters import ForkCluster
from kafkalite.control.commands.explain import Explain
from kafkalite.control.commands.faults import AddFault, ClearFaults, ReleaseFault, RemoveFault
from kafkalite.control.commands.groups import DeleteGroup, ShowGroup
from kafkalite.control.commands.leaders import MoveLeader
from kafkalite.control.commands.nodes import AddNode, ChangeNode
from kafkalite.control.commands.recordings import DownloadCapture, StartCapture, StopCapture
from kafkalite.control.commands.reset import ResetBroker
from kafkalite.control.commands.snapshots import RestoreSnapshot, SaveSnapshot
from kafkalite.control.commands.topics import CreateTopic
from kafkalite.control.console.command_lines import lines_of
from kafkalite.gateway.fault_rules import Action, Disconnect, Match, Trigger
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.control.command_table import Command, Row

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
            "kafkalite clock advance 500ms",
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


@pytest.mark.parametrize(
    ("command", "shell"),
    [
        (ChangeClock(advance_ms=90_500), "kafkalite clock advance 90500ms"),
        (
            ChangeClock(now_ms=1_700_000_000_123),
            "kafkalite clock set 2023-11-14T22:13:20.123Z",
        ),
        (ChangeClock(rate=60.0), "kafkalite clock rate 60.0"),
        (ChangeClock(mode="auto", rate=9.0), "kafkalite clock auto 9.0"),
        (ChangeClock(mode="auto"), "kafkalite clock auto"),
        (
            AddFault(
                Match(api=ApiKey.PRODUCE, topic="a.b"),
                Trigger(times=1),
                Action(delay_ms=1_500),
            ),
            "kafkalite fault add --api Produce --topic a.b --times 1 --delay 1500ms",
        ),
        (
            AddFault(Match(), Trigger(), Action(error=ErrorCode.INVALID_RECORD, force=True)),
            "kafkalite fault add --error INVALID_RECORD --force",
        ),
        (
            AddFault(Match(), Trigger(), Action(hold=True, disconnect=Disconnect.AFTER)),
            "kafkalite fault add --disconnect after --hold",
        ),
        (ReleaseFault("f1", 2), "kafkalite fault release f1 --count 2"),
        (ClearFaults(), "kafkalite fault remove --all"),
        (ChangeNode(2, state="stopped", controlled=True), "kafkalite node stop 2 --controlled"),
        (ChangeNode(2, metadata="frozen"), "kafkalite node freeze 2"),
        (AddNode(None, {"broker.rack": "a b"}), "kafkalite node add --config 'broker.rack=a b'"),
        (MoveLeader("a-b", 1, 2, unclean=True), "kafkalite leader move a-b-1 2 --unclean"),
        (ForkCluster(snapshot_id="now"), "kafkalite cluster fork --from now"),
        (ForkCluster(name="blue", at="5m"), "kafkalite cluster create blue --at 5m"),
        (RestoreSnapshot("s1", disconnect=True), "kafkalite snapshot restore s1 --disconnect"),
        (SaveSnapshot("s1", "/x/s1.zip"), "kafkalite snapshot save s1 /x/s1.zip"),
        (StartCapture(), "kafkalite recording start"),
        (StartCapture("a-b"), "kafkalite recording start a-b"),
        (StopCapture("a-b"), "kafkalite recording stop a-b"),
        (ResetBroker("orders-*"), "kafkalite reset --topics 'orders-*'"),
    ],
)
def test_a_line_of_a_shell_sends_the_command(
    command: Command[object], shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lines_of(command, URL).shell == shell
    assert sent_by(shell, monkeypatch) == to_json(command, omits_defaults=True)


def test_the_output_of_a_command_that_returns_a_file_has_its_name() -> None:
    found = lines_of(DownloadCapture("a-b"), URL)
    assert found.shell == "kafkalite recording download a-b > a-b.pcapng"
    assert (found.method, found.path) == ("GET", "/v1/captures/a-b/file")


class SentError(Exception):
    """Ends a command of a shell when it sends its request."""


def sent_by(shell: str, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, object]:
    """Return the fields of the command that a line of a shell sends."""

    class Client:
        def __init__(self, _: object) -> None:
            pass

        def request(self, row: Row, given: Mapping[str, object]) -> object:
            raise SentError(read(row.kind, given, "the fields"))

    monkeypatch.setattr(control_commands, "ControlClient", Client)
    _, word, *arguments = shlex.split(shell)
    (command,) = control_commands.commands_named(word)
    parser = ArgumentParser()
    command.add_options(parser)
    with pytest.raises(SentError) as sent:
        command.run(parser.parse_args(arguments))
    found: Mapping[str, object] = to_json(sent.value.args[0], omits_defaults=True)
    return found
