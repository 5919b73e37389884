"""The server of a console over files: addresses and tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.token import ControlToken
from kafkalite.lab.file_console.capture_pages import SECTIONS
from kafkalite.lab.file_console.server import FileConsoleServer
from kafkalite.ports.clock import SteppedClock
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.server.addresses import Address
from kafkalite.server.logging import Level, Log

if TYPE_CHECKING:
    from kafkalite.lab.file_console.capture_source import CaptureSource


def new_server(
    source: CaptureSource, host: str, token: ControlToken | None = None
) -> FileConsoleServer:
    server = FileConsoleServer(
        Address(host, 0),
        clock=SteppedClock(0),
        log=Log(Level.ERROR),
        entropy=SystemEntropy(),
        token=token,
    )
    server.show(source, SECTIONS)
    return server


@pytest.mark.parametrize(
    ("host", "token", "query"),
    [
        ("127.0.0.1", None, ""),
        ("127.0.0.1", ControlToken("given-token-1234"), "?token=given-token-1234"),
    ],
)
async def test_the_address_has_the_token_that_browsers_need(
    groups_source: CaptureSource, host: str, token: ControlToken | None, query: str
) -> None:
    server = new_server(groups_source, host, token)
    await server.start()
    try:
        assert server.page_url == f"{server.url}/console/{query}"
    finally:
        await server.stop()


async def test_other_machines_need_a_token(groups_source: CaptureSource) -> None:
    server = new_server(groups_source, "0.0.0.0")  # noqa: S104 - all addresses are to be refused
    await server.start()
    try:
        token = server.page_url.partition("?token=")[2]
        assert len(token) > 30
        assert server.url.startswith("http://127.0.0.1:")
    finally:
        await server.stop()
