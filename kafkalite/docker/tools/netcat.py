"""`nc -z`: check whether ports accept connections."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

from kafkalite.docker.tools.arguments import FAILED_STATUS, ToolError, ToolParser
from kafkalite.docker.tools.running import run_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MAX_PORT = 65535


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Return 0 if one of the ports accepts connections, as OpenBSD's netcat does."""
    del environment
    return run_tool(name, lambda: _run(name, arguments))


def _run(name: str, arguments: Sequence[str]) -> int:
    parser = ToolParser(name, "Check whether ports accept connections.")
    parser.add_argument("-z", action="store_true", dest="is_check")
    parser.add_argument("-v", action="count", dest="verbosity")
    parser.add_argument("-w", type=float, dest="timeout_s", metavar="SECONDS")
    parser.add_argument("host")
    parser.add_argument("ports", nargs="+", metavar="PORT")
    parsed = parser.parse(arguments)
    if not parsed.is_check:
        parser.error("without -z, which sends no data, is not supported here")
    if parsed.timeout_s is not None and not 0 < parsed.timeout_s < float("inf"):
        parser.error("-w is a number of seconds above 0")
    ports = [port for text in parsed.ports for port in _ports(text)]
    is_open = [
        _is_open(name, (parsed.host, port), parsed.timeout_s, verbose=bool(parsed.verbosity))
        for port in ports
    ]
    return 0 if any(is_open) else FAILED_STATUS


def _ports(text: str) -> Iterator[int]:
    """Yield the ports of a number, or of a range such as `9092-9094`; ToolError."""
    first, dash, last = text.partition("-")
    numbers = (first, last) if dash else (first,)
    if not all(number.isascii() and number.isdigit() for number in numbers) or not (
        0 < int(numbers[0]) <= int(numbers[-1]) <= _MAX_PORT
    ):
        raise ToolError(
            f"{text!r} is not a port: write numbers from 1 to {_MAX_PORT}, or a range such as"
            " 9092-9094"
        )
    yield from range(int(numbers[0]), int(numbers[-1]) + 1)


def _is_open(
    name: str, address: tuple[str, int], timeout_s: float | None, *, verbose: bool
) -> bool:
    host, port = address
    try:
        socket.create_connection(address, timeout_s).close()
    except OSError as error:
        failure = error.strerror or str(error)
        text = f"{name}: connect to {host} port {port} (tcp) failed: {failure}"
    else:
        failure = ""
        text = f"Connection to {host} {port} port [tcp/*] succeeded!"
    if verbose:
        print(text, file=sys.stderr)  # noqa: T201 - the output of a program
    return not failure
