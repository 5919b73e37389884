"""`nc -z`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.docker.tools.tool import ToolRunner


@pytest.fixture
def open_port() -> Iterator[int]:
    """Listen on the first of two ports in a row."""
    port = free_port(2)
    with socket.create_server(("127.0.0.1", port)):
        yield port


def test_open_port_is_status_0_without_output(offline_tools: ToolRunner, open_port: int) -> None:
    assert offline_tools.run("nc", "-z", "localhost", str(open_port)) == (0, [], "")


@pytest.mark.parametrize(
    "options",
    [("-zv",), ("-vz",), ("-z", "-v"), ("-zvw", "2"), ("-zvw2",), ("-z", "-v", "-w", "0.5")],
    ids=" ".join,
)
def test_options_are_combined_as_in_health_checks(
    offline_tools: ToolRunner, open_port: int, options: tuple[str, ...]
) -> None:
    expected = f"Connection to 127.0.0.1 {open_port} port [tcp/*] succeeded!\n"
    result = offline_tools.run("nc", *options, "127.0.0.1", str(open_port))
    assert result == (0, [], expected)
    assert offline_tools.run("nc", "127.0.0.1", str(open_port), *options) == result


def test_closed_port_is_status_1(offline_tools: ToolRunner, open_port: int) -> None:
    closed = open_port + 1
    assert offline_tools.run("nc", "-z", "127.0.0.1", str(closed)) == (1, [], "")
    result = offline_tools.run("nc", "-zv", "127.0.0.1", str(closed))
    assert result.status == 1
    assert (
        result.error == f"nc: connect to 127.0.0.1 port {closed} (tcp) failed: Connection refused\n"
    )


def test_one_open_port_of_several_is_sufficient(offline_tools: ToolRunner, open_port: int) -> None:
    ports = (str(open_port + 1), str(open_port))
    assert offline_tools.run("nc", "-z", "127.0.0.1", *ports).status == 0
    result = offline_tools.run("nc", "-zv", "127.0.0.1", f"{open_port}-{open_port + 1}")
    assert (result.status, result.error.count("\n")) == (0, 2)


def test_unknown_host_is_status_1(
    offline_tools: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    result = offline_tools.run("nc", "-zv", "kafka", "9092")
    assert (result.status, result.error) == (
        1,
        "nc: connect to kafka port 9092 (tcp) failed: Name or service not known\n",
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("localhost", "9092"), "without -z, which sends no data, is not supported here"),
        (("-z", "-u", "localhost", "9092"), "-u is not a recognized option"),
        (("-l", "9092"), "required: PORT"),
        (("-z", "localhost"), "required: PORT"),
        (("-z", "-w", "soon", "localhost", "9092"), "invalid float value: 'soon'"),
        (("-z", "-w", "0", "localhost", "9092"), "-w is a number of seconds above 0"),
        (("-z", "-w", "nan", "localhost", "9092"), "-w is a number of seconds above 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_other_uses_are_an_error_with_the_options(
    offline_tools: ToolRunner, arguments: tuple[str, ...], reason: str
) -> None:
    result = offline_tools.run("nc", *arguments)
    assert (result.status, result.lines) == (1, [])
    assert reason in result.error
    assert "\n-w <SECONDS>\n" in result.error


@pytest.mark.parametrize("port", ["kafka", "0", "65536", "9094-9092", "9092-", "²"])
def test_invalid_port_is_an_error(offline_tools: ToolRunner, port: str) -> None:
    result = offline_tools.run("nc", "-z", "localhost", port)
    assert result.status == 1
    assert f"{port!r} is not a port" in result.error
