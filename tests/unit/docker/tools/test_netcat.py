"""`nc`."""

from __future__ import annotations

import io
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.docker.tools.tool import ToolRunner


@pytest.fixture
def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


@pytest.fixture
def echo_port() -> Iterator[str]:
    """Return the port of a server that answers one connection with its input in upper case."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as received:
                connection.sendall(received.read().upper())

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield str(server.getsockname()[1])
        thread.join(10)


@pytest.mark.parametrize("options", [["-z"], ["-zv"], ["-vz", "-w", "2"], ["-z", "-w2", "-n"]])
def test_open_port_is_accepted(options: list[str], offline_tools: ToolRunner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        result = offline_tools.run("nc", *options, "127.0.0.1", port)
    assert (result.status, result.lines) == (0, [])
    assert ("succeeded" in result.error) is any("v" in option for option in options)


def test_closed_port_is_refused(closed_port: str, offline_tools: ToolRunner) -> None:
    assert offline_tools.run("nc", "-z", "127.0.0.1", closed_port) == (1, [], "")
    error = f"nc: 127.0.0.1 port {closed_port}: connection refused\n"
    assert offline_tools.run("nc", "-zv", "127.0.0.1", closed_port) == (1, [], error)


def test_input_is_sent_and_the_answer_is_written(
    echo_port: str, offline_tools: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"ruok")
    os.close(write_end)
    with io.TextIOWrapper(io.BufferedReader(io.FileIO(read_end))) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert offline_tools.run("nc", "-w", "5", "127.0.0.1", echo_port) == (0, ["RUOK"], "")


@pytest.mark.parametrize("arguments", [["localhost"], ["localhost", "x"], ["-l", "1"]])
def test_invalid_arguments_are_an_error(arguments: list[str], offline_tools: ToolRunner) -> None:
    result = offline_tools.run("nc", *arguments)
    assert result.status == 1
    assert "supported options" in result.error


def test_port_that_does_not_exist_is_an_error(offline_tools: ToolRunner) -> None:
    assert offline_tools.run("nc", "-v", "127.0.0.1", "99999").status == 1
