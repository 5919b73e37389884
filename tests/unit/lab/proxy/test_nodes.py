"""Listeners of nodes: one per node, permanent, in order of node ids."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.proxy.address_rewriting import Node, NodeAddress
from kafkalite.lab.proxy.nodes import MAX_NODES, Nodes, reaches_listener
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.server.addresses import Address
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOOPBACK = "127.0.0.1"


class OpenedListeners:
    """The opened listeners, which are closed at the end of a test."""

    def __init__(self) -> None:
        self.opened: list[tuple[Node, int]] = []
        self._sockets: list[socket.socket] = []

    def open(self, node: Node, sockets: list[socket.socket]) -> None:
        self.opened.append((node, sockets[0].getsockname()[1]))
        self._sockets += sockets

    def close(self) -> None:
        for each in self._sockets:
            each.close()


@pytest.fixture
def listeners() -> Iterator[OpenedListeners]:
    with closing(OpenedListeners()) as opened:
        yield opened


def nodes(
    listeners: OpenedListeners,
    port: int = 0,
    advertised: Address | None = None,
    ports: Mapping[int, int] | None = None,
) -> Nodes:
    return Nodes(Address(LOOPBACK, port), advertised, ports or {}, listeners.open)


def at_nodes(*ids: int, endpoint_type: int = 1, port: int = 9092) -> list[NodeAddress]:
    return [NodeAddress(Node(each, endpoint_type), Address(f"node{each}", port)) for each in ids]


def test_ports_are_assigned_by_id_and_stay(listeners: OpenedListeners) -> None:
    port = free_port(4)
    cluster = nodes(listeners, port)
    assert [each.port - port for each in cluster.proxy_addresses(at_nodes(7, 3))] == [2, 1]
    assert [each.port - port for each in cluster.proxy_addresses(at_nodes(3, 5, 7))] == [
        1,
        3,
        2,
    ]
    assert [node.node_id for node, _ in listeners.opened] == [3, 7, 5]


def test_port_in_use_is_skipped(listeners: OpenedListeners) -> None:
    port = free_port(3)
    with socket.socket() as used:
        used.bind((LOOPBACK, port + 1))
        used.listen()
        assert [
            each.port - port for each in nodes(listeners, port).proxy_addresses(at_nodes(1))
        ] == [2]


def test_port_of_a_node_can_be_configured(listeners: OpenedListeners) -> None:
    port = free_port(4)
    cluster = nodes(listeners, port, ports={2: port + 1})
    assert [each.port - port for each in cluster.proxy_addresses(at_nodes(1, 2, 3))] == [
        2,
        1,
        3,
    ]


def test_system_chooses_ports_for_port_0(listeners: OpenedListeners) -> None:
    addresses = nodes(listeners).proxy_addresses(at_nodes(1, 2))
    assert [each.port for each in addresses] == [port for _, port in listeners.opened]
    assert len({each.port for each in addresses}) == 2


def test_advertised_address_is_returned_to_clients(listeners: OpenedListeners) -> None:
    port = free_port(3)
    addresses = nodes(listeners, port, Address("outside", 19_000)).proxy_addresses(at_nodes(1, 2))
    assert addresses == [Address("outside", 19_001), Address("outside", 19_002)]
    assert [bound - port for _, bound in listeners.opened] == [1, 2]


def test_advertised_port_0_is_the_bound_port(listeners: OpenedListeners) -> None:
    (address,) = nodes(listeners, 0, Address("outside", 0)).proxy_addresses(at_nodes(1))
    assert address == Address("outside", listeners.opened[0][1])


def test_node_with_a_new_address_keeps_its_listener(listeners: OpenedListeners) -> None:
    cluster = nodes(listeners)
    before = cluster.proxy_addresses(at_nodes(1))
    assert cluster.proxy_addresses(at_nodes(1, port=9999)) == before
    assert cluster.upstreams(Node(1)) == (Address("node1", 9999),)
    assert cluster.node_id_at(Address("node1", 9999)) == 1
    assert cluster.node_id_at(Address("node1", 9092)) is None


def test_controller_and_broker_of_equal_id_have_separate_listeners(
    listeners: OpenedListeners,
) -> None:
    cluster = nodes(listeners)
    broker, controller = cluster.proxy_addresses(
        [*at_nodes(1), *at_nodes(1, endpoint_type=2, port=9093)]
    )
    assert broker != controller
    assert cluster.node_id_at(Address("node1", 9093)) is None


def test_lack_of_ports_is_an_error(listeners: OpenedListeners) -> None:
    with pytest.raises(
        ProtocolViolation, match=r"cannot open a listener for node 1: .* too few ports"
    ):
        nodes(listeners, 65_535).proxy_addresses(at_nodes(1))


def test_number_of_nodes_is_limited(
    listeners: OpenedListeners, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_NODES >= 1000
    monkeypatch.setattr("kafkalite.lab.proxy.nodes.MAX_NODES", 3)
    cluster = nodes(listeners)
    cluster.proxy_addresses(at_nodes(1, 2, 3))
    with pytest.raises(ProtocolViolation, match="more than 3 nodes"):
        cluster.proxy_addresses(at_nodes(1, 2, 3, 4))


@pytest.mark.parametrize(
    ("address", "bound", "is_same"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "localhost", True),
        ("::1", "::", True),
        ("localhost", "", True),
        ("broker", "::", False),
        ("127.0.0.1", "::1", False),
    ],
)
def test_reaches_listener_compares_loopback_and_wildcard_hosts(
    address: str, bound: str, *, is_same: bool
) -> None:
    assert reaches_listener(Address(address, 9092), Address(bound, 9092)) is is_same
    assert not reaches_listener(Address(address, 9093), Address(bound, 9092))


def test_node_at_the_proxys_own_address_is_refused(listeners: OpenedListeners) -> None:
    """Otherwise every connection to the node would connect to the proxy again, without end."""
    port = free_port(3)
    cluster = nodes(listeners, port)
    own_address = NodeAddress(Node(1), Address(LOOPBACK, port + 1))
    for _ in range(2):
        with pytest.raises(
            ProtocolViolation, match=f"advertises {LOOPBACK}:{port + 1} for node 1, which"
        ):
            cluster.proxy_addresses([own_address])
    assert cluster.upstreams(Node(1)) == ()
    assert cluster.proxy_addresses(at_nodes(1)) == [Address(LOOPBACK, port + 1)]
