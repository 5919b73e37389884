"""Captures over HTTP."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.control.commands.recordings import COMMANDS, CaptureList, CaptureStatus, ListCaptures
from kafkalite.control.http import ControlApp
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.unit.control.asgi_client import ask, ask_for_text
from tests.unit.control.ports import ANY_PORT
from tests.unit.server.recorders import CONTENT, STARTED_MS, use_fake_recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HEADERS = {"content-type": "application/json"}


@pytest.fixture
async def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Any]:
    use_fake_recorder(monkeypatch)
    broker = Broker(Settings(listen=ANY_PORT, data_directory=f"{tmp_path / 'data'}"))
    await broker.start()
    yield ControlApp(broker, Log(Level.ERROR, "json", io.StringIO()), None).app
    await broker.stop(grace_s=0)


async def post(app: Any, path: str, body: bytes = b"{}") -> tuple[int, Any]:  # noqa: ANN401 - JSON
    answer = await ask(app, path, method="POST", headers=HEADERS, body=body)
    return answer.status, answer.body


async def test_captures_are_started_stopped_returned_and_deleted(
    app: Any,  # noqa: ANN401 - an application
    tmp_path: Path,
) -> None:
    assert (await ask(app, "/v1/captures")).body == {"captures": []}
    status, made = await post(app, "/v1/captures", b'{"name": "first"}')
    assert (status, made) == (
        201,
        {
            "name": "first",
            "directory": f"{tmp_path / 'data-captures' / 'first'}",
            "state": "recording",
            "files": 1,
            "size_bytes": len(CONTENT),
            "started_ms": STARTED_MS,
        },
    )
    status, refused = await post(app, "/v1/captures")
    assert (status, "only one can be at a time" in refused["error"]) == (400, True)
    stopped = {**made, "state": "stopped"}
    assert await post(app, "/v1/captures/first/stop") == (200, stopped)
    assert (await ask(app, "/v1/captures")).body == {"captures": [stopped]}

    file = await ask_for_text(app, "/v1/captures/first/file")
    assert (file.status, file.body) == (200, CONTENT)
    assert file.headers["content-type"] == "application/x-pcapng"
    assert file.headers["content-disposition"] == 'attachment; filename="first.pcapng"'

    assert (await ask(app, "/v1/captures/first", method="DELETE")).body == stopped
    missing = {"error": "there is no capture 'first'; there are none"}
    assert await post(app, "/v1/captures/first/stop") == (404, missing)
    answer = await ask(app, "/v1/captures/first/file")
    assert (answer.status, answer.body) == (404, missing)
    assert (await ask(app, "/v1/captures/..%2f..", method="DELETE")).status == 404


async def test_a_directory_that_cannot_be_used_is_one_sentence(
    app: Any,  # noqa: ANN401 - an application
    tmp_path: Path,
) -> None:
    root = tmp_path / "data-captures"
    root.write_text("a file")
    for answer in (await post(app, "/v1/captures"), (await ask(app, "/v1/captures"))[::2]):
        assert answer[0] == 400
        assert answer[1]["error"].startswith("no capture can be ")
        assert f"{root}: " in answer[1]["error"]


def test_captures_are_lines_of_a_shell() -> None:
    row = next(each for each in COMMANDS.rows if each.kind is ListCaptures)
    recorded = CaptureStatus("a", "/captures/a", "recording", 1, 2_048, STARTED_MS)
    empty = CaptureStatus("b", "/captures/b", "stopped", 0, 0, None)
    assert list(row.lines(CaptureList((recorded, empty)), {})) == [
        "a: recording, started 2023-11-14T22:13:20.250Z, 1 file with 2,048 bytes in /captures/a",
        "b: stopped, 0 files with 0 bytes in /captures/b",
    ]
    assert list(row.lines(CaptureList(()), {})) == ["there are no captures"]
