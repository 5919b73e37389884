"""`kafkalite show`: lines, selection, problems and exit status."""

# ruff: noqa: S311 - traffic is to be repeatable
from __future__ import annotations

import json
import os
from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.model import Direction, Endpoint
from kafkalite.cli import exchange_text
from kafkalite.cli.main import main
from tests.captures import damage, traffic
from tests.unit.frames import framed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def capture(tmp_path: Path) -> str:
    talk = damage.TcpConnection(Endpoint("10.9.8.7", 40_000), traffic.BROKER, traffic.START_NS)
    for number, group in enumerate(("orders", "payments")):
        at_ns = traffic.START_NS + (number + 1) * traffic.MS
        asked = traffic.request_frame(8, 8, number, traffic.commit_request(group, 7))
        talk.request(at_ns, framed(asked))
        response = traffic.commit_response(1)
        response.topics[0].partitions[0].error_code = 25 * number
        answer = traffic.response_frame(8, 8, number, response)
        talk.response(at_ns + 500_000, framed(answer))
    path = tmp_path / "some.pcap"
    path.write_bytes(damage.capture_file(talk.packets))
    return str(path)


def shown_lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    main(["show", *arguments])
    return capsys.readouterr().out.splitlines()


def test_line_has_time_client_api_latency_and_outcome(
    capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = shown_lines(capsys, capture)
    assert first == (
        "2023-11-14T22:13:20.001000Z  tester@10.9.8.7:40000 > 10.1.2.3:9092  OffsetCommit v8  "
        "0.500 ms  group=orders generation=3 member=member-1 topics=topic-0(1),topic-1(1)"
    )
    assert second.endswith("topics=topic-0(1),topic-1(1)  UNKNOWN_MEMBER_ID")


def test_a_summary_replaces_the_lines(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown_lines(capsys, capture, "--summary", "--group", "orders")
    assert lines[0].startswith("1 requests in 0.0 s from 2023-11-14T22:13:20.001000Z")
    assert "groups:" in lines
    with pytest.raises(SystemExit) as caught:
        main(["show", capture, "--summary", "--json"])
    assert caught.value.code == 2
    assert "--summary cannot be combined with --json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--api", "offsetcommit"], 2),
        (["--api", "8", "--api", "Fetch"], 2),
        (["--api", "8,Fetch"], 2),
        (["--api", "Fetch"], 0),
        (["--group", "pay*"], 1),
        (["--topic", "topic-1"], 2),
        (["--topic", "other"], 0),
        (["--client", "tester"], 2),
        (["--client", "10.9.8.7:*"], 2),
        (["--client", "unknown"], 0),
        (["--errors"], 1),
        (["--errors", "--group", "orders"], 0),
    ],
)
def test_patterns_select_exchanges(
    capture: str, capsys: pytest.CaptureFixture[str], options: list[str], count: int
) -> None:
    assert len(shown_lines(capsys, capture, *options)) == count


def test_json_has_messages_in_kafkas_format(
    capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [json.loads(line) for line in shown_lines(capsys, capture, "--json")]
    assert found[1]["errors"] == ["UNKNOWN_MEMBER_ID"]
    assert found[1]["latencyUs"] == 500
    assert found[1]["request"]["groupId"] == "payments"
    assert found[1]["response"]["topics"] == [
        {"name": "topic-0", "partitions": [{"partitionIndex": 1, "errorCode": 25}]}
    ]


def test_problems_are_counted_on_stderr_and_listed_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"no capture at all")
    main(["show", str(tmp_path)])
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        "kafkalite: the captures have problems (see --problems): not a capture: 1\n"
    )
    printed = f"{path}:0  not a capture: neither pcap nor pcapng: begins with 6e6f2063"
    assert shown_lines(capsys, "--problems", str(tmp_path)) == [printed]
    (line,) = shown_lines(capsys, "--problems", "--json", str(tmp_path))
    assert json.loads(line)["kind"] == "not a capture"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere"], "no such file or directory: 'nowhere'"),
        ([".", "--api", "Cough"], "unknown API 'Cough'"),
        ([".", "--api", "prodce"], "unknown API 'prodce'; did you mean Produce?"),
        ([".", "--records"], "--records needs --json"),
        ([".", "--port", "0"], "argument --port: '0' is not a port (see kafkalite show --help)"),
    ],
)
def test_usage_error_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["show", *arguments])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"kafkalite: {reason}\n"


def test_a_named_file_that_is_not_a_capture_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"no capture at all")
    with pytest.raises(SystemExit) as ended:
        main(["show", str(path)])
    assert ended.value.code == 2
    reason = "neither pcap nor pcapng: begins with 6e6f2063"
    assert capsys.readouterr().err == f"kafkalite: {path} is not a capture: {reason}\n"


def test_closed_output_ends_the_command(capture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    printed: list[str] = []

    def exchange_line(decoded: exchange_text.DecodedExchange) -> str:
        printed.append(decoded.exchange.client_id or "")
        return "a line\n"

    with os.fdopen(writes, "w") as closed_pipe:
        monkeypatch.setattr("sys.stdout", closed_pipe)
        monkeypatch.setattr(exchange_text, "exchange_line", exchange_line)
        main(["show", capture])
    assert printed == ["tester"]


def test_capture_without_requests_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["show", str(tmp_path)])
    assert capsys.readouterr() == ("", f"kafkalite: no requests in {tmp_path}\n")


def test_options_that_match_no_request_are_reported(
    capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["show", capture, "--group", "unknown"])
    out, printed = capsys.readouterr()
    assert out == ""
    assert printed.startswith("kafkalite: none of ")
    assert printed.endswith(" matches the options\n")


def test_every_kind_of_traffic_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conversations = traffic.clean(Random(5))
    path = tmp_path / "some.pcap"
    path.write_bytes(damage.capture_file(traffic.packets(conversations)))
    lines = shown_lines(capsys, str(path))
    assert len(lines) == sum(len(each.frames[Direction.REQUEST]) for each in conversations)
    records = [
        json.loads(line)["request"]
        for line in shown_lines(capsys, "--json", "--records", str(path))
    ]
    produced = [each for each in records if "topicData" in each]
    assert all(each["topicData"][0]["partitionData"][0]["records"] for each in produced)


def test_interrupt_prints_no_traceback(
    capture: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(exchange_text, "exchange_line", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["show", capture])
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")
