"""`kafkalite replay`: its output and its exit status."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import closing
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from kafkalite.cli.main import main
from kafkalite.lab.replay.player.pacing import ClockError
from kafkalite.lab.replay.player.player import Player
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.capture.model import Exchange


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("capture")
    with Broker(topics={"orders": 1}, capture=directory) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        with closing(RawClient(port)) as client:
            client.call(MetadataRequest(topics=None), 12)
    return directory


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as running:
        yield running


def test_replay_without_differences_exits_with_0(
    capture: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["replay", str(capture), "--to", broker.bootstrap_servers, "--fail-on", "timing"])
    out = capsys.readouterr().out
    assert out.startswith("1 request on 1 connection")
    assert "1 response compared, 1 equal" in out


def test_difference_is_printed_and_exits_with_1(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker() as other:
        asked = ["replay", str(capture), "--to", other.bootstrap_servers]
        with pytest.raises(SystemExit, match="1"):
            main(asked)
        text = capsys.readouterr().out
        main([*asked, "--fail-on", "error", "--json"])
        shape = json.loads(capsys.readouterr().out)
    assert "Metadata v12 topics: once" in text
    assert [each["path"] for each in shape["findings"]] == ["topics"]


def test_clock_of_the_target_follows_the_capture(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker(topics={"orders": 1}, control=True) as driven:
        asked = ["replay", str(capture), "--to", driven.bootstrap_servers]
        main([*asked, "--control", driven.control_url])
        assert driven.clock.mode == "manual"
    assert "1 equal" in capsys.readouterr().out


def test_clock_of_a_target_with_tls_and_token_follows_the_capture(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = "a-token-of-tests"  # noqa: S105 - of a broker that lives for a moment
    with Broker(topics={"orders": 1}, security="SSL", control=True, control_token=token) as driven:
        authority = driven.control_ca
        assert authority is not None
        asked = [
            "replay",
            str(capture),
            "--to",
            driven.bootstrap_servers,
            "--tls",
            "--ca",
            authority,
        ]
        asked += ["--control", driven.control_url]
        main([*asked, "--control-token", token, "--control-ca", authority])
        assert "1 equal" in capsys.readouterr().out
        with pytest.raises(SystemExit, match="1"):
            main(asked)
        assert "needs a token" in capsys.readouterr().err
        with pytest.raises(SystemExit, match="2"):
            main([*asked, "--control-token", "short"])
    assert "the control token has an invalid length" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "status", "reason"),
    [
        (["--to", "127.0.0.1:1"], 1, "connection refused"),
        (["--to", "nowhere"], 2, "is not an address"),
        (["--to", "127.0.0.1:1", "--speed", "fast"], 2, "is not original, max or a factor"),
        (["--to", "127.0.0.1:1", "--timeout", "soon"], 2, "soon"),
        (["--to", "127.0.0.1:1", "--control", "ftp://x"], 2, "ftp"),
    ],
)
def test_usage_error_is_one_line(
    capture: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    status: int,
    reason: str,
) -> None:
    with pytest.raises(SystemExit, match=str(status)):
        main(["replay", str(capture), *options])
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


def test_directory_without_captures_is_a_usage_error(
    tmp_path: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.pcapng").write_text("nothing of the kind")
    with pytest.raises(SystemExit, match="2"):
        main(["replay", str(tmp_path), "--to", broker.bootstrap_servers])
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("kafkalite: nothing to replay: ")
    assert "notes.pcapng: neither pcap nor pcapng" in output.err


def test_missing_path_is_rejected_before_the_target_is_contacted(
    tmp_path: Path, capture: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "nothere")
    with pytest.raises(SystemExit, match="2"):
        main(["replay", missing, "--to", "127.0.0.1:1"])
    reason = f"kafkalite: nothing to replay: {missing}: No such file or directory\n"
    assert capsys.readouterr() == ("", reason)
    # With other captures, a missing path is one of the problems.
    main(["replay", missing, str(capture), "--to", broker.bootstrap_servers])
    assert f"{missing}: No such file" in capsys.readouterr().out


def test_captures_without_requests_are_a_usage_error(
    tmp_path: Path, capture: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    for asked, reason in (
        ([str(tmp_path)], f"there are no requests in {tmp_path}"),
        (
            [str(capture), "--clients", "unknown*"],
            f"there are no requests of clients 'unknown*' in {capture}",
        ),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["replay", *asked, "--to", broker.bootstrap_servers])
        assert capsys.readouterr() == ("", f"kafkalite: nothing to replay: {reason}\n")


def test_interrupted_replay_prints_a_partial_report(
    capture: Path,
    broker: Broker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: Player, exchange: Exchange, at_ns: int) -> NoReturn:
        del self, exchange, at_ns
        raise KeyboardInterrupt

    # The replay is waiting for a response.
    monkeypatch.setattr(Player, "_await", interrupted)
    with pytest.raises(SystemExit, match="130"):
        main(["replay", str(capture), "--to", broker.bootstrap_servers, "--json"])
    shape = json.loads(capsys.readouterr().out)
    assert (shape["requests"], shape["abort_reason"]) == (1, "it was interrupted")


def test_replay_that_loses_the_clock_prints_a_partial_report(
    broker: Broker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Broker(topics={"orders": 1}, capture=tmp_path) as recorded:
        port = int(recorded.bootstrap_servers.rpartition(":")[2])
        with closing(RawClient(port)) as client:
            client.call(MetadataRequest(topics=None), 12)
            client.call(MetadataRequest(topics=None), 12)
    play = Player._await
    played: list[int] = []

    async def lost(self: Player, exchange: Exchange, at_ns: int) -> None:
        if played:
            raise ClockError("the clock is lost")
        played.append(at_ns)
        await play(self, exchange, at_ns)

    monkeypatch.setattr(Player, "_await", lost)
    with pytest.raises(SystemExit, match="1"):
        main(["replay", str(tmp_path), "--to", broker.bootstrap_servers, "--json"])
    output = capsys.readouterr()
    shape = json.loads(output.out)
    assert (shape["requests"], shape["abort_reason"]) == (2, "the clock is lost")
    assert output.err == "kafkalite: the clock is lost\n"


@pytest.mark.parametrize("interrupts", [signal.SIG_IGN, signal.default_int_handler])
def test_terminated_replay_prints_a_partial_report(
    capture: Path,
    broker: Broker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    interrupts: Any,  # noqa: ANN401 - of the signal module
) -> None:
    async def terminated(self: Player, exchange: Exchange, at_ns: int) -> None:
        del self, exchange, at_ns
        signal.raise_signal(signal.SIGTERM)
        await asyncio.Event().wait()

    monkeypatch.setattr(Player, "_await", terminated)
    handlers = signal.getsignal(signal.SIGTERM), signal.signal(signal.SIGINT, interrupts)
    try:
        with pytest.raises(SystemExit, match="143"):
            main(["replay", str(capture), "--to", broker.bootstrap_servers, "--json"])
        assert signal.getsignal(signal.SIGTERM) is handlers[0]
    finally:
        signal.signal(signal.SIGINT, handlers[1])
    shape = json.loads(capsys.readouterr().out)
    assert (shape["requests"], shape["abort_reason"]) == (1, "it was interrupted")
