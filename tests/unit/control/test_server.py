"""The control endpoint on its socket, in the process of its broker."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from kafkalite.control.address import control_address
from kafkalite.control.connection import Limits
from kafkalite.control.http import MAX_BODY_BYTES, ControlApp
from kafkalite.control.server import ControlServer, uvicorn_logger
from kafkalite.server.addresses import AddressError
from kafkalite.server.broker import Broker as ServerBroker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


urlopen = build_opener(ProxyHandler({})).open
"""An opener that ignores proxy settings."""


def test_it_answers_while_the_broker_runs() -> None:
    with Broker(control=True, clock="manual@2026-03-01") as broker:
        url = broker.control_url
        request = Request(  # noqa: S310 - our own
            f"{url}/v1/clock",
            json.dumps({"advance": "1d"}).encode(),
            {"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=10) as answer:
            assert json.load(answer)["iso"] == "2026-03-02T00:00:00.000Z"
        with urlopen(f"{url}/v1/health", timeout=10) as answer:
            assert json.load(answer)["bootstrap_servers"] == broker.bootstrap_servers
    port = int(url.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass


def test_a_request_that_is_not_http_does_not_affect_the_next() -> None:
    with Broker(control=True) as broker:
        port = int(broker.control_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as rude:
            rude.sendall(b"\0\0\0\x10 not http \r\n\r\n")
            assert rude.recv(100).startswith(b"HTTP/1.1 400")
        with socket.create_connection(("127.0.0.1", port), timeout=10) as endless:
            endless.sendall(b"GET /v1 HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 200_000)
            assert endless.recv(100).startswith(b"HTTP/1.1 4")
        with urlopen(f"{broker.control_url}/v1", timeout=10) as answer:
            assert answer.status == 200


def test_incomplete_requests_do_not_block_others(
    capfd: pytest.CaptureFixture[str],
) -> None:
    head = b"POST /v1/clock HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    halves = (head + b"content-length: 10\r\n\r\n{", head, b"")
    with Broker(control=True, log_level="debug") as broker:
        port = int(broker.control_url.rpartition(":")[2])
        for half in halves:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as leaving:
                leaving.sendall(half)
        staying = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in halves]
        for one, half in zip(staying, halves, strict=True):
            one.sendall(half)
        with urlopen(f"{broker.control_url}/v1", timeout=10) as answer:
            assert answer.status == 200
    for one in staying:
        with one:
            one.recv(1000)
    # Consumers of other tests that wait for garbage collection may still log connection errors.
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if "|rdkafka#" not in line] == []


def test_an_address_in_use_is_reported() -> None:
    words = Log(Level.ERROR, "json", io.StringIO())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = control_address(f"{taken.getsockname()[1]}")
        with pytest.raises(AddressError, match="in use"):
            ControlServer(ServerBroker(Settings()), address, words)


async def test_a_warning_is_logged_for_a_public_address() -> None:
    words = io.StringIO()
    log = Log(Level.WARNING, "json", words)
    server = ControlServer(ServerBroker(Settings()), control_address("0.0.0.0:0"), log)
    await server.start()
    await server.stop()
    line = json.loads(words.getvalue())
    assert "can control the broker" in line["event"]
    assert line["control"].startswith("0.0.0.0:")
    assert server.url.startswith("http://127.0.0.1:")


@asynccontextmanager
async def served(log: Log, limits: Limits | None = None) -> AsyncIterator[int]:
    """Yield the port of a control endpoint in this loop."""
    server = ControlServer(
        ServerBroker(Settings()), control_address("127.0.0.1:0"), log, limits or Limits()
    )
    await server.start()
    try:
        yield int(server.url.rpartition(":")[2])
    finally:
        await server.stop()


async def answer_to(port: int, data: bytes) -> tuple[int, object]:
    """Return status and JSON body of the response to some bytes, which closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert b"\r\ncontent-type: application/json" in head.lower()
    return int(head.split()[1]), json.loads(body)


LAST = b"host: localhost\r\nconnection: close\r\n"
POST = b"POST /v1/clock HTTP/1.1\r\ncontent-type: application/json\r\n" + LAST


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /v1/nothing HTTP/1.1\r\n" + LAST + b"\r\n", 404),
        (b"GET /v1/nothing HTTP/1.1\r\nhost: [\r\nconnection: close\r\n\r\n", 404),
        (b"CONNECT elsewhere:1 HTTP/1.1\r\n" + LAST + b"\r\n", 404),
        (b"OPTIONS * HTTP/1.1\r\n" + LAST + b"\r\n", 404),
        (b"DELETE /v1/clock HTTP/1.1\r\n" + LAST + b"\r\n", 405),
        (b"GET /v1 HTTP/1.1\r\nhost: elsewhere\r\nconnection: close\r\n\r\n", 403),
        (b"no http\r\n\r\n", 400),
        (b"GET /v1 HTTP/1.1\r\n" + LAST + b"x: " + b"y" * 100_000, 400),
        (POST + b"content-length: 1\r\n\r\n{", 400),
        (POST + b"content-length: 9999999999\r\n\r\n", 413),
        (POST + b"transfer-encoding: chunked\r\n\r\n11000\r\n" + b" " * 0x11000, 413),
        (b"POST /v1/clock HTTP/1.1\r\n" + LAST + b"content-length: 0\r\n\r\n", 415),
    ],
)
async def test_every_refusal_is_json(data: bytes, status: int) -> None:
    assert MAX_BODY_BYTES < 0x11000
    async with served(Log(Level.ERROR, "json", io.StringIO())) as port:
        found, body = await answer_to(port, data)
    assert found == status
    assert isinstance(body, dict)
    assert list(body) == ["error"]


@pytest.mark.parametrize("part", [b"GET", POST, POST + b"content-length: 9\r\n\r\n{"])
async def test_a_half_open_connection_is_closed(part: bytes) -> None:
    lines = io.StringIO()
    async with served(Log(Level.DEBUG, "json", lines), Limits(request_s=0.05)) as port:
        status, body = await answer_to(port, part)
    assert status == 408
    assert isinstance(body, dict)
    assert list(body) == ["error"]
    assert [json.loads(line)["level"] for line in lines.getvalue().splitlines()] == ["debug"]


async def test_half_open_connections_do_not_block_others() -> None:
    limits = Limits(request_s=3_600)
    async with served(Log(Level.ERROR, "json", io.StringIO()), limits) as port:
        half_open = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for _, writer in half_open:
            writer.write(POST)
        status, body = await answer_to(port, b"GET /v1 HTTP/1.1\r\n" + LAST + b"\r\n")
        assert status == 200
        assert isinstance(body, dict)
        assert "kafkalite" in body
        await half_open[0][0].read()  # it was closed
        for _, writer in half_open:
            writer.close()


@pytest.mark.parametrize("style", ["json", "console"])
async def test_a_bug_outside_of_the_commands_is_logged_and_answered_as_json(
    style: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("outside")

    monkeypatch.setattr(ControlApp, "_check_origin", fail)
    lines = io.StringIO()
    async with served(Log(Level.INFO, style, lines)) as port:
        status, body = await answer_to(port, b"GET /v1 HTTP/1.1\r\n" + LAST + b"\r\n")
    assert status == 500
    assert isinstance(body, dict)
    assert list(body) == ["error"]
    logged = lines.getvalue()
    assert "LookupError" in logged
    assert (len(logged.splitlines()) == 1) is (style == "json")
    assert "LookupError" not in capfd.readouterr().err


async def test_a_stop_cancels_a_running_command(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def never_ends(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(ControlApp, "_index", never_ends)
    monkeypatch.setattr("kafkalite.control.server._SHUTDOWN_GRACE_S", 0)
    lines = io.StringIO()
    async with served(Log(Level.INFO, "json", lines)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1 HTTP/1.1\r\n" + LAST + b"\r\n")
        await begun.wait()
    assert await reader.read() == b""
    writer.close()
    assert lines.getvalue() == ""


@pytest.mark.parametrize("name", ["debug", "info", "warning", "error"])
def test_a_line_keeps_its_level(name: str) -> None:
    stream = io.StringIO()
    logger = uvicorn_logger(Log(Level.DEBUG, "json", stream))
    getattr(logger, name)("%d lines\n", 2)
    line = json.loads(stream.getvalue())
    assert (line["level"], line["event"], line["source"]) == (name, "2 lines", "uvicorn")


def test_the_level_of_the_brokers_log_selects_lines() -> None:
    stream = io.StringIO()
    logger = uvicorn_logger(Log(Level.ERROR, "json", stream))
    logger.warning("not serious")
    assert stream.getvalue() == ""


def test_a_cancelled_request_is_not_an_error() -> None:
    stream = io.StringIO()
    logger = uvicorn_logger(Log(Level.INFO, "json", stream))
    logger.error("Exception in ASGI application", exc_info=asyncio.CancelledError())
    assert stream.getvalue() == ""


def test_the_loggers_of_the_process_are_not_used(caplog: pytest.LogCaptureFixture) -> None:
    logger = uvicorn_logger(Log(Level.INFO, "json", io.StringIO()))
    logger.warning("ours")
    assert caplog.records == []
    assert logger.name not in logging.Logger.manager.loggerDict
