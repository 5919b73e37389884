"""`kafkalite clock` and `kafkalite explain`: what they print, and their exit status."""

from __future__ import annotations

import json
import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.main import main
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

START = "2026-03-01"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    with Broker(control=True, clock=f"manual@{START}") as running:
        monkeypatch.setenv("KAFKALITE_CONTROL", running.control_url)
        yield running


@pytest.mark.usefixtures("broker")
def test_the_clock_is_shown_and_driven(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["clock"],
        ["clock", "show"],
        ["clock", "advance", "7d"],
        ["clock", "advance", "1h30m"],
        ["clock", "set", "2026-04-01T06:00"],
        ["clock", "pause"],
    ):
        main(arguments)
    assert capsys.readouterr().out.splitlines() == [
        "2026-03-01T00:00:00.000Z (manual)",
        "2026-03-01T00:00:00.000Z (manual)",
        "2026-03-08T00:00:00.000Z (manual)",
        "2026-03-08T01:30:00.000Z (manual)",
        "2026-04-01T06:00:00.000Z (manual)",
        "2026-04-01T06:00:00.000Z (manual)",
    ]
    main(["clock", "rate", "60"])
    assert re.fullmatch(r"2026-04-01T06:\S+ \(accelerated, 60 times as fast\)\n", told(capsys))
    main(["clock", "resume"])
    assert told(capsys).endswith("(real)\n")


def test_json_is_what_the_broker_said(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    main(["clock", "--json"])
    assert json.loads(told(capsys))["now_ms"] == broker.clock.now_ms()
    main(["explain", "--group", "g", "--json"])
    assert json.loads(told(capsys))["entries"] == []


@pytest.mark.usefixtures("broker")
def test_of_an_unknown_group_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain", "--group", "g"])
    assert told(capsys) == "nothing is known of a group 'g'\n"
    main(["explain"])
    assert told(capsys) == "nothing is known of any group or transactional id\n"
    main(["explain", "--transactional-id", "t"])
    assert told(capsys) == "nothing is known of a transactional id 't'\n"


def test_groups_are_explained_in_lines_that_a_terminal_may_have(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever chooses a member id, or a client's name, must not write on somebody's screen."""
    port = broker.bootstrap_servers.rpartition(":")[2]
    hostile = "m\x1b[2J\n\u202eé"
    with closing(RawClient(int(port))) as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        for _ in range(2):
            client.call(HeartbeatRequest(group_id="g", member_id=hostile, generation_id=1), 4)
    main(["explain"])
    (line,) = told(capsys).splitlines()
    assert line.startswith("2026-03-01T00:00:00.000Z g refused: ")
    assert line.endswith("(2 times since 2026-03-01T00:00:00.000Z)")
    assert line.isprintable()
    main(["explain", "--group", "g"])
    assert told(capsys).startswith("2026-03-01T00:00:00.000Z refused: ")


def test_a_transactional_id_is_explained_apart_from_a_group_of_its_name(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["g"]), 6)
        client.call(HeartbeatRequest(group_id="g", member_id="m", generation_id=1), 4)
        client.call(InitProducerIdRequest(transactional_id="g", transaction_timeout_ms=0), 5)
    main(["explain", "--transactional-id", "g"])
    (line,) = told(capsys).splitlines()
    assert line.startswith("2026-03-01T00:00:00.000Z refused: transactional id g refused: ")
    main(["explain", "--group", "g"])
    (line,) = told(capsys).splitlines()
    assert "heartbeat of m refused" in line
    main(["explain"])
    assert len(told(capsys).splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["clock", "advance"], 2, "needs a duration"),
        (["clock", "advance", "soon"], 2, "is not a duration"),
        (["clock", "set", "soon"], 2, "is not a time"),
        (["clock", "set"], 2, "needs a time"),
        (["clock", "rate", "fast"], 2, "is not a rate"),
        (["clock", "show", "7d"], 2, "takes no '7d'"),
        (["clock", "pause", "7d"], 2, "takes no '7d'"),
        (["clock", "stop"], 2, "invalid choice"),
        (["clock", "--control", "https://h:1"], 2, "http://HOST:PORT"),
        (["clock", "--control", "there"], 2, "'there' is not where a broker is driven"),
        (["explain", "--limit", "many"], 2, "--limit"),
        (["explain", "--group", "g", "--transactional-id", "t"], 2, "not allowed with"),
        (["explain", "--limit", "0"], 1, "limit is a number"),
        (["clock", "set", "2020-01-01"], 1, "time only goes forward"),
        (["clock", "rate", "-5"], 1, "rate -5"),
        (["clock", "--control", "http://127.0.0.1:1"], 1, "no broker can be driven at"),
    ],
)
@pytest.mark.usefixtures("broker")
def test_what_cannot_be_is_said_in_one_line(
    arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == status
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("kafkalite: ")
    assert said in line


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out
