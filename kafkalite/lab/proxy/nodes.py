"""`Nodes`: the proxy's listeners for the nodes of the cluster.

A node gets its listener when a response first contains its address. The listener stays the same
while the proxy runs, even if the node's address changes. Nodes of one response get ports in order
of their ids, so that a restarted proxy usually assigns the same ports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.lab.proxy.address_rewriting import BROKER_ENDPOINT_TYPE, Node
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.server.addresses import Address, AddressError, ListenerSpec
from kafkalite.server.listener import bind

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.lab.proxy.address_rewriting import NodeAddress

    StartListener = Callable[[Node, list[socket.socket]], None]
    """A function that starts to accept clients of a node at the given sockets."""

MAX_NODES = 1000
"""Maximum number of nodes, because a faulty cluster could return any number."""

_MAX_PORT_ATTEMPTS = 100
_LISTENER_NAME = "PROXY"
_LOOPBACKS = frozenset(("localhost", "127.0.0.1", "::1"))
_WILDCARD_HOSTS = frozenset(("localhost", "", "0.0.0.0", "::", "*"))  # noqa: S104 - not bound to
"""Hosts for which a listener accepts connections on several addresses of this machine."""


@dataclass(slots=True)
class _NodeListener:
    """A node's listener: its advertised and bound address, and the node's current address."""

    advertised: Address
    bound: Address
    upstreams: Sequence[Address] = ()
    """The node's address in the cluster; empty until the cluster returns a valid one."""


def reaches_listener(address: Address, bound: Address) -> bool:
    """Whether a connection to `address` reaches a listener bound to `bound`.

    Hosts are compared as text, without name resolution.
    """
    return address.port == bound.port and (
        address.host == bound.host or (address.host in _LOOPBACKS and bound.host in _WILDCARD_HOSTS)
    )


class Nodes:
    """The nodes that the cluster's responses have contained, each with a listener."""

    def __init__(
        self,
        listen: Address,
        advertised: Address | None,
        ports: Mapping[int, int],
        start_listener: StartListener,
    ) -> None:
        """Nodes get the ports after the port of `listen`; `ports` maps broker ids to other ports.

        Clients get the host of `advertised`, and its port plus the distance of the node's port from
        the port of `listen`.
        """
        self._listen = listen
        self._listener_spec = ListenerSpec(_LISTENER_NAME, listen, advertised)
        self._ports = ports
        self._start_listener = start_listener
        self._port_offset = 0
        self._listeners: dict[Node, _NodeListener] = {}

    def proxy_addresses(self, addresses: Sequence[NodeAddress]) -> list[Address]:
        """Return the advertised address of the listener for each of these nodes.

        Raises ProtocolViolation if a listener cannot be opened, or if the cluster returns the
        listener's own address.
        """
        for node, address in sorted(addresses):
            listener = self._listeners.get(node)
            if listener is None:
                listener = self._listeners[node] = self._open_listener(node)
            if reaches_listener(address, listener.bound):
                raise ProtocolViolation(
                    f"the cluster advertises {address} for node {node.node_id}, which is this "
                    "proxy's listener for the node; let the cluster advertise its own addresses"
                )
            listener.upstreams = (address,)
        return [self._listeners[node].advertised for node, _ in addresses]

    def upstreams(self, node: Node) -> Sequence[Address]:
        """Return the last valid address that the cluster returned for a node; empty if none."""
        return self._listeners[node].upstreams

    def node_id_at(self, address: Address) -> int | None:
        """Return the id of the broker at an address of the cluster, None if unknown."""
        for node, listener in self._listeners.items():
            if address in listener.upstreams and node.endpoint_type == BROKER_ENDPOINT_TYPE:
                return node.node_id
        return None

    def _open_listener(self, node: Node) -> _NodeListener:
        if len(self._listeners) >= MAX_NODES:
            raise ProtocolViolation(f"the cluster has more than {MAX_NODES} nodes")
        try:
            bound = self._bind_port(node)
        except AddressError as error:
            raise ProtocolViolation(
                f"cannot open a listener for node {node.node_id}: {error}"
            ) from error
        port: int = bound[0].getsockname()[1]
        # The advertised port and the bound port have the same distance from their bootstrap ports.
        advertised = self._listener_spec.advertised_address(
            port, port - self._listen.port if self._listen.port else self._port_offset
        )
        self._start_listener(node, bound)
        return _NodeListener(advertised, Address(self._listen.host, port))

    def _bind_port(self, node: Node) -> list[socket.socket]:
        fixed_port = (
            self._ports.get(node.node_id) if node.endpoint_type == BROKER_ENDPOINT_TYPE else None
        )
        if fixed_port is not None:
            return bind(Address(self._listen.host, fixed_port))
        error = AddressError("no free port")
        for _ in range(_MAX_PORT_ATTEMPTS):
            self._port_offset += 1
            address = self._listen.with_port_offset(self._port_offset)
            if address.port and address.port in self._ports.values():
                continue
            try:
                return bind(address)
            except AddressError as attempt_error:
                error = attempt_error
        raise error
