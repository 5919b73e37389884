"""`kafkalite replay`: what it prints, and its exit status."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import closing
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from kafkalite.cli.main import main
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.replay.pace import ClockError
from kafkalite.replay.player import Player
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


def test_a_replay_without_a_difference_is_a_success(
    capture: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["replay", str(capture), "--to", broker.bootstrap_servers, "--fail-on", "timing"])
    out = capsys.readouterr().out
    assert out.startswith("1 requests on 1 connections")
    assert "1 responses compared, 1 alike" in out


def test_a_difference_is_told_and_fails(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as other:
        asked = ["replay", str(capture), "--to", other.bootstrap_servers]
        with pytest.raises(SystemExit, match="1"):
            main(asked)
        text = capsys.readouterr().out
        main([*asked, "--fail-on", "error", "--json"])
        shape = json.loads(capsys.readouterr().out)
    assert "Metadata v12 topics: once" in text
    assert [each["path"] for each in shape["findings"]] == ["topics"]


def test_the_targets_clock_goes_with_the_capture(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker(topics={"orders": 1}, control=True) as driven:
        asked = ["replay", str(capture), "--to", driven.bootstrap_servers]
        main([*asked, "--control", driven.control_url])
        assert driven.clock.mode == "manual"
    assert "1 alike" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        (["--to", "127.0.0.1:1"], 1, "connection refused"),
        (["--to", "nowhere"], 2, "is not an address"),
        (["--to", "127.0.0.1:1", "--speed", "fast"], 2, "neither original, nor max"),
        (["--to", "127.0.0.1:1", "--timeout", "soon"], 2, "soon"),
        (["--to", "127.0.0.1:1", "--control", "ftp://x"], 2, "ftp"),
    ],
)
def test_bad_use_is_one_line(
    capture: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    status: int,
    told: str,
) -> None:
    with pytest.raises(SystemExit, match=str(status)):
        main(["replay", str(capture), *options])
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_what_is_no_capture_is_bad_use(
    tmp_path: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.pcapng").write_text("nothing of the kind")
    with pytest.raises(SystemExit, match="2"):
        main(["replay", str(tmp_path), "--to", broker.bootstrap_servers])
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.startswith("kafkalite: nothing to replay: ")
    assert "notes.pcapng: neither pcap nor pcapng" in heard.err


def test_a_path_that_is_not_there_is_told_before_the_target_is_asked(
    tmp_path: Path, capture: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "nothere")
    with pytest.raises(SystemExit, match="2"):
        main(["replay", missing, "--to", "127.0.0.1:1"])
    told = f"kafkalite: nothing to replay: {missing}: No such file or directory\n"
    assert capsys.readouterr() == ("", told)
    # Where others are there, it is one of the problems.
    main(["replay", missing, str(capture), "--to", broker.bootstrap_servers])
    assert f"{missing}: No such file" in capsys.readouterr().out


def test_captures_without_requests_are_bad_use(
    tmp_path: Path, capture: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    for asked, told in (
        ([str(tmp_path)], f"there are no requests in {tmp_path}"),
        (
            [str(capture), "--clients", "nobody*"],
            f"there are no requests of clients 'nobody*' in {capture}",
        ),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["replay", *asked, "--to", broker.bootstrap_servers])
        assert capsys.readouterr() == ("", f"kafkalite: nothing to replay: {told}\n")


def test_who_interrupts_a_replay_is_told_what_was_found_until_then(
    capture: Path,
    broker: Broker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: Player, exchange: Exchange, at_ns: int) -> NoReturn:
        del self, exchange, at_ns
        raise KeyboardInterrupt

    # As it waits for an answer.
    monkeypatch.setattr(Player, "_await", interrupted)
    with pytest.raises(SystemExit, match="130"):
        main(["replay", str(capture), "--to", broker.bootstrap_servers, "--json"])
    shape = json.loads(capsys.readouterr().out)
    assert (shape["requests"], shape["broken_off"]) == (1, "it was interrupted")


def test_a_replay_whose_clock_is_lost_tells_what_was_found_until_then(
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
    heard = capsys.readouterr()
    shape = json.loads(heard.out)
    assert (shape["requests"], shape["broken_off"]) == (2, "the clock is lost")
    assert heard.err == "kafkalite: the clock is lost\n"


@pytest.mark.parametrize("interrupts", [signal.SIG_IGN, signal.default_int_handler])
def test_who_terminates_a_replay_is_told_the_same(
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
    assert (shape["requests"], shape["broken_off"]) == (1, "it was interrupted")
