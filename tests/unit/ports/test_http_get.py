"""http_get: documents, redirects, limits of size and time, and servers that fail."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.http_get import HttpGetError, http_get
from kafkalite.security.certificates import make_certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def served(
    answer: Callable[[bytes, socket.socket], bytes], context: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Yield the address of a server; `answer` returns the answer to the first line of a request."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with suppress(OSError), connection:
                    if context is not None:
                        connection = context.wrap_socket(connection, server_side=True)
                    line = connection.recv(65536).partition(b"\r\n")[0]
                    connection.sendall(answer(line, connection))
                    connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join()


def get(url: str, certificates: str | None = None, timeout_s: float = 10) -> bytes:
    return http_get(url, max_bytes=10, timeout_s=timeout_s, certificates=certificates)


def reason_of(url: str, certificates: str | None = None, timeout_s: float = 10) -> str:
    with pytest.raises(HttpGetError) as error:
        get(url, certificates, timeout_s)
    return str(error.value)


def test_a_document_is_returned() -> None:
    lines = []

    def answer(line: bytes, _: socket.socket) -> bytes:
        lines.append(line)
        return OK

    with served(answer) as address:
        assert get(f"http://{address}/keys?a=b") == b"{}"
    assert lines == [b"GET /keys?a=b HTTP/1.1"]


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with served(lambda *_: OK) as address:
        assert get(f"http://{address}/") == b"{}"


def test_a_redirect_is_followed() -> None:
    def answer(line: bytes, _: socket.socket) -> bytes:
        redirect = b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
        return OK if b"/other" in line else redirect

    with served(answer) as address:
        assert get(f"http://{address}/keys") == b"{}"


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        (b"/keys", "HTTP status 302: The HTTP server returned a redirect error that would lead"),
        (b"/keys/x", "HTTP status 302"),
        (b"https://127.0.0.1/keys", "the redirect leads to another scheme"),
        (b"file:///etc/passwd", "is not allowed"),
    ],
)
def test_a_redirect_without_end_or_to_another_scheme_fails(location: bytes, reason: str) -> None:
    count = 0

    def answer(_: bytes, __: socket.socket) -> bytes:
        nonlocal count
        count += 1
        suffix = str(count).encode() if location.endswith(b"x") else b""
        return b"HTTP/1.1 302 Found\r\nLocation: " + location + suffix + b"\r\n\r\n"

    with served(answer) as address:
        assert reason in reason_of(f"http://{address}/keys")
    assert count <= 11


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP status 404: Not Found"),
        (b"HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n", "HTTP status 500"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + 11 * b"x", "the answer is larger than 10 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx", "the answer is incomplete"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "IncompleteRead"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000 + b"\r\n", "more than 100 headers"),
        (b"HTTP/1.1 200 OK\r\na: " + b"b" * 100_000, "got more than 65536 bytes"),
        (b"SSH-2.0-OpenSSH\r\n", "SSH-2.0-OpenSSH"),
        (b"", "Remote end closed connection without response"),
    ],
)
def test_an_invalid_answer_fails(answer: bytes, reason: str) -> None:
    with served(lambda *_: answer) as address:
        text = reason_of(f"http://{address}/")
    assert reason in text
    assert "\n" not in text


def test_a_server_that_does_not_listen_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert reason_of(f"http://127.0.0.1:{port}/") == "Connection refused"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/", "nonsense", "http://"])
def test_other_addresses_fail(url: str) -> None:
    assert reason_of(url)


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\na: "])
def test_a_slow_server_is_disconnected(start: bytes) -> None:
    is_disconnected = threading.Event()

    def answer(_: bytes, connection: socket.socket) -> bytes:
        connection.sendall(start)
        while connection.recv(65536):
            pass
        is_disconnected.set()
        return b""

    with served(answer) as address:
        assert reason_of(f"http://{address}/", timeout_s=0.05) == (
            "no complete answer in 0.05 seconds"
        )
    assert is_disconnected.is_set()


def test_a_server_that_sends_byte_by_byte_is_disconnected() -> None:
    pause = threading.Event()

    def answer(_: bytes, connection: socket.socket) -> bytes:
        with suppress(OSError):
            while True:
                connection.sendall(b"x")
                pause.wait(0.001)
        return b""

    with served(answer) as address:
        text = reason_of(f"http://{address}/", timeout_s=0.1)
    assert text == "no complete answer in 0.1 seconds"


def test_a_server_with_tls_must_be_trusted(tmp_path: Path) -> None:
    files = make_certificates(str(tmp_path), ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server)
    authority = Path(files.authority).read_text()
    with served(lambda *_: OK, context) as address:
        assert get(f"https://{address}/", authority) == b"{}"
        assert "certificate verify failed" in reason_of(f"https://{address}/")
