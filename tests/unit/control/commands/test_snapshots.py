"""Snapshots over HTTP."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from kafkalite.control.http import ControlApp
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.unit.control.asgi_client import ask
from tests.unit.control.ports import ANY_PORT

if TYPE_CHECKING:
    from pathlib import Path

HEADERS = {"content-type": "application/json"}


async def test_snapshots_are_made_listed_restored_and_deleted() -> None:
    broker = Broker(Settings(listen=ANY_PORT, topics={"orders": 1}, is_in_memory=True))
    await broker.start()
    try:
        app = ControlApp(broker, Log(Level.ERROR, "json", io.StringIO()), None).app

        async def post(path: str, body: bytes = b"{}") -> tuple[int, Any]:
            answer = await ask(app, path, method="POST", headers=HEADERS, body=body)
            return answer.status, answer.body

        status, made = await post("/v1/snapshots")
        assert (status, made) == (201, {"id": "s1", "created_ms": made["created_ms"], "topics": 1})
        assert broker.cluster is not None
        broker.cluster.create_missing_topics({"later": 1})
        assert (await ask(app, "/v1/snapshots")).body == {"snapshots": [made]}
        assert await post("/v1/snapshots/s1/restore", b'{"disconnect": true}') == (200, made)
        assert list(broker.cluster.metadata.image.topics) == ["orders"]
        missing = {"error": "there is no snapshot 's2'; they are s1"}
        assert await post("/v1/snapshots/s2/restore") == (404, missing)
        assert (await ask(app, "/v1/snapshots/s1", method="DELETE")).body == made
        assert (await ask(app, "/v1/snapshots")).body == {"snapshots": []}
    finally:
        await broker.stop(grace_s=0)


async def test_snapshots_are_saved_and_loaded(tmp_path: Path) -> None:
    broker = Broker(Settings(listen=ANY_PORT, topics={"orders": 1}, is_in_memory=True))
    await broker.start()
    try:
        app = ControlApp(broker, Log(Level.ERROR, "json", io.StringIO()), None).app

        async def post(path: str, body: object) -> tuple[int, Any]:
            content = json.dumps(body).encode()
            answer = await ask(app, path, method="POST", headers=HEADERS, body=content)
            return answer.status, answer.body

        await post("/v1/snapshots", {})
        path = f"{tmp_path / 's1.zip'}"
        assert (await post("/v1/snapshots/s1/save", {"path": path}))[0] == 200
        status, loaded = await post("/v1/snapshots/load", {"path": path})
        assert (status, loaded["id"], loaded["topics"]) == (201, "s2", 1)
        assert broker.cluster is not None
        broker.cluster.create_missing_topics({"later": 1})
        assert (await post("/v1/snapshots/s2/restore", {}))[0] == 200
        assert list(broker.cluster.metadata.image.topics) == ["orders"]
        assert await post("/v1/snapshots/load", {"path": "s1.zip"}) == (
            400,
            {"error": "path must be an absolute path, such as /tmp/s1.zip, not 's1.zip'"},
        )
        assert await post("/v1/snapshots/load", {"path": f"{path}x"}) == (
            400,
            {"error": f"{path}x: No such file or directory"},
        )
    finally:
        await broker.stop(grace_s=0)


async def test_a_snapshot_of_data_on_disk_cannot_be_restored() -> None:
    broker = Broker(Settings(listen=ANY_PORT))
    await broker.start()
    try:
        app = ControlApp(broker, Log(Level.ERROR, "json", io.StringIO()), None).app
        answer = await ask(app, "/v1/snapshots", method="POST", headers=HEADERS, body=b"{}")
        assert answer.status == 201
        answer = await ask(
            app, "/v1/snapshots/s1/restore", method="POST", headers=HEADERS, body=b"{}"
        )
        assert answer.status == 400
        assert "the data of this broker is in the directory" in answer.body["error"]
    finally:
        await broker.stop(grace_s=0)
