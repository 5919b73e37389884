"""The control endpoint on its socket, beside the broker it drives."""

from __future__ import annotations

import io
import json
import socket
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from kafkalite.control.address import control_address
from kafkalite.control.listening import ControlServer
from kafkalite.server.addresses import AddressError
from kafkalite.server.broker import Broker as ServerBroker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from kafkalite.testing import Broker

urlopen = build_opener(ProxyHandler({})).open
"""Straight to this machine, whatever proxy leads to others."""


def test_it_answers_while_the_broker_serves_and_is_gone_with_it() -> None:
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


def test_what_is_not_http_is_refused_and_the_next_is_served() -> None:
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


def test_clients_that_say_half_of_what_they_want_hold_nobody_up(
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
    # Consumers that other tests left to be collected still look for their brokers, and say so.
    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if "|rdkafka#" not in line] == []


def test_an_address_in_use_is_told() -> None:
    words = Log(Level.ERROR, "json", io.StringIO())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = control_address(f"{taken.getsockname()[1]}")
        with pytest.raises(AddressError, match="in use"):
            ControlServer(ServerBroker(Settings()), address, words)


async def test_an_address_that_others_reach_is_warned_of() -> None:
    words = io.StringIO()
    log = Log(Level.WARNING, "json", words)
    server = ControlServer(ServerBroker(Settings()), control_address("0.0.0.0:0"), log)
    await server.start()
    await server.stop()
    told = json.loads(words.getvalue())
    assert "can drive the broker" in told["event"]
    assert told["control"].startswith("0.0.0.0:")
    assert server.url.startswith("http://127.0.0.1:")
