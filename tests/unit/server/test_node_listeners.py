"""NodeListeners: the ports of the nodes of the settings, and of added nodes."""

from __future__ import annotations

import io
import json
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.metadata.image import AddedNode, RegisteredListener
from kafkalite.server.addresses import Address, AddressError, ListenerSpec
from kafkalite.server.logging import Level, Log
from kafkalite.server.node_listeners import NodeListeners, registered_listeners
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOST = "127.0.0.1"


class BoundListeners:
    """The listeners of two nodes, and the log."""

    def __init__(self, specs: Sequence[ListenerSpec], node_ids: Sequence[int] = (1, 2)) -> None:
        self._log_output = io.StringIO()
        self.listeners = NodeListeners(Log(Level.INFO, "json", self._log_output))
        self.listeners.bind(specs, node_ids)

    def ports(self) -> dict[int, list[int]]:
        """Return the ports of each node, in the order of the listeners."""
        return {
            node_id: [each.port for each in listeners]
            for node_id, listeners in self.listeners.items()
        }

    def added(self) -> dict[int, AddedNode | None]:
        """Return all nodes as the metadata has them, with nodes from 3 on as added ones."""
        return {
            node_id: AddedNode({}, registered_listeners(listeners)) if node_id > 2 else None
            for node_id, listeners in self.listeners.items()
        }

    def warnings(self) -> list[tuple[int, str, int, int]]:
        """Return node, listener, stored port and used port of each warning."""
        lines = [json.loads(line) for line in self._log_output.getvalue().splitlines()]
        assert all("listens on another one" in line["event"] for line in lines)
        return [(line["node"], line["listener"], line["port"], line["used_port"]) for line in lines]


@contextmanager
def bound(*specs: ListenerSpec, node_ids: Sequence[int] = (1, 2)) -> Iterator[BoundListeners]:
    """Yield the bound listeners of nodes."""
    made = BoundListeners(specs, node_ids)
    try:
        yield made
    finally:
        made.listeners.stop()


def spec(port: int, name: str = "PLAINTEXT", host: str = HOST) -> ListenerSpec:
    return ListenerSpec(name, Address(host, port))


def stored(*offsets: int) -> AddedNode:
    """Return a node with these port offsets of the listeners PLAINTEXT and B."""
    return AddedNode(
        {},
        tuple(
            RegisteredListener(name, HOST, 1, security_protocol=0, port_offset=offset)
            for name, offset in zip(("PLAINTEXT", "B"), offsets, strict=False)
        ),
    )


def test_nodes_of_the_settings_have_consecutive_ports() -> None:
    port = free_port(2)
    with bound(spec(port)) as nodes:
        assert nodes.ports() == {1: [port], 2: [port + 1]}
        nodes.listeners.stop()
        socket.create_server((HOST, port)).close()


def test_the_port_of_an_added_node_follows_its_id() -> None:
    port = free_port(9)
    with bound(spec(port)) as nodes:
        nodes.listeners.add(9)
        nodes.listeners.add(0)
        nodes.listeners.add(2_000_000)
        # No port belongs to an id below the first one, or far above it.
        assert nodes.ports() == {
            1: [port], 2: [port + 1], 9: [port + 8], 0: [port + 3], 2_000_000: [port + 4],
        }  # fmt: skip


def test_an_added_node_does_not_use_the_port_of_a_stopped_node() -> None:
    port = free_port(4)
    with bound(spec(port), node_ids=(1, 2, 3)) as nodes:
        nodes.listeners.update({1: None, 3: None})
        for listener in dict(nodes.listeners.items())[3]:
            listener.stop()
        nodes.listeners.add(0)
        # A node with id 0 would have the third port: two nodes run.
        assert nodes.ports() == {1: [port], 3: [port + 2], 0: [port + 3]}


def test_listeners_of_added_nodes_have_the_same_ports_after_a_restart() -> None:
    port = free_port(8)
    specs = (spec(port), spec(port + 2, "B"))
    with bound(*specs) as nodes, socket.create_server((HOST, port + 5)):
        nodes.listeners.add(3)
        nodes.listeners.add(4)
        before, added = nodes.ports(), nodes.added()
        assert before == {
            1: [port, port + 2], 2: [port + 1, port + 3],
            3: [port + 4, port + 6], 4: [port + 7, port + 8],
        }  # fmt: skip
    with bound(*specs) as nodes:
        assert nodes.listeners.update(added)
        assert nodes.ports() == before
        assert not nodes.listeners.update(added)
        assert not nodes.warnings()


def test_a_stored_port_in_use_is_replaced_by_a_free_one_that_no_node_stored() -> None:
    port = free_port(6)
    with bound(spec(port)) as nodes, socket.create_server((HOST, port + 2)):
        nodes.listeners.update({1: None, 2: None, 3: stored(2), 4: stored(3), 5: stored(4)})
        assert nodes.ports() == {
            1: [port], 2: [port + 1], 3: [port + 5], 4: [port + 3], 5: [port + 4],
        }  # fmt: skip
        assert nodes.warnings() == [(3, "PLAINTEXT", port + 2, port + 5)]


def test_an_added_node_that_is_also_in_the_settings_has_its_stored_port() -> None:
    port = free_port(4)
    with bound(spec(port)) as nodes:
        assert not nodes.listeners.update({1: None, 2: stored(3)})
        assert nodes.ports() == {1: [port], 2: [port + 3]}


def test_stored_ports_follow_the_port_of_the_first_node() -> None:
    port = free_port(6)
    with bound(spec(port + 1)) as nodes:
        nodes.listeners.update({1: None, 2: None, 7: stored(4)})
        assert nodes.ports()[7] == [port + 5]


def test_a_listener_without_a_stored_port_has_that_of_its_node() -> None:
    port = free_port(6)
    with bound(spec(port), spec(port + 3, "B")) as nodes:
        nodes.listeners.update({1: None, 2: None, 3: stored(2)})
        assert nodes.ports()[3] == [port + 2, port + 5]
        assert not nodes.warnings()


def test_port_0_remains_any_port() -> None:
    with bound(spec(0)) as nodes:
        (listener,) = nodes.listeners.add(5)
        (registered,) = registered_listeners([listener])
        assert registered == ("PLAINTEXT", HOST, listener.port, 0, 4)
    with bound(spec(0)) as nodes:
        nodes.listeners.update({1: None, 2: None, 5: stored(4)})
        assert len({port for (port,) in nodes.ports().values()}) == 3


def test_a_taken_port_of_one_of_several_nodes_names_the_node() -> None:
    port = free_port(2)
    with socket.create_server((HOST, port + 1)):
        listeners = NodeListeners(Log(Level.INFO, "json", io.StringIO()))
        reason = f"cannot listen on {HOST}:{port + 1}: address already in use"
        with pytest.raises(AddressError, match=f"^node 2: {reason}$"):
            listeners.bind([spec(port)], (1, 2))
        listeners.stop()
        with pytest.raises(AddressError, match=f"^{reason}$"):
            listeners.bind([spec(port + 1)], (1,))
        listeners.stop()


def test_an_error_names_the_node_and_leaves_no_port_bound() -> None:
    port = free_port(3)
    with bound(spec(port)) as nodes:
        far = stored(65_535 - port + 1)
        with pytest.raises(AddressError, match=rf"^node 4: {HOST}:{port} has too few ports after"):
            nodes.listeners.update({1: None, 2: None, 3: stored(2), 4: far})
        assert nodes.ports() == {1: [port], 2: [port + 1]}
        socket.create_server((HOST, port + 2)).close()


def test_a_registration_has_the_advertised_address_and_the_protocol() -> None:
    port = free_port(4)
    secured = ListenerSpec(
        "CLIENT", Address(HOST, port), Address("broker.test", 7000), SecurityProtocol.SASL_SSL
    )
    with bound(secured) as nodes:
        assert registered_listeners(nodes.listeners.add(4)) == (
            RegisteredListener("CLIENT", "broker.test", 7003, security_protocol=3, port_offset=3),
        )
