"""The links of a broker under test, disturbed and healed from the test's own thread."""

from __future__ import annotations

import socket

import pytest

from kafkalite.config.typed_json import JsonError
from kafkalite.server.link_rules import LinkError
from kafkalite.testing import Broker
from tests.unit.frames import API_VERSIONS_KEY, framed, header

REQUEST = framed(header(API_VERSIONS_KEY, 0, client_id=b"shop"))


def connected(broker: Broker) -> socket.socket:
    host, _, port = broker.bootstrap_servers.partition(",")[0].rpartition(":")
    client = socket.create_connection((host, int(port)))
    client.settimeout(30)
    return client


def answer_bytes(client: socket.socket) -> int:
    """Return the size of the next answer, 0 if the connection is closed."""
    head = client.recv(4, socket.MSG_WAITALL)
    return len(client.recv(int.from_bytes(head), socket.MSG_WAITALL)) if head else 0


def test_a_cut_link_delivers_requests_and_answers_when_it_is_healed() -> None:
    with Broker(request_log=10) as broker, connected(broker) as client:
        with broker.links.cut(client_id="shop", direction="out") as cut:
            client.sendall(REQUEST)
            broker.requests.wait(api="ApiVersions")
            assert cut.connections == 1
            assert repr(cut) == "<link l1: client_id=shop direction=out cut=true>"
        assert answer_bytes(client) > 100
        assert broker.links.list() == []
        with broker.links.cut():
            client.sendall(REQUEST)
            broker.links.heal()
        assert answer_bytes(client) > 100
        assert cut.connections == 1


def test_a_slow_link_uses_the_clock_of_the_broker() -> None:
    with Broker(clock="manual") as broker, connected(broker) as client:
        slow = broker.links.slow(latency_ms=60_000, jitter_ms=5, bytes_per_second=1_000_000)
        client.sendall(REQUEST)
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        client.settimeout(30)
        slow.heal()
        slow.heal()
        assert answer_bytes(client) > 100


def test_a_client_notices_a_half_open_link_when_it_is_healed() -> None:
    with Broker() as broker, connected(broker) as client:
        client.sendall(REQUEST)
        assert answer_bytes(client) > 100
        half_open = broker.links.half_open(address="127.0.0.*")
        assert [each.id for each in broker.links.list()] == [half_open.id]
        with connected(broker) as other:
            other.sendall(REQUEST)
            assert answer_bytes(other) > 100
        half_open.heal()
        assert client.recv(1) == b""


def test_a_stop_and_a_reset_end_disturbed_links() -> None:
    with Broker(brokers=2) as broker:
        client = connected(broker)
        client.sendall(REQUEST)
        assert answer_bytes(client) > 100
        broker.links.cut(from_node=1, node=2)
        broker.reset()
        assert broker.links.list() == []
        broker.links.cut()
    with client:
        assert client.recv(1) == b""


def test_invalid_rules_are_refused() -> None:
    with Broker() as broker:
        with pytest.raises(LinkError, match="a link needs an effect"):
            broker.links.slow(node=1)
        with pytest.raises(JsonError, match="direction must be both, in or out, not 'up'"):
            broker.links.cut(direction="up")
        with pytest.raises(LinkError, match="there is no node 2; the nodes are 1"):
            broker.links.cut(node=2)
