"""`zookeeper-server-start` and `zookeeper-shell`: the broker needs no ZooKeeper."""

from __future__ import annotations

import socket
import sys
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Final

from kafkalite.docker.files import ImageFiles
from kafkalite.docker.tools.arguments import ToolError, ToolParser
from kafkalite.docker.tools.running import run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DEFAULT_PORT: Final = 2181
_MAX_PORT: Final = 65535
_REQUEST: Final = b"ruok"
_RESPONSE: Final = b"imok"
_TIMEOUT_S: Final = 5.0
_MAX_REST_BYTES: Final = 4096
"""The most bytes after a request that are read and ignored."""


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Answer health checks of ZooKeeper until the container stops; return the exit status.

    A start script may start ZooKeeper before the broker, and wait for its port.
    """
    return run_tool(name, lambda: _run(name, arguments, environment))


def _run(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    if name != "zookeeper-server-start":
        raise ToolError("the broker needs no ZooKeeper, and there is none")
    parser = ToolParser(name, "Answer health checks of ZooKeeper.")
    parser.add_argument("file")
    parser.add_argument("-daemon", action="store_true", dest="daemon")
    parsed = parser.parse(arguments)
    if parsed.daemon:
        parser.error("-daemon is not supported here: write & after the command")
    port = _client_port(parsed.file, environment)
    try:
        server = HealthServer(port)
    except OSError as error:
        raise ToolError(f"cannot listen on port {port}: {error.strerror}") from None
    print(  # noqa: T201 - the output of a program
        f"{name}: the broker needs no ZooKeeper; port {port} answers health checks only",
        file=sys.stderr,
        flush=True,
    )
    with server:
        server.serve_forever()
    return 0


def _client_port(path: str, environment: Mapping[str, str]) -> int:
    """Return `clientPort` of a properties file, and the default without it; raises ToolError."""
    text = ImageFiles.of(environment).read_argument(path)
    if text is None:
        return _DEFAULT_PORT
    import javaproperties  # noqa: PLC0415 - rarely used

    try:
        port = javaproperties.loads(text).get("clientPort", str(_DEFAULT_PORT)).strip()
    except ValueError as error:
        raise ToolError(f"cannot read properties file {path}: {error}") from None
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= _MAX_PORT):
        raise ToolError(f"{path}: clientPort is not a port: {port!r}")
    return int(port)


class HealthServer(ThreadingTCPServer):
    """Answers the word `ruok` on a port; it closes the connection after any other request."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("", port), _Handler)


class _Handler(BaseRequestHandler):
    request: socket.socket

    def handle(self) -> None:
        self.request.settimeout(_TIMEOUT_S)
        try:
            if self.request.recv(len(_REQUEST), socket.MSG_WAITALL) == _REQUEST:
                self.request.sendall(_RESPONSE)
            self.request.shutdown(socket.SHUT_WR)
            # Closing a socket with unread bytes, such as a line break, resets the connection, and
            # the client may lose the answer.
            self.request.recv(_MAX_REST_BYTES)
        except OSError:
            # The client is slow, or closed the connection.
            return
