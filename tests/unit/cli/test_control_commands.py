"""`kafkalite clock`, `fault`, `explain` and `client-metrics`: their output and exit status."""

from __future__ import annotations

import json
import re
import sys
from contextlib import closing
from dataclasses import fields
from math import inf, nan
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from kafkalite.cli.main import main
from kafkalite.gateway.fault_rules import Match, rule_to_json
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient
from tests.unit.server.recorders import CONTENT, use_fake_recorder
from tests.unit.telemetry.pushes import counter, push_metrics, serialized

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START = "2026-03-01"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    with Broker(control=True, clock=f"manual@{START}") as running:
        monkeypatch.setenv("KAFKALITE_CONTROL", running.control_url)
        yield running


def test_the_control_address_is_accepted_before_and_after_the_action(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Broker(control=True) as running:
        address = ["--control", running.control_url]
        for command in (["node", *address, "list", "--json"], ["node", "--json", "list", *address]):
            main(command)
            assert json.loads(output(capsys))["nodes"]


@pytest.mark.usefixtures("broker")
def test_clock_is_shown_and_changed(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert re.fullmatch(r"2026-04-01T06:\S+ \(accelerated, 60 times as fast\)\n", output(capsys))
    main(["clock", "resume"])
    assert output(capsys).endswith("(real)\n")


def test_json_option_prints_the_response_of_the_broker(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["clock", "--json"])
    assert json.loads(output(capsys))["now_ms"] == broker.clock.now_ms()
    main(["explain", "--group", "g", "--json"])
    assert json.loads(output(capsys))["entries"] == []


@pytest.mark.usefixtures("broker")
def test_unknown_group_has_no_entries(capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain", "--group", "g"])
    assert output(capsys) == "no entries about a group 'g'\n"
    main(["explain"])
    assert output(capsys) == "no entries about any group, transactional id, topic or client\n"
    main(["explain", "--transactional-id", "t"])
    assert output(capsys) == "no entries about a transactional id 't'\n"
    main(["explain", "--topic", "t"])
    assert output(capsys) == "no entries about a topic 't'\n"
    main(["explain", "--client", "10.0.0.9"])
    assert output(capsys) == "no entries about a client '10.0.0.9'\n"
    main(["explain", "--client", "localhost"])
    assert output(capsys).startswith("no entries about a client 'localhost'; write the address of ")


def test_control_characters_in_group_entries_are_escaped(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clients choose member ids and client ids, which must not control the terminal."""
    port = broker.bootstrap_servers.rpartition(":")[2]
    hostile = "m\x1b[2J\n\u202eé"
    with closing(RawClient(int(port))) as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        for _ in range(2):
            client.call(HeartbeatRequest(group_id="g", member_id=hostile, generation_id=1), 4)
    main(["explain"])
    (line,) = output(capsys).splitlines()
    assert line.startswith("2026-03-01T00:00:00.000Z g refused: ")
    assert line.endswith("(2 times since 2026-03-01T00:00:00.000Z)")
    assert line.isprintable()
    main(["explain", "--group", "g"])
    assert output(capsys).startswith("2026-03-01T00:00:00.000Z refused: ")


def test_kinds_of_events_have_colours_on_a_terminal(
    broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalite.cli.tables.has_colours", lambda: True)
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["refused:"]), 6)
        client.call(HeartbeatRequest(group_id="refused:", member_id="m", generation_id=1), 4)
    main(["explain", "--group", "refused:"])
    (line,) = output(capsys).splitlines()
    assert line.startswith("2026-03-01T00:00:00.000Z \x1b[31mrefused:\x1b[0m ")


def test_transactional_id_and_group_of_the_same_name_are_separate(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(RawClient(int(broker.bootstrap_servers.rpartition(":")[2]))) as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["g"]), 6)
        client.call(HeartbeatRequest(group_id="g", member_id="m", generation_id=1), 4)
        client.call(InitProducerIdRequest(transactional_id="g", transaction_timeout_ms=0), 5)
    main(["explain", "--transactional-id", "g"])
    (line,) = output(capsys).splitlines()
    assert line.startswith("2026-03-01T00:00:00.000Z refused: transactional id g refused: ")
    main(["explain", "--group", "g"])
    (line,) = output(capsys).splitlines()
    assert "heartbeat of m refused" in line
    main(["explain"])
    assert len(output(capsys).splitlines()) == 2


@pytest.mark.usefixtures("broker")
def test_faults_are_added_listed_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    add = ["fault", "add", "--api", "Produce", "--topic", "orders"]
    main([*add, "--error", "NOT_ENOUGH_REPLICAS", "--times", "1"])
    main(["fault", "add", "--group", "g", "--delay", "2s", "--disconnect", "--every", "3"])
    first = "f1: api=Produce topic=orders; times=1; error=NOT_ENOUGH_REPLICAS"
    second = "f2: group=g; every=3; delay_ms=2000 disconnect=before"
    lines = [f"{fault} (0 selected, 0 fired)" for fault in (first, second)]
    assert output(capsys).splitlines() == lines
    main(["fault", "list"])
    assert output(capsys).splitlines() == lines
    main(["fault", "list", "--json"])
    assert [each["id"] for each in json.loads(output(capsys))["faults"]] == ["f1", "f2"]
    main(["fault", "remove", "f2"])
    main(["fault", "remove", "--all"])
    assert output(capsys).splitlines() == [lines[1], lines[0]]
    main(["fault", "list"])
    assert output(capsys) == "no faults\n"


def test_every_selector_of_a_fault_is_sent(broker: Broker) -> None:
    values = {
        "api": "Produce",
        "min_version": 3,
        "max_version": 9,
        "client_id": "c",
        "software": "librdkafka *",
        "principal": "User:alice",
        "topic": "t",
        "partition": 3,
        "transactional_id": "x",
        "producer_id": 7,
        "node": 1,
        "listener": "PLAINTEXT",
    }
    options = [
        text
        for name, value in values.items()
        for text in (f"--{name.replace('_', '-')}", str(value))
    ]
    main(["fault", "add", "--disconnect", *options])
    main(["fault", "add", "--disconnect", "--group", "g", "--member", "m"])
    (first, second) = (rule_to_json(each.rule)["match"] for each in broker.faults.list())
    assert first | second == values | {"group": "g", "member": "m"}
    assert (first | second).keys() == {field.name for field in fields(Match)}


def test_control_characters_in_a_fault_are_escaped(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.faults.add(group="g\x1b[2J\n\u202e", disconnect=True)
    main(["fault", "list"])
    (line,) = output(capsys).splitlines()
    assert line.isprintable()


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["clock", "advance"], 2, "required: DURATION"),
        (["clock", "advance", "soon"], 2, "is not a duration"),
        (["clock", "set", "soon"], 2, "is not a time"),
        (["clock", "set"], 2, "required: TIME"),
        (["clock", "rate", "fast"], 2, "is not a rate"),
        (["clock", "show", "7d"], 2, "unrecognized arguments: 7d"),
        (["clock", "pause", "7d"], 2, "unrecognized arguments: 7d"),
        (["clock", "stop"], 2, "invalid choice"),
        (["__init__"], 2, "invalid choice: '__init__'"),
        (["clock", "--control", "ftp://h:1"], 2, "http://HOST:PORT"),
        (["clock", "--control-token", "short"], 2, "the control token has an invalid length"),
        (["clock", "--control-token", "@/nowhere"], 2, "no such file"),
        (["clock", "--control-ca", "/nowhere", "--control", "https://127.0.0.1:1"], 2, "/nowhere"),
        (["clock", "--control", "there"], 2, "'there' is not the address of a control endpoint"),
        (["explain", "--limit", "many"], 2, "--limit"),
        (["explain", "--group", "g", "--transactional-id", "t"], 2, "not allowed with"),
        (["explain", "--limit", "0"], 1, "limit must be a whole number"),
        (["fault"], 2, "ACTION"),
        (["fault", "break"], 2, "invalid choice"),
        (["fault", "add"], 2, "needs --error, --delay, --delay-max, "),
        (["fault", "add", "--delay", "soon"], 2, "is not a duration"),
        (["fault", "add", "--disconnect", "now"], 2, "invalid choice"),
        (["fault", "add", "--disconnect", "--times", "many"], 2, "--times"),
        (["fault", "add", "--disconnect", "--topics", "a"], 2, "fault add --help"),
        (["fault", "add", "--disconnect", "--topics=a"], 2, "--topics=a; did you mean --topic?"),
        (["fault", "list", "a"], 2, "unrecognized arguments: a (see"),
        (["fault", "list", "--no"], 2, "unrecognized arguments: --no (see"),
        (["fault", "remove"], 2, "needs either the ID of a fault or --all"),
        (["fault", "remove", "f1", "--all"], 2, "needs either the ID of a fault or --all"),
        (["fault", "remove", "../f9\n"], 1, "no fault"),
        (["requests", "--follow", "--wait-ms", "5"], 2, "takes --follow or --wait-ms, not both"),
        (["fault", "add", "--error", "NOT_ENOUGH"], 1, "similar names are NOT_ENOUGH_REPLICAS"),
        (["fault", "add", "--api", "Fetsch", "--disconnect"], 1, "similar names are Fetch"),
        (["clock", "set", "2020-01-01"], 1, "time only moves forward"),
        (["clock", "rate", "-5"], 1, "not -5.0"),
        (["clock", "--control", "http://127.0.0.1:1"], 1, "no control endpoint answers at"),
    ],
)
@pytest.mark.usefixtures("broker")
def test_error_is_one_line(
    arguments: list[str], status: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == status
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("kafkalite: ")
    assert reason in line


def output(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_client_metrics_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"kafkalite.client.telemetry": "true"}
    with Broker(control=True, clock=f"manual@{START}", config=config) as broker:
        monkeypatch.setenv("KAFKALITE_CONTROL", broker.control_url)
        main(["client-metrics"])
        assert output(capsys).startswith("no client has pushed metrics; ")
        histogram = Metric(name="h")
        histogram.histogram.data_points.add(count=3, sum=6.0)
        push_metrics(broker, serialized(counter("sent", 2, topic="a\x1b"), histogram))
        main(["client-metrics"])
        header, *lines = output(capsys).splitlines()
        assert re.fullmatch(
            r"conformance \(unknown unknown, 127\.0\.0\.1, instance AQEBAQEBAQEBAQEBAQEBAQ\): "
            r"1 push at 2026-03-01T00:00:00\.000Z, terminated",
            header,
        )
        assert lines == ["  h{} count=3 sum=6", "  sent{topic=a\\x1b} 2"]
        main(["client-metrics", "--client-id", "other"])
        assert output(capsys).startswith("no client with the id 'other' has pushed metrics; ")
        main(["client-metrics", "--json"])
        assert json.loads(output(capsys))["clients"][0]["pushes"] == 1
        main(["client-metrics", "--prometheus", "--client-id", "conformance"])
        assert "sent_total{" in output(capsys)
        monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
        main(["client-metrics", "--client-id", "other"])
        assert output(capsys).startswith(
            "pushed metrics are not decoded without the extra telemetry"
        )


def test_a_client_without_a_client_id_is_printed_with_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"kafkalite.client.telemetry": "true"}
    with Broker(control=True, clock=f"manual@{START}", config=config) as broker:
        monkeypatch.setenv("KAFKALITE_CONTROL", broker.control_url)
        push_metrics(broker, serialized(counter("sent")), client_id=None)
        main(["client-metrics"])
    assert output(capsys).startswith("- (unknown unknown, 127.0.0.1, ")


def test_numbers_that_json_does_not_have_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"kafkalite.client.telemetry": "true"}
    with Broker(control=True, clock=f"manual@{START}", config=config) as broker:
        monkeypatch.setenv("KAFKALITE_CONTROL", broker.control_url)
        gauge, histogram = Metric(name="g"), Metric(name="h")
        gauge.gauge.data_points.add(as_double=-inf)
        histogram.histogram.data_points.add(count=1, sum=nan)
        push_metrics(broker, serialized(gauge, histogram))
        main(["client-metrics"])
    assert output(capsys).splitlines()[1:] == ["  g{} -Infinity", "  h{} count=1 sum=NaN"]


@pytest.mark.usefixtures("broker")
def test_client_metrics_that_clients_do_not_push_are_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["client-metrics"])
    assert end.value.code == 1
    assert "kafkalite.client.telemetry=true" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["client-metrics", "--json", "--prometheus"])
    assert end.value.code == 2


def test_a_capture_is_written_to_the_output(
    broker: Broker,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del broker
    use_fake_recorder(monkeypatch)
    main(["recording", "start", "first"])
    assert capfdbinary.readouterr().out.startswith(b"first: recording, ")
    main(["recording", "download", "first"])
    assert capfdbinary.readouterr().out == CONTENT.encode()


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["a"], 1, "there is no capture 'a'; there are none"),
        (["a", "--json"], 2, "recording download writes a file, which is not JSON: omit --json"),
    ],
)
def test_a_file_that_is_not_written_is_an_error(
    arguments: Sequence[str], status: int, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["recording", "download", *arguments])
    assert exit_info.value.code == status
    assert capsys.readouterr().err == f"kafkalite: {error}\n"


@pytest.mark.usefixtures("broker")
def test_a_file_is_not_written_to_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(SystemExit, match="2"):
        main(["recording", "download", "a"])
    assert capsys.readouterr().err == (
        "kafkalite: recording download writes a file to its output: add > a.pcapng\n"
    )
