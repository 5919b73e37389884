"""Connections of one port are passed on to the cluster that their client names."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import TYPE_CHECKING

import pytest

from kafkalite.server import cluster_routing
from kafkalite.server.cluster_routing import name_in_client_id, name_in_host
from kafkalite.server.virtual_clusters import ClusterError
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator


def request(client_id: bytes | None, api: int = 18, version: int = 0, body: bytes = b"") -> bytes:
    """Return a request, of ApiVersions by default."""
    size = -1 if client_id is None else len(client_id)
    frame = struct.pack(">hhih", api, version, 7, size) + (client_id or b"") + body
    return struct.pack(">i", len(frame)) + frame


def cluster_of(connection: socket.socket, client_id: bytes) -> bytes:
    """Return the answer to a request for the names of all topics."""
    connection.sendall(request(client_id, 3, 0, struct.pack(">i", 0)))
    size = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
    answer = b""
    while len(answer) < size:
        answer += connection.recv(size - len(answer))
    return answer


def connect(broker: Broker) -> socket.socket:
    host, port = broker.bootstrap_servers.split(":")
    return socket.create_connection((host, int(port)), timeout=10)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(storage="memory", topics={"common": 1}, clusters="client-id") as broker:
        yield broker


@pytest.mark.parametrize(
    ("client_id", "name"),
    [
        (b"worker-3/consumer", "worker-3"),
        (b"a/b/c", "a"),
        (b"a" * 63 + b"/", "a" * 63),
        (b"consumer", ""),
        (b"/consumer", ""),
        (b"", ""),
        (None, ""),
        (b"a" * 32_000 + b"/", ""),
    ],
)
def test_a_client_id_names_a_cluster(client_id: bytes | None, name: str) -> None:
    received = memoryview(request(client_id))
    assert name_in_client_id(received) == name
    named = [name_in_client_id(received[:size]) for size in range(len(received) + 1)]
    known = named.index(name)
    assert set(named[:known]) <= {None}
    assert set(named[known:]) == {name}


@pytest.mark.parametrize("name", [b"Worker", b"a_b", b"<b>x<", b"-a", b"..", b"\xff", b"c1"])
def test_an_invalid_name_in_a_client_id_is_refused(name: bytes) -> None:
    with pytest.raises(ClusterError, match="name"):
        name_in_client_id(memoryview(request(name + b"/x")))


@pytest.mark.parametrize("first", [b"GET /a/b HTTP/1.1\r\n", b"\x16\x03\x01/a/b/c/d/e/f/g/h"])
def test_other_protocols_belong_to_no_other_cluster(first: bytes) -> None:
    assert name_in_client_id(memoryview(first)) == ""


def test_a_host_below_the_advertised_one_names_a_cluster() -> None:
    names = {
        host: name_in_host(host, "kafka.test")
        for host in ("w1.kafka.test", "W1.Kafka.Test.", "kafka.test", "w1.other.test", "w1", None)
    }
    assert list(names.values()) == ["w1", "w1", "", "", "", ""]
    assert name_in_host("a.w1.kafka.test", "kafka.test") == ""


def test_clients_of_one_port_see_the_topics_of_their_cluster(broker: Broker) -> None:
    with broker.cluster("w1") as own, connect(broker) as first, connect(broker) as second:
        own.create_topic("of-w1")
        assert b"of-w1" in cluster_of(first, b"w1/a")
        assert b"of-w1" not in cluster_of(second, b"w2/a")
        # The cluster of a connection is that of its first request.
        assert b"of-w1" in cluster_of(first, b"w2/a")
        assert own.bootstrap_servers == broker.bootstrap_servers
        port = struct.pack(">i", int(broker.bootstrap_servers.split(":")[1]))
        assert port in cluster_of(first, b"w1/a")
        broker.cluster("w2").create_topic("of-w2")
        assert b"of-w2" in cluster_of(second, b"w2/a")
    assert broker.topics() == ["common"]


def test_a_request_in_single_bytes_is_passed_on(broker: Broker) -> None:
    with connect(broker) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request(b"w1/abc"):
            client.sendall(bytes((byte,)))
        assert client.recv(4)


def test_a_deleted_cluster_disconnects_its_clients(broker: Broker) -> None:
    own = broker.cluster("w1")
    own.create_topic("of-w1")
    with connect(broker) as client, connect(broker) as other:
        assert b"of-w1" in cluster_of(client, b"w1/a")
        assert b"common" in cluster_of(other, b"a")
        own.stop()
        assert client.recv(1) == b""
        assert b"common" in cluster_of(other, b"a")
    with connect(broker) as client:
        assert b"of-w1" not in cluster_of(client, b"w1/a")


def test_a_client_with_an_invalid_name_is_disconnected_with_a_reason(
    broker: Broker, capfd: pytest.CaptureFixture[str]
) -> None:
    with connect(broker) as client:
        client.sendall(request(b"<script>/x"))
        assert client.recv(1) == b""
    assert "the name '<script>' is invalid" in capfd.readouterr().err


def test_clients_start_a_limited_number_of_clusters(
    broker: Broker, capfd: pytest.CaptureFixture[str]
) -> None:
    server = broker._running_broker()
    server._settings = server.settings._replace(max_clusters=2)
    for number in range(50):
        with connect(broker) as client:
            client.sendall(request(f"w{number}/x".encode()))
            assert bool(client.recv(1)) == (number < 2)
    assert [name for name, _ in server.clusters.items()] == ["w0", "w1"]
    assert "--max-clusters" in capfd.readouterr().err


def is_closed(connection: socket.socket) -> bool:
    """Return whether the broker closes a connection; it is reset if bytes were not read yet."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_silent_connections_are_limited(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_routing, "MAX_UNROUTED", 3)
    silent = [connect(broker) for _ in range(3)]
    for each in silent:
        each.sendall(request(b"w1/x")[:9])
    with connect(broker) as served:
        served.sendall(request(b"w1/x"))
        assert served.recv(1)
    assert is_closed(silent[0])
    for each in silent[1:]:
        each.sendall(request(b"w1/x")[9:])
        assert each.recv(1)
    for each in silent:
        each.close()


def test_a_host_name_in_the_handshake_names_a_cluster() -> None:
    with Broker(
        storage="memory",
        security="SSL",
        topics={"common": 1},
        clusters="sni",
        config={"advertised.listeners": "SSL://kafka.localhost:0"},
    ) as broker:
        own = broker.cluster("w1")
        own.create_topic("of-w1")
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        assert own.bootstrap_servers == f"w1.kafka.localhost:{port}"
        context = ssl.create_default_context(
            cafile=own.client_config("java")["ssl.truststore.location"]
        )
        for host, expected in (
            ("w1.kafka.localhost", b"of-w1"),
            ("kafka.localhost", b"common"),
            ("w2.kafka.localhost", b"w2.kafka.localhost"),
        ):
            raw = socket.create_connection(("127.0.0.1", port), timeout=10)
            with context.wrap_socket(raw, server_hostname=host) as client:
                client.sendall(request(b"x/a", 3, 0, struct.pack(">i", 0)))
                assert expected in client.recv(65536)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as cut:
            cut.sendall(b"\x16\x03\x01\x02\x00\x01\x00")  # the beginning of a handshake
        with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
            plain.sendall(request(b"w1/x"))
            assert plain.recv(65536)
        assert len(list(broker._running_broker().clusters.items())) == 2


def test_names_in_handshakes_need_a_host_name() -> None:
    with pytest.raises(ValueError, match="--clusters sni needs a listener with TLS"):
        Broker(storage="memory", clusters="sni").start()
