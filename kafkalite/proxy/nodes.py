"""Nodes: which listener of the proxy stands for which node of the cluster.

A node has its listener from when an answer first tells of it, and keeps it for as long as the proxy
runs, wherever the node goes meanwhile. Those that are told of together take ports in the order of
their ids, so that a proxy started anew comes to the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.proxy.rewriting import BROKERS, Node
from kafkalite.server.addresses import Address, AddressError, ListenerSpec
from kafkalite.server.listener import bind

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.proxy.rewriting import Known

    OpenDoor = Callable[[Node, list[socket.socket]], None]
    """Lets clients in at these sockets, to this node."""

MAX_NODES = 1000
"""Answers come from a peer like any other: it shall not have us take every port there is."""

_PORT_TRIES = 100
_NAME = "PROXY"
_LOOPBACKS = frozenset(("localhost", "127.0.0.1", "::1"))
_EVERYWHERE = frozenset(("localhost", "", "0.0.0.0", "::", "*"))  # noqa: S104 - not bound to
"""Hosts under which one listens at more than one address of this machine."""


@dataclass(slots=True)
class _Door:
    """A node's listener: what clients are told, and where it leads now."""

    told: Address
    bound: Address
    upstreams: Sequence[Address] = ()
    """One, or none before the cluster has told any that makes sense."""


def is_here(address: Address, bound: Address) -> bool:
    """Whether whoever connects to `address` meets what listens at `bound`, as their texts tell."""
    return address.port == bound.port and (
        address.host == bound.host or (address.host in _LOOPBACKS and bound.host in _EVERYWHERE)
    )


class Nodes:
    """The nodes of the cluster, as far as answers have told of them."""

    def __init__(
        self,
        listen: Address,
        advertised: Address | None,
        ports: Mapping[int, int],
        open_door: OpenDoor,
    ) -> None:
        """Take ports behind that of `listen`, or those that `ports` names by the broker's id.

        Clients are told the host of `advertised`, and its port as many further on.
        """
        self._listen = listen
        self._spec = ListenerSpec(_NAME, listen, advertised)
        self._ports = ports
        self._open_door = open_door
        self._step = 0
        self._doors: dict[Node, _Door] = {}

    def tell(self, known: Sequence[Known]) -> list[Address]:
        """Return where clients find each of these nodes; ProtocolViolation when they cannot."""
        for node, address in sorted(known):
            door = self._doors.get(node)
            if door is None:
                door = self._doors[node] = self._open(node)
            if is_here(address, door.bound):
                raise ProtocolViolation(
                    f"the cluster says that node {node.node_id} is at {address}, where this proxy "
                    "listens for it: have it advertise an address of its own"
                )
            door.upstreams = (address,)
        return [self._doors[node].told for node, _ in known]

    def upstreams(self, node: Node) -> Sequence[Address]:
        """Return where the cluster last said that a node is; nothing where that was nonsense."""
        return self._doors[node].upstreams

    def node_id_at(self, address: Address) -> int | None:
        """Return the id of the broker at an address of the cluster, None when nobody told."""
        for node, door in self._doors.items():
            if address in door.upstreams and node.kind == BROKERS:
                return node.node_id
        return None

    def _open(self, node: Node) -> _Door:
        if len(self._doors) >= MAX_NODES:
            raise ProtocolViolation(f"the cluster tells of more than {MAX_NODES} nodes")
        try:
            bound = self._bound(node)
        except AddressError as error:
            raise ProtocolViolation(f"no listener for node {node.node_id}: {error}") from error
        port: int = bound[0].getsockname()[1]
        # What clients are told is as far from the first port as what we listen at.
        told = self._spec.told(port, port - self._listen.port if self._listen.port else self._step)
        self._open_door(node, bound)
        return _Door(told, Address(self._listen.host, port))

    def _bound(self, node: Node) -> list[socket.socket]:
        pinned = self._ports.get(node.node_id) if node.kind == BROKERS else None
        if pinned is not None:
            return bind(Address(self._listen.host, pinned))
        reason = AddressError("no port is left")
        for _ in range(_PORT_TRIES):
            self._step += 1
            address = self._listen.shifted(self._step)
            if address.port and address.port in self._ports.values():
                continue
            try:
                return bind(address)
            except AddressError as error:
                reason = error
        raise reason
