"""Handshakes that are answered late, and what is not delayed."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.security.listener_security import ListenerSecurity
from kafkalite.security.tls import TlsServer
from kafkalite.server.delayed_handshakes import DelayedTlsTransport
from kafkalite.server.tls_transport import (
    HANDSHAKE_TIMEOUT_S,
    MAX_HANDSHAKE_BYTES,
    new_receive_buffer,
)
from tests.unit.security.issued_files import Files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class RecordedSocket:
    """A transport of a socket that stores what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class Received(asyncio.BufferedProtocol):
    """A connection that stores what it receives, and why it was closed."""

    def __init__(self) -> None:
        self.principal = ""
        self.reason = ""
        self.content = b""
        self._space = bytearray(1_000)

    def set_principal(self, principal: str) -> None:
        self.principal = principal

    def close(self, reason: str) -> None:
        self.reason = reason

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._space)

    def buffer_updated(self, nbytes: int) -> None:
        self.content += self._space[:nbytes]


class DelayedHandshake:
    """A client's side of TLS, and a transport whose timers are called by the test."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        files = Files(directory)
        config = BrokerConfig.from_text(files.config())
        server = TlsServer(ListenerSecurity("SSL", SecurityProtocol.SSL, config), pytest.fail)
        self.timers: list[tuple[float, Callable[[], None]]] = []
        loop = SimpleNamespace(call_later=self._call_later, call_soon=lambda call: call())
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
        self.socket, self.connection = RecordedSocket(), Received()
        self.transport = DelayedTlsTransport(
            server, new_receive_buffer(), self.connection, self.connection, lambda: 0.005
        )
        self.transport.connection_made(cast("asyncio.BaseTransport", self.socket))
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = files.client_context().wrap_bio(
            self._incoming, self._outgoing, server_hostname="localhost"
        )

    def _call_later(self, delay_s: float, call: Callable[..., None], *arguments: object) -> object:
        if delay_s < HANDSHAKE_TIMEOUT_S:
            self.timers.append((delay_s, partial(call, *arguments)))
        return SimpleNamespace(cancel=lambda: None)

    def receive(self, data: bytes) -> None:
        self.transport.get_buffer(-1)[: len(data)] = data
        self.transport.buffer_updated(len(data))

    def client_sends(self) -> bytes:
        """Continue the handshake with what the server has sent; return what the client sends."""
        self._incoming.write(self.socket.written)
        self.socket.written = b""
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._outgoing.read()

    def send(self, data: bytes) -> None:
        self.tls.write(data)
        self.receive(self._outgoing.read())


@pytest.fixture
def handshake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DelayedHandshake:
    return DelayedHandshake(tmp_path, monkeypatch)


@pytest.mark.parametrize("first_bytes", [1_000, 40])
def test_only_the_first_message_waits(handshake: DelayedHandshake, first_bytes: int) -> None:
    """It may come in parts."""
    hello = handshake.client_sends()
    handshake.receive(hello[:first_bytes])
    if hello[first_bytes:]:
        handshake.receive(hello[first_bytes:])
    assert handshake.socket.written == b""
    ((delay_s, end_delay),) = handshake.timers
    assert delay_s == 0.005
    end_delay()
    assert handshake.socket.written[0] == 0x16
    handshake.receive(handshake.client_sends())
    assert handshake.connection.principal == "User:ANONYMOUS"
    handshake.client_sends()
    handshake.send(b"request")
    assert handshake.connection.content == b"request"
    assert len(handshake.timers) == 1


def test_plain_text_is_refused_at_once(handshake: DelayedHandshake) -> None:
    handshake.receive(b"GET / HTTP/1.1\r\n\r\n")
    assert handshake.socket.written[0] == 0x15
    assert handshake.connection.reason.endswith("HTTP")
    assert handshake.timers == []


def test_a_long_handshake_does_not_wait(handshake: DelayedHandshake) -> None:
    handshake.receive(b"\x16\x03\x01\x40\x00\x01\x04\x00\x00")
    piece = bytes(1_000)
    for _ in range(MAX_HANDSHAKE_BYTES // len(piece) + 1):
        handshake.receive(piece)
    assert handshake.connection.reason
    ((_, end_delay),) = handshake.timers
    end_delay()


def test_a_connection_that_is_closed_during_the_delay_receives_nothing(
    handshake: DelayedHandshake,
) -> None:
    handshake.receive(handshake.client_sends())
    handshake.transport.close()
    ((_, end_delay),) = handshake.timers
    end_delay()
    assert handshake.socket.is_closed
    assert handshake.socket.written == b""
