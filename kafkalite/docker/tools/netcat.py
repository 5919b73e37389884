"""`nc`: check that a port accepts connections, or send the standard input to it."""

from __future__ import annotations

import os
import selectors
import socket
import sys
from typing import TYPE_CHECKING, Final

from kafkalite.docker.tools.arguments import FAILED_STATUS, ToolParser
from kafkalite.docker.tools.running import run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CHUNK_BYTES: Final = 65_536


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status, 0 if the port accepts connections."""
    del environment
    return run_tool(name, lambda: _run(name, arguments))


def _run(name: str, arguments: Sequence[str]) -> int:
    parser = ToolParser(name, "Check that a port accepts connections, or send input to it.")
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("-z", action="store_true", dest="is_check")
    parser.add_argument("-v", action="count", default=0, dest="verbosity")
    parser.add_argument("-w", type=float, dest="timeout_s", metavar="SECONDS")
    # These have no effect: names are resolved in any case, and the end of the output ends it.
    parser.add_argument("-n", "-N", "-4", action="store_true")
    parser.add_argument("-q", type=float, metavar="SECONDS")
    parsed = parser.parse(arguments)
    try:
        connection = socket.create_connection((parsed.host, parsed.port), parsed.timeout_s)
    except (OSError, OverflowError) as error:
        if parsed.verbosity or not parsed.is_check:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            print(f"{name}: {parsed.host} port {parsed.port}: {reason}", file=sys.stderr)  # noqa: T201
        return FAILED_STATUS
    with connection:
        if parsed.verbosity:
            text = f"Connection to {parsed.host} {parsed.port} port [tcp] succeeded!"
            print(text, file=sys.stderr)  # noqa: T201 - the output of a program
        if not parsed.is_check:
            _exchange(connection, parsed.timeout_s)
    return 0


def _exchange(connection: socket.socket, timeout_s: float | None) -> None:
    """Send the standard input, and write the answer, until the peer closes or is idle."""
    # The standard input may be a file, which other selectors do not accept.
    with selectors.SelectSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while ready := selector.select(timeout_s):
            for key, _ in ready:
                if key.fileobj is connection:
                    data = connection.recv(_CHUNK_BYTES)
                    if not data:
                        return
                    sys.stdout.buffer.write(data)
                    sys.stdout.buffer.flush()
                    continue
                data = os.read(sys.stdin.fileno(), _CHUNK_BYTES)
                if data:
                    connection.sendall(data)
                else:
                    selector.unregister(sys.stdin)
                    connection.shutdown(socket.SHUT_WR)
