"""Nodes and their listeners: one each, for good, in the order of their ids."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.proxy.nodes import MAX_NODES, Nodes, is_here
from kafkalite.proxy.rewriting import Known, Node
from kafkalite.server.addresses import Address
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOOPBACK = "127.0.0.1"


class Doors:
    """What was opened, to be closed at the end."""

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
def doors() -> Iterator[Doors]:
    with closing(Doors()) as made:
        yield made


def nodes(
    doors: Doors,
    port: int = 0,
    advertised: Address | None = None,
    ports: Mapping[int, int] | None = None,
) -> Nodes:
    return Nodes(Address(LOOPBACK, port), advertised, ports or {}, doors.open)


def known(*ids: int, kind: int = 1, port: int = 9092) -> list[Known]:
    return [Known(Node(each, kind), Address(f"node{each}", port)) for each in ids]


def test_ports_go_by_id_and_stay(doors: Doors) -> None:
    port = free_port(4)
    made = nodes(doors, port)
    assert [each.port - port for each in made.tell(known(7, 3))] == [2, 1]
    assert [each.port - port for each in made.tell(known(3, 5, 7))] == [1, 3, 2]
    assert [node.node_id for node, _ in doors.opened] == [3, 7, 5]


def test_a_port_that_is_taken_is_passed_over(doors: Doors) -> None:
    port = free_port(3)
    with socket.socket() as taken:
        taken.bind((LOOPBACK, port + 1))
        taken.listen()
        assert [each.port - port for each in nodes(doors, port).tell(known(1))] == [2]


def test_a_port_may_be_pinned_to_a_node(doors: Doors) -> None:
    port = free_port(4)
    made = nodes(doors, port, ports={2: port + 1})
    assert [each.port - port for each in made.tell(known(1, 2, 3))] == [2, 1, 3]


def test_the_system_may_choose_the_ports(doors: Doors) -> None:
    told = nodes(doors).tell(known(1, 2))
    assert [each.port for each in told] == [port for _, port in doors.opened]
    assert len({each.port for each in told}) == 2


def test_clients_are_told_what_is_advertised(doors: Doors) -> None:
    port = free_port(3)
    told = nodes(doors, port, Address("outside", 19_000)).tell(known(1, 2))
    assert told == [Address("outside", 19_001), Address("outside", 19_002)]
    assert [bound - port for _, bound in doors.opened] == [1, 2]


def test_only_the_host_may_be_advertised(doors: Doors) -> None:
    (told,) = nodes(doors, 0, Address("outside", 0)).tell(known(1))
    assert told == Address("outside", doors.opened[0][1])


def test_a_node_that_moves_keeps_its_listener(doors: Doors) -> None:
    made = nodes(doors)
    before = made.tell(known(1))
    assert made.tell(known(1, port=9999)) == before
    assert made.upstreams(Node(1)) == (Address("node1", 9999),)
    assert made.node_id_at(Address("node1", 9999)) == 1
    assert made.node_id_at(Address("node1", 9092)) is None


def test_a_controller_is_not_the_broker_of_the_same_id(doors: Doors) -> None:
    made = nodes(doors)
    broker, controller = made.tell([*known(1), *known(1, kind=2, port=9093)])
    assert broker != controller
    assert made.node_id_at(Address("node1", 9093)) is None


def test_without_a_port_there_is_no_answer(doors: Doors) -> None:
    with pytest.raises(ProtocolViolation, match=r"no listener for node 1: .* leaves no ports"):
        nodes(doors, 65_535).tell(known(1))


def test_a_cluster_has_an_end(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_NODES >= 1000
    monkeypatch.setattr("kafkalite.proxy.nodes.MAX_NODES", 3)
    made = nodes(doors)
    made.tell(known(1, 2, 3))
    with pytest.raises(ProtocolViolation, match="more than 3 nodes"):
        made.tell(known(1, 2, 3, 4))


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
def test_who_connects_to_what_we_listen_at(address: str, bound: str, *, is_same: bool) -> None:
    assert is_here(Address(address, 9092), Address(bound, 9092)) is is_same
    assert not is_here(Address(address, 9093), Address(bound, 9092))


def test_a_node_that_is_said_to_be_where_we_are_is_refused(doors: Doors) -> None:
    """Or every connection to it would lead to one more, until no more can be had."""
    port = free_port(3)
    made = nodes(doors, port)
    ours = Known(Node(1), Address(LOOPBACK, port + 1))
    for _ in range(2):
        with pytest.raises(ProtocolViolation, match=f"node 1 is at {LOOPBACK}:{port + 1}, where"):
            made.tell([ours])
    assert made.upstreams(Node(1)) == ()
    assert made.tell(known(1)) == [Address(LOOPBACK, port + 1)]
