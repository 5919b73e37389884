"""`kafkalite console`: what it opens, serves and refuses."""

from __future__ import annotations

import re
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, build_opener

import pytest

from kafkalite.cli import console
from kafkalite.cli.main import main
from kafkalite.lab.file_console import capture_index
from kafkalite.testing import Broker
from tests.captures.member_lives import CAPTURE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

open_url = build_opener(ProxyHandler({})).open


@contextmanager
def handled_signals() -> Iterator[None]:
    """Set the handlers of Python, which a process that ignores signals does not have."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, signal.default_int_handler) for each in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def shown(path: str, *arguments: str, page: str) -> str:
    """Return a page of the console, which a signal then stops."""
    answers: list[str] = []

    def read(text: str) -> None:
        address = re.search(r"http://\S+/console/", text)
        assert address is not None, text

        def ask() -> None:
            try:
                with open_url(f"{address[0].removesuffix('/')}{page}", timeout=20) as answer:
                    answers.append(answer.read().decode())
            finally:
                signal.raise_signal(signal.SIGTERM)

        threading.Thread(target=ask).start()

    with pytest.MonkeyPatch.context() as patch, handled_signals():
        patch.setattr(console, "try_print", read)
        main(["console", path, "--listen", "127.0.0.1:0", *arguments])
    (found,) = answers
    return found


def test_a_capture_is_served_until_a_signal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_index, "PROGRESS_STEP", 1_000)
    assert "classic-works" in shown(str(CAPTURE), page="/groups")
    assert re.search(r"read 1,000 requests.* of \S+member-lives", capsys.readouterr().err)


def test_a_data_directory_is_served(tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}, data_directory=tmp_path / "data") as broker:
        broker.produce("orders", "written")
    assert "written" in shown(str(tmp_path / "data"), page="/records?topic=orders")


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        main(["console", "--listen", "127.0.0.1:0", *arguments])
    status = caught.value.code
    assert isinstance(status, int)
    return status, capsys.readouterr().err


def test_other_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a capture")
    empty, directory = tmp_path / "empty", tmp_path / "data"
    empty.mkdir()
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\nnode.id=1\n")
    for arguments, expected in (
        ([str(tmp_path / "none")], "no such file or directory"),
        ([str(text)], "is not a capture"),
        ([str(empty)], f"no requests in {empty}"),
        ([str(directory), str(CAPTURE)], "which is shown alone: name no other path"),
        ([str(directory)], "it has no __cluster_metadata-0"),
        ([str(CAPTURE), "--listen", "x"], "'x' is not an address to listen on"),
        ([str(CAPTURE), "--token", "?"], "the control token has an invalid length"),
        ([str(CAPTURE), "--schema-registry-url", "x"], "is no URL of a schema registry"),
    ):
        status, error = refusal(capsys, *arguments)
        assert status == 2, error
        assert expected in error


def test_a_damaged_capture_is_shown_with_its_problems(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pcapng.gz"
    damaged.write_bytes(CAPTURE.read_bytes()[:20_000])
    assert "the compressed file is truncated" in shown(str(damaged), page="/")
