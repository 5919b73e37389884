"""`kafkalite node` and `leader`: their output, exit status and errors."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.main import main
from kafkalite.protocol._generated.messages.unregister_broker import UnregisterBrokerRequest
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    config = {"default.replication.factor": 3}
    with Broker(
        brokers=3, topics={"orders": 1}, control=True, clock="manual", config=config
    ) as running:
        running.move_leader("orders", 0, 1)
        monkeypatch.setenv("KAFKALITE_CONTROL", running.control_url)
        yield running


def output(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the printed lines, with `PORT` for each port."""
    return re.sub(r":\d{4,}", ":PORT", capsys.readouterr().out).splitlines()


ADDRESS = "PLAINTEXT 127.0.0.1:PORT"


@pytest.mark.usefixtures("broker")
def test_nodes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["node", "list"])
    assert output(capsys) == [
        f"node 1: running, leads 1 partition, {ADDRESS}",
        f"node 2: running, leads 0 partitions, {ADDRESS}",
        f"node 3: running, leads 0 partitions, {ADDRESS}",
    ]


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["stop"], "stopped, metadata stale"),
        (["stop", "start"], "running"),
        (["isolate"], "isolated"),
        (["isolate", "start"], "running"),
        (["freeze"], "running, metadata frozen"),
        (["freeze", "thaw"], "running"),
        (["pause"], "running, replication paused"),
        (["pause", "resume"], "running"),
    ],
)
@pytest.mark.usefixtures("broker")
def test_a_node_is_changed(
    actions: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for action in actions:
        main(["node", action, "2"])
    assert output(capsys)[-1] == f"node 2: {expected}, leads 0 partitions, {ADDRESS}"


def test_a_leader_is_moved(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    del broker
    main(["leader", "move", "orders-0", "2"])
    (line,) = output(capsys)
    assert re.fullmatch(
        r"orders-0: node 2 leads in epoch \d, replicas( \d){3}, in sync( \d){3}, 0 records lost",
        line,
    )
    main(["leader", "move", "orders-0", "3", "--unclean", "--json"])
    assert json.loads(capsys.readouterr().out)["leader"] == 3


@pytest.mark.usefixtures("broker")
def test_json_option_prints_the_response_of_the_broker(capsys: pytest.CaptureFixture[str]) -> None:
    main(["node", "list", "--json"])
    assert [node["id"] for node in json.loads(capsys.readouterr().out)["nodes"]] == [1, 2, 3]
    main(["node", "pause", "2", "--json"])
    assert json.loads(capsys.readouterr().out)["replication"] == "paused"


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["node"], 2, "the following arguments are required: ACTION"),
        (["node", "stop"], 2, "the following arguments are required: ID"),
        (["node", "stop", "two"], 2, "argument ID: 'two' is not a whole number"),
        (["node", "kill", "2"], 2, "invalid choice: 'kill'"),
        (["node", "stop", "4"], 1, "there is no node 4: the nodes are 1, 2, 3"),
        (["node", "add", "2"], 1, "node 2 exists already"),
        (["node", "add", "--config", "broker.rack"], 2, "write KEY=VALUE"),
        (["node", "add", "--config", "x=y"], 1, "node 4: Unknown configuration x"),
        (["node", "remove", "1"], 1, "node 1 cannot be removed: it has replicas of 1 partition"),
        (["leader", "move", "orders", "2"], 2, "'orders' is not a partition: write"),
        (["leader", "move", "orders-x", "2"], 2, "'orders-x' is not a partition: write"),
        (["leader", "move", "orders-0", "4"], 1, "Node 4 has no replica of orders-0"),
        (["leader", "move", "orders-7", "2"], 1, "No such partition as orders-7"),
        (["leader", "move", "\x1b-0", "2"], 1, "topic must be the name of a topic"),
    ],
)
@pytest.mark.usefixtures("broker")
def test_an_error_is_one_line(
    arguments: list[str], status: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kafkalite: ")
    assert reason in line
    assert line.isprintable()


def test_the_last_node_is_not_isolated(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    broker.nodes[1].stop()
    broker.nodes[2].stop()
    with pytest.raises(SystemExit) as ended:
        main(["node", "isolate", "3"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "kafkalite: node 3 cannot be isolated: no other node is running\n"
    )


@pytest.mark.usefixtures("broker")
def test_nodes_are_added_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["node", "add", "--config", "broker.rack=b"])
    main(["node", "add", "7", "--json"])
    first, *rest = capsys.readouterr().out.splitlines(keepends=True)
    assert re.sub(r":\d{4,}", ":PORT", first) == (
        f"node 4: running, leads 0 partitions, {ADDRESS}\n"
    )
    assert json.loads("".join(rest))["id"] == 7
    main(["node", "remove", "7"])
    main(["node", "stop", "4"])
    main(["node", "remove", "4"])
    assert output(capsys) == [
        "node 7: removed",
        f"node 4: stopped, metadata stale, leads 0 partitions, {ADDRESS}",
        "node 4: removed",
    ]


def test_a_node_is_shut_down(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    main(["node", "stop", "1", "--controlled"])
    assert output(capsys) == [f"node 1: stopped, leads 0 partitions, {ADDRESS}"]
    assert broker.nodes[1].state == "stopped"


def test_an_unregistered_node_is_listed_as_such(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    client = RawClient(int(broker.nodes[1].bootstrap_servers.rpartition(":")[2]))
    assert client.call(UnregisterBrokerRequest(broker_id=2), 0).error_code == 0
    client.close()
    main(["node", "list"])
    assert output(capsys)[1] == f"node 2: running, unregistered, leads 0 partitions, {ADDRESS}"
    main(["node", "start", "2"])
    assert output(capsys) == [f"node 2: running, leads 0 partitions, {ADDRESS}"]
