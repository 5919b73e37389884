"""Links: which connections a rule selects, and what the end of a rule delivers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.server.connection import Connection
from kafkalite.server.link_rules import LinkError, UnknownLinkError, parse_link
from kafkalite.server.linked_connection import LinkedConnection
from kafkalite.server.links import MAX_LINKS, Links
from tests.unit.frames import header
from tests.unit.server.test_connection import FakeTransport, ListeningNode, run_callbacks, send

if TYPE_CHECKING:
    from kafkalite.cluster.cluster import Cluster
    from kafkalite.server.link_rules import LinkState


class Network:
    """The links of a node 1 with clients, in a cluster with a node 2."""

    def __init__(self) -> None:
        self.node = ListeningNode()
        self.cut: list[frozenset[tuple[int, int]]] = []
        self.reports: list[tuple[str, str, str]] = []
        cluster = SimpleNamespace(
            clock=self.node.clock,
            entropy=SeededEntropy(),
            nodes={1: None, 2: None, 3: None},
            node_control=SimpleNamespace(cut_links=self.cut.append),
        )
        self.links = Links(
            cast("Cluster", cluster),
            lambda: self.node.admission,
            lambda *report: self.reports.append(report),
        )

    def add(self, **rule: object) -> LinkState:
        return self.links.add(parse_link(rule))

    def new_client(self, host: int = 1) -> FakeTransport:
        connection = Connection(self.node.context)
        protocol = self.links.protocol_of(connection, connection)
        transport = FakeTransport(cast("Connection", protocol), f"10.0.0.{host}", 40_000)
        protocol.connection_made(transport)
        return transport


def request(client_id: bytes) -> bytes:
    return header(18, 4, client_id=client_id)


async def test_a_rule_applies_to_present_and_new_connections_that_match() -> None:
    network = Network()
    present, other = network.node.client(1), network.node.client(2)
    state = network.add(address="10.0.0.1", cut=True, direction="out")
    new, new_other = network.new_client(1), network.new_client(2)
    for transport in (present, other, new, new_other):
        send(transport, b"one")
    assert [each.writes for each in (present, other, new, new_other)] == [[], [b"one"]] * 2
    assert (state.connections, network.links.states()[0].connections) == (1, 2)
    assert not isinstance(other.connection, LinkedConnection)
    assert network.links.heal("l1").connections == 2
    assert (present.writes, new.writes) == ([b"one"], [b"one"])
    assert not isinstance(present.connection, LinkedConnection)
    rule = "address=10.0.0.1 direction=out cut=true"
    assert network.reports == [("link disturbed", "l1", rule), ("link healed", "l1", rule)]


async def test_a_rule_applies_to_a_client_id_once_it_is_known() -> None:
    network = Network()
    network.add(client_id="shop-*", cut=True)
    shop, other = network.new_client(), network.new_client()
    send(shop, request(b"shop-1"))
    send(other, request(b"audit"))
    assert (len(network.node.served), shop.paused, other.paused) == (1, True, False)
    network.links.heal_all()
    await run_callbacks()
    assert len(network.node.served) == 2
    assert [len(each.writes) for each in (shop, other)] == [1, 1]


async def test_rules_of_another_node_do_not_apply() -> None:
    network = Network()
    client = network.node.client()
    assert network.add(node=2, cut=True).connections == 0
    send(client, b"one")
    assert client.writes == [b"one"]


async def test_a_half_open_link_affects_present_connections_only() -> None:
    network = Network()
    present = network.node.client()
    assert network.add(half_open=True).connections == 1
    new = network.new_client()
    send(new, b"one")
    await run_callbacks()
    assert (new.writes, present.closed) == ([b"one"], False)
    assert len(list(network.node.admission)) == 1
    network.links.heal_all()
    assert present.closed


async def test_a_rule_applies_to_a_connection_that_is_being_accepted() -> None:
    network = Network()
    connection = Connection(network.node.context)
    transport = FakeTransport(connection, "10.0.0.1", 40_000)
    assert network.links.protocol_of(connection, connection) is connection
    asyncio.get_running_loop().call_soon(connection.connection_made, transport)
    network.add(cut=True, direction="out")
    await run_callbacks()
    send(transport, b"one")
    assert (network.node.served, transport.writes) == ([b"one"], [])


async def test_the_sockets_of_forgotten_connections_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafkalite.server.links.MAX_FORGOTTEN", 2)
    network = Network()
    clients = [network.node.client(number) for number in range(1, 4)]
    network.add(half_open=True)
    await run_callbacks()
    assert [client.aborted for client in clients] == [True, False, False]


async def test_rules_come_and_go_while_a_connection_is_being_accepted() -> None:
    network = Network()
    network.add(latency_ms=5)
    connection = Connection(network.node.context)
    linked = network.links.protocol_of(connection, connection)
    assert isinstance(linked, LinkedConnection)
    network.add(half_open=True)
    network.add(cut=True)
    network.links.heal_all()
    transport = FakeTransport(cast("Connection", linked), "10.0.0.1", 40_000)
    linked.connection_made(transport)
    await run_callbacks()
    send(transport, b"one")
    assert (network.node.served, transport.writes) == ([b"one"], [b"one"])


async def test_a_stop_while_a_connection_is_being_accepted_closes_the_others() -> None:
    network = Network()
    disturbed = network.node.client()
    network.add(cut=True)
    connection = Connection(network.node.context)
    network.links.protocol_of(connection, connection)
    network.links.close()
    assert disturbed.aborted


async def test_the_effects_of_rules_end_one_by_one() -> None:
    network = Network()
    client = network.node.client()
    network.add(latency_ms=5)
    network.add(cut=True, direction="out")
    send(client, b"one")
    network.node.clock.advance(5)
    assert (network.node.served, client.writes) == ([b"one"], [])
    network.links.heal("l2")
    network.node.clock.advance(5)
    assert client.writes == [b"one"]
    send(client, b"two")
    assert network.node.served == [b"one"]
    network.links.heal("l1")
    assert network.node.served == [b"one", b"two"]


async def test_a_stop_closes_the_sockets_of_disturbed_links() -> None:
    network = Network()
    network.new_client()
    disturbed = network.node.client()
    network.add(cut=True)
    network.links.close()
    await run_callbacks()
    assert disturbed.aborted
    assert network.links.states() == []
    assert not isinstance(network.new_client().connection, LinkedConnection)


async def test_links_between_nodes_are_cut_in_each_direction() -> None:
    network = Network()
    assert network.add(from_node=2, node=1, cut=True, direction="in").connections == 0
    network.add(from_node=3, cut=True, direction="out")
    assert network.cut[-1] == {(2, 1), (1, 3), (2, 3)}
    network.links.heal("l1")
    assert network.cut[-1] == {(1, 3), (2, 3)}
    network.add(from_node=1, node=2, cut=True)
    assert network.cut[-1] == {(1, 3), (2, 3), (1, 2), (2, 1)}
    network.links.heal_all()
    assert network.cut[-1] == frozenset()


async def test_unknown_nodes_and_links_are_refused() -> None:
    network = Network()
    with pytest.raises(LinkError, match="from_node: there is no node 9; the nodes are 1, 2, 3"):
        network.add(from_node=9, cut=True)
    with pytest.raises(UnknownLinkError, match="there is no link 'l1'; there is none"):
        network.links.heal("l1")
    for _ in range(MAX_LINKS):
        network.add(node=2, cut=True)
    with pytest.raises(LinkError, match="heal one first"):
        network.add(cut=True)
