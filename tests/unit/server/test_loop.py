"""The event loop: uvloop's if it is installed, otherwise asyncio's selector loop."""

from __future__ import annotations

import asyncio
import io

import pytest

from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.loop import new_event_loop
from kafkalite.server.settings import Settings
from tests.unit.server.client import METADATA_VERSION, Client


@pytest.mark.parametrize("has_uvloop", [True, False])
def test_a_broker_runs_on_both_loops(monkeypatch: pytest.MonkeyPatch, *, has_uvloop: bool) -> None:
    if has_uvloop:
        pytest.importorskip("uvloop")
    else:
        monkeypatch.setattr("kafkalite.server.loop.uvloop", None)
    loop = new_event_loop(Log())
    assert isinstance(loop, asyncio.SelectorEventLoop) is not has_uvloop
    try:
        loop.run_until_complete(_serve_one_client())
    finally:
        loop.close()


def test_an_unhandled_exception_is_logged_with_its_traceback() -> None:
    log_output = io.StringIO()
    loop = new_event_loop(Log(Level.ERROR, "json", log_output))

    def fail() -> None:
        raise ZeroDivisionError

    loop.call_soon(fail)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert "ZeroDivisionError" in log_output.getvalue()


async def _serve_one_client() -> None:
    broker = Broker(Settings(listen=("127.0.0.1:0",), topics={"t": 1}))
    await broker.start()
    client = await Client.to(broker.bootstrap_servers)
    metadata = await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    assert [topic.name for topic in metadata.topics] == ["t"]
    await client.close()
    await broker.stop(grace_s=0.1)
