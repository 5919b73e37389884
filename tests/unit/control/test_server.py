"""The control endpoint on its socket, in the process of its broker."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import socket
import ssl
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import pytest
from confluent_kafka.admin import AdminClient

from kafkalite.control.access_checks import AccessChecks
from kafkalite.control.address import control_address
from kafkalite.control.client import ControlClient
from kafkalite.control.commands.faults import ListFaults
from kafkalite.control.commands.health import ListCommands
from kafkalite.control.connection import Limits
from kafkalite.control.endpoint import find_endpoint
from kafkalite.control.request_body import MAX_BODY_BYTES
from kafkalite.control.server import ControlSecurity, ControlServer, uvicorn_logger
from kafkalite.control.token import ControlToken, stored_token
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.key_files import write_key_file
from kafkalite.security.certificates import CertificateAuthority
from kafkalite.server.addresses import AddressError
from kafkalite.server.broker import Broker as ServerBroker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings, SettingsError
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
    # Consumers of other tests that wait for garbage collection may still log connection errors, and
    # the broker may remove the data of a broker that another test has killed.
    others = ("|rdkafka#", "removed the temporary data")
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if not any(other in line for other in others)] == []


def test_an_address_in_use_is_reported() -> None:
    words = Log(Level.ERROR, "json", io.StringIO())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = control_address(f"{taken.getsockname()[1]}")
        with pytest.raises(AddressError, match="in use"):
            ControlServer(ServerBroker(Settings()), address, words)


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
        (b"GET /v1/nothing HTTP/1.1\r\nhost: [\r\nconnection: close\r\n\r\n", 403),
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
    assert [json.loads(line)["level"] for line in lines.getvalue().splitlines()] == ["warning"]


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

    monkeypatch.setattr(AccessChecks, "_origin_refusal", fail)
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

    monkeypatch.setattr(ListCommands, "perform", never_ends)
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


# Tokens


def test_a_public_address_has_a_token_that_is_stored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Broker(control="0.0.0.0:0", data_directory=tmp_path, log_level="debug") as broker:
        token = broker.control_token
        assert token == (tmp_path / "control-token").read_text().strip()
        port = int(broker.control_url.rpartition(":")[2])
        assert status_of(port, b"GET /v1 HTTP/1.1\r\nhost: x\r\n\r\n") == 401
        assert status_of(port, b"GET /v1/live HTTP/1.1\r\nhost: x\r\n\r\n") == 200
        authorized = f"GET /v1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
        assert status_of(port, authorized.encode()) == 200
    with Broker(control="0.0.0.0:0", data_directory=tmp_path) as broker:
        assert broker.control_token == token
    output = capfd.readouterr().err
    assert "this control API needs a token" in output
    assert token not in output


def test_a_loopback_address_has_no_token_by_default() -> None:
    with Broker(control=True) as broker:
        assert broker.control_token is None
        assert broker.control_ca is None


@pytest.mark.parametrize(
    "arguments",
    [{"control_token": "a-token-of-tests"}, {"control_tls": "on"},
     {"control": True, "control_token": "short"}, {"control": True, "control_tls": "maybe"}],
)  # fmt: skip
def test_an_invalid_argument_is_rejected(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"control|a token has"):
        Broker(**arguments)


# TLS


def test_the_api_has_tls_if_the_broker_has_it_and_needs_no_client_certificate() -> None:
    config = {"ssl.client.auth": "required"}
    with Broker(security="SSL", control=True, config=config) as broker:
        context = ssl.create_default_context(cafile=broker.control_ca)
        with build_opener(ProxyHandler({}), HTTPSHandler(context=context)).open(
            f"{broker.control_url}/v1/live", timeout=10
        ) as answer:
            assert json.load(answer) == {"status": "ok"}


def test_tls_can_be_turned_off() -> None:
    with Broker(security="SSL", control=True, control_tls="off") as broker:
        assert broker.control_url.startswith("http://")
        with urlopen(f"{broker.control_url}/v1/live", timeout=10) as answer:
            assert answer.status == 200


def test_tls_can_be_turned_on_with_a_key_store_of_its_own(tmp_path: Path) -> None:
    authority = CertificateAuthority.create()
    store = tmp_path / "store.pem"
    store.write_bytes(authority.chain_pem(authority.issue("kafkalite", ["127.0.0.1"])))
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    config = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with Broker(control=True, control_tls="on", config=config) as broker:
        assert serial_number(broker, context) == serial_number(broker, context)
        before = serial_number(broker, context)
        # The next connection uses the new file.
        write_key_file(str(store), authority.chain_pem(authority.issue("kafkalite", ["127.0.0.1"])))
        os.utime(store, ns=(0, 0))
        assert serial_number(broker, context) != before


def test_tls_without_a_certificate_is_refused() -> None:
    with pytest.raises(SettingsError, match="--control-tls on needs a certificate"):
        Broker(control=True, control_tls="on").start()


def test_http_is_answered_and_logged_by_an_endpoint_with_tls(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Broker(security="SSL", control=True) as broker:
        port = int(broker.control_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
            plain.sendall(b"GET /v1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            head, _, body = received(plain).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert "use https://" in json.loads(body)["error"]
    output = capfd.readouterr().err
    assert "the listener requires TLS, but the client seems to speak HTTP" in output
    assert "peer=127.0.0.1:" in output


@pytest.mark.parametrize("headers", [b"origin: http://evil.test\r\n", b"host: evil.test\r\n"])
def test_web_pages_and_other_hosts_are_refused_with_tls_and_token(headers: bytes) -> None:
    with Broker(security="SSL", control=True, control_token="auto") as broker:  # noqa: S106
        context = ssl.create_default_context(cafile=broker.control_ca)
        port = int(broker.control_url.rpartition(":")[2])
        host = b"" if headers.startswith(b"host") else b"host: localhost\r\n"
        token = (broker.control_token or "").encode()
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            connection.sendall(
                b"GET /v1 HTTP/1.1\r\n" + host + headers
                + b"authorization: Bearer " + token + b"\r\n\r\n"
            )  # fmt: skip
            assert received(connection).startswith(b"HTTP/1.1 403 ")


# Hostile clients


@pytest.mark.parametrize("security", ["PLAINTEXT", "SSL"])
def test_hostile_clients_do_not_affect_kafka_clients(
    security: str, capfd: pytest.CaptureFixture[str]
) -> None:
    request = b"GET /v1/clock HTTP/1.1\r\nhost: localhost\r\n\r\n"
    attacks = (
        b"GET /v1 HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 200_000,
        b"GET /v1 HTTP/1.1\r\n" + b"x: y\r\n" * 50_000,
        request * 5_000,
        b"G",
        b"",
        b"\x16\x03\x01\x40\x00" + b"\xff" * 1_000,
        bytes(range(256)) * 100,
    )
    with Broker(
        security=security,
        control=True,
        control_token="auto",  # noqa: S106
        topics={"t": 1},
    ) as broker:
        port = int(broker.control_url.rpartition(":")[2])
        admin = AdminClient(broker.client_config("librdkafka"))
        connections = []
        for _ in range(20):
            for attack in attacks:
                connection = socket.create_connection(("127.0.0.1", port), timeout=10)
                connection.settimeout(0)
                connections.append(connection)
                with contextlib.suppress(OSError):
                    connection.send(attack)
            assert "t" in admin.list_topics(timeout=30).topics
        client = ControlClient(find_endpoint(broker.control_url, broker.control_token))
        assert client.send(ListFaults()).faults == ()
        for connection in connections:
            connection.close()
        assert client.send(ListFaults()).faults == ()
    output = capfd.readouterr().err
    assert "control connection closed" in output
    assert "Traceback" not in output
    # Lines are limited by address and kind, not by the number of requests.
    assert len(output.splitlines()) < 40


@pytest.mark.parametrize("part", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"])
async def test_a_slow_handshake_is_closed(part: bytes) -> None:
    log = Log(Level.ERROR, "json", io.StringIO())
    broker = ServerBroker(Settings(listen=["SSL://127.0.0.1:0"], tls="auto"), log)
    await broker.start()
    server = ControlServer(broker, control_address("0"), log, Limits(request_s=0.05))
    await server.start()
    try:
        port = int(server.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(part)
        assert await reader.read() == b""
        writer.close()
    finally:
        await server.stop()
        await broker.stop()


def token_with_mode(directory: Path, mode: int) -> ControlToken:
    token = stored_token(str(directory), SystemEntropy())
    assert token.file is not None
    Path(token.file).chmod(mode)
    return token


@pytest.mark.parametrize(("mode", "is_reported"), [(0o600, False), (0o640, False), (0o644, True)])
async def test_a_token_that_other_users_can_read_is_reported(
    tmp_path: Path, mode: int, *, is_reported: bool
) -> None:
    lines = io.StringIO()
    log = Log(Level.WARNING, "json", lines)
    token = token_with_mode(tmp_path, mode)
    broker = ServerBroker(
        Settings(listen=["PLAINTEXT://127.0.0.1:0"], data_directory=str(tmp_path)), log
    )
    await broker.start()
    security = ControlSecurity(token="auto")  # noqa: S106
    server = ControlServer(broker, control_address("0"), log, security=security)
    await server.start()
    await server.stop()
    await broker.stop()
    assert ("can read the control token" in lines.getvalue()) is is_reported
    assert token.text not in lines.getvalue()


def test_requests_after_one_without_token_are_not_served() -> None:
    request = b"GET /v1/clock HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with Broker(control=True, control_token="auto") as broker:  # noqa: S106
        port = int(broker.control_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(request * 3)
            assert received(connection).count(b"HTTP/1.1 401 ") == 1


def status_of(port: int, request: bytes) -> int:
    """Return the status of the response to a request."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        return int(connection.recv(1_000).split()[1])


def received(connection: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection."""
    content = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(10_000):
            content += chunk
    return bytes(content)


def serial_number(broker: Broker, context: ssl.SSLContext) -> object:
    """Return the serial number of the certificate of a new connection."""
    port = int(broker.control_url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        certificate = connection.getpeercert()
        assert certificate is not None
        return certificate["serialNumber"]
