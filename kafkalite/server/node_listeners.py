"""NodeListeners: the bound listeners of all nodes, and the ports of added nodes."""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.metadata.image import RELAYED, RegisteredListener
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.addresses import Address, AddressError, ListenerSpec
from kafkalite.server.listener import Listener, PortTakenError, bind_listener

if TYPE_CHECKING:
    from collections.abc import ItemsView, Mapping, Sequence

    from kafkalite.metadata.image import AddedNode
    from kafkalite.server.logging import Log

_MAX_PORT_DISTANCE = 1_000
"""Distance between the ids of nodes from which on their ports do not follow their ids."""

_PROTOCOL_NUMBERS: Final = {
    SecurityProtocol.PLAINTEXT: 0,
    SecurityProtocol.SSL: 1,
    SecurityProtocol.SASL_PLAINTEXT: 2,
    SecurityProtocol.SASL_SSL: 3,
}
"""Kafka's numbers of security protocols."""


class _RequestedPort(NamedTuple):
    """The port of one listener of an added node, as a distance from that of the first node."""

    node_id: int
    spec: ListenerSpec
    offset: int
    is_stored: bool
    """Whether the listener had this port before the last stop."""


class NodeListeners:
    """The listeners of each node, by node id.

    The nodes of the settings have consecutive ports. The port of an added node follows its id. If
    that port is taken, the node has the next free one. Later starts begin with the same ports.
    """

    __slots__ = ("_by_node", "_first_id", "_log", "_specs")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._specs: Sequence[ListenerSpec] = ()
        self._first_id = 0
        self._by_node: dict[int, list[Listener]] = {}

    def items(self) -> ItemsView[int, list[Listener]]:
        """Return the listeners by node id."""
        return self._by_node.items()

    def bind(
        self,
        specs: Sequence[ListenerSpec],
        node_ids: Sequence[int],
        routed: Mapping[int, Sequence[ListenerSpec]] = MappingProxyType({}),
        own: Mapping[int, Sequence[ListenerSpec]] = MappingProxyType({}),
    ) -> None:
        """Bind the ports of the nodes of the settings; raises AddressError.

        Nodes in `routed` have these listeners, without ports of their own. Nodes in `own` have
        these listeners, whose ports do not depend on those of other nodes. After an error, `stop`
        releases the ports that were bound before.
        """
        self._specs = specs
        self._first_id = node_ids[0]
        for index, node_id in enumerate(node_ids):
            listeners = self._by_node[node_id] = []
            if node_id in routed:
                self.add_relayed(node_id, routed[node_id])
                continue
            distance = 0 if node_id in own else index
            for spec in own.get(node_id, specs):
                # One by one: if a port is taken, `stop` closes those bound before.
                try:
                    listeners.append(Listener(spec, distance))
                except AddressError as error:
                    if len(node_ids) == 1:
                        raise
                    raise type(error)(f"node {node_id}: {error}") from error

    def update(self, nodes: Mapping[int, AddedNode | None]) -> bool:
        """Release the ports of removed nodes, and bind those of added nodes.

        `nodes` are all nodes of the cluster; nodes of the settings have None. Returns whether the
        nodes of the settings are not those of the cluster. Raises AddressError.
        """
        has_changed = nodes.keys() != self._by_node.keys()
        for node_id in self._by_node.keys() - nodes.keys():
            self.release(node_id)
        to_bind = {
            node_id: added
            for node_id, added in nodes.items()
            if added is not None and not added.is_relayed and not self._has_ports(node_id, added)
        }
        for node_id in to_bind:
            self.release(node_id)
        self._bind_added(to_bind)
        for node_id, added in nodes.items():
            if added is not None and added.is_relayed:
                self.add_relayed(node_id, _relayed_specs(added))
        return has_changed

    def add(self, node_id: int) -> Sequence[Listener]:
        """Return bound listeners of a new node; raises AddressError if no port is free."""
        self._bind_added({node_id: None})
        return self._by_node[node_id]

    def add_relayed(self, node_id: int, specs: Sequence[ListenerSpec]) -> Sequence[Listener]:
        """Return the relayed listeners of a node, in place of those that it had before."""
        self.release(node_id)
        listeners = self._by_node[node_id] = [Listener(spec, 0) for spec in specs]
        return listeners

    def release(self, node_id: int) -> None:
        """Release the ports of a node; does nothing for an unknown one."""
        for listener in self._by_node.pop(node_id, ()):
            listener.stop()

    def stop(self) -> None:
        """Release all ports."""
        for node_id in tuple(self._by_node):
            self.release(node_id)

    def _has_ports(self, node_id: int, added: AddedNode) -> bool:
        """Return whether a node listens on the ports that were stored."""
        listeners = self._by_node.get(node_id)
        return listeners is not None and all(
            added.port_offset(each.name) in (None, each.node_index) for each in listeners
        )

    def _default_offset(self, node_id: int) -> int:
        offset = node_id - self._first_id
        return offset if 0 <= offset < _MAX_PORT_DISTANCE else len(self._by_node)

    def _requested_ports(self, node_id: int, added: AddedNode | None) -> list[_RequestedPort]:
        default = self._default_offset(node_id)
        requested = []
        for spec in self._specs:
            stored = None if added is None else added.port_offset(spec.name)
            offset = default if stored is None else stored
            requested.append(_RequestedPort(node_id, spec, offset, is_stored=stored is not None))
        return requested

    def _bind_added(self, nodes: Mapping[int, AddedNode | None]) -> None:
        """Bind the ports of added nodes, or none after an AddressError."""
        requested = [
            port
            for node_id, added in nodes.items()
            for port in self._requested_ports(node_id, added)
        ]
        bound: dict[_RequestedPort, Listener] = {}
        try:
            # Stored ports first: they are not free for listeners that need another port.
            for port in requested:
                if port.is_stored:
                    with suppress(PortTakenError):
                        bound[port] = Listener(port.spec, port.offset)
            for port in requested:
                if port not in bound:
                    bound[port] = self._bind_free(port)
        except AddressError as error:
            for listener in bound.values():
                listener.stop()
            raise AddressError(f"node {port.node_id}: {error}") from error
        for node_id in nodes:
            self._by_node[node_id] = [bound[port] for port in requested if port.node_id == node_id]

    def _bind_free(self, port: _RequestedPort) -> Listener:
        """Return a listener on the requested port, or on the next free one."""
        listener = bind_listener(port.spec, port.offset, self._is_reserved)
        if port.is_stored:
            self._log.warning(
                "the port of an added node is in use, so the node listens on another one",
                node=port.node_id,
                listener=port.spec.name,
                port=port.spec.listen_address.with_port_offset(port.offset).port,
                used_port=listener.port,
            )
        return listener

    def _is_reserved(self, address: Address) -> bool:
        """Return whether a node listens there when it runs; a stopped node's port is free now."""
        return any(
            not listener.is_relayed
            and listener.port == address.port
            and listener.bound_address.overlaps(address)
            for listeners in self._by_node.values()
            for listener in listeners
        )


def registered_listeners(listeners: Sequence[Listener]) -> tuple[RegisteredListener, ...]:
    """Return the listeners of an added node for its registration."""
    return tuple(
        RegisteredListener(
            name=listener.name,
            host=listener.advertised_address.host,
            port=listener.advertised_address.port,
            security_protocol=_PROTOCOL_NUMBERS[listener.protocol],
            port_offset=RELAYED if listener.is_relayed else listener.node_index,
        )
        for listener in listeners
        if not listener.is_for_controllers
    )


def _relayed_specs(added: AddedNode) -> list[ListenerSpec]:
    """Return the listeners of a node whose clients connected to another process before."""
    protocols = {number: protocol for protocol, number in _PROTOCOL_NUMBERS.items()}
    return [
        ListenerSpec(
            each.name,
            Address(each.host, each.port),
            Address(each.host, each.port),
            protocols[each.security_protocol],
            is_relayed=True,
        )
        for each in added.listeners
    ]
