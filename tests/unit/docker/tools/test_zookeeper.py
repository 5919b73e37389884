"""`zookeeper-server-start` and `zookeeper-shell`."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from kafkalite.docker.tools import zookeeper
from kafkalite.docker.tools.zookeeper import HealthServer
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.docker.tools.tool import ToolRunner


@pytest.fixture
def port() -> Iterator[int]:
    """Serve health checks on a port."""
    number = free_port()
    with HealthServer(number) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield number
        server.shutdown()
        thread.join()


def ask(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(100)


def test_health_check_is_answered(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)):
        # A connection that sends nothing does not delay others.
        assert ask(port, b"ruok") == b"imok"
    assert ask(port, b"ruok\n") == b"imok"


@pytest.mark.parametrize("request_", [b"", b"stat", b"\x00\x00\x00\x2d\x00"], ids=repr)
def test_other_requests_end_the_connection(port: int, request_: bytes) -> None:
    assert ask(port, request_) == b""


def test_server_listens_on_the_port_in_the_file(
    offline_tools: ToolRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "zookeeper.properties"
    served = []

    def serve(server: HealthServer) -> None:
        served.append(server.server_address[1])

    monkeypatch.setattr(HealthServer, "serve_forever", serve)
    number = free_port()
    file.write_text(f"clientPort={number}\ndataDir=/data\n", encoding="utf-8")
    result = offline_tools.run("zookeeper-server-start", str(file))
    assert (result.status, served) == (0, [number])
    assert result.error == (
        "zookeeper-server-start: the broker needs no ZooKeeper; "
        f"port {number} answers health checks only\n"
    )
    monkeypatch.setattr(zookeeper, "_DEFAULT_PORT", number)
    assert offline_tools.run("zookeeper-server-start", "no-such-file").status == 0
    assert served == [number, number]


def test_port_in_use_is_an_error(offline_tools: ToolRunner, port: int, tmp_path: Path) -> None:
    file = tmp_path / "zookeeper.properties"
    file.write_text(f"clientPort={port}\n", encoding="utf-8")
    result = offline_tools.run("zookeeper-server-start", str(file))
    assert result.status == 1
    assert result.error.startswith(f"zookeeper-server-start: cannot listen on port {port}: ")


@pytest.mark.parametrize("text", ["client", "0", "65536", "-5"])
def test_invalid_port_is_an_error(offline_tools: ToolRunner, tmp_path: Path, text: str) -> None:
    file = tmp_path / "zookeeper.properties"
    file.write_text(f"clientPort={text}\n", encoding="utf-8")
    result = offline_tools.run("zookeeper-server-start", str(file))
    assert (result.status, f"clientPort is not a port: {text!r}" in result.error) == (1, True)


def test_daemon_is_an_error(offline_tools: ToolRunner) -> None:
    result = offline_tools.run("zookeeper-server-start", "-daemon", "zookeeper.properties")
    assert result.status == 1
    assert "write & after the command" in result.error


def test_shell_of_zookeeper_fails(offline_tools: ToolRunner) -> None:
    result = offline_tools.run("zookeeper-shell", "z:2181", "ls", "/")
    assert (result.status, result.error) == (
        1,
        "zookeeper-shell: the broker needs no ZooKeeper, and there is none\n",
    )
