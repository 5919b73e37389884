"""`RecordedNodes`: maps recorded nodes to nodes of the target.

A recorded node maps to the target's node with the same id. If there is no such node, it maps to the
node at the same position in the order of ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.reading.messages import parse_response
from kafkalite.lab.replay.rewriting.id_mapping import Scope, ValueKind
from kafkalite.protocol.catalogue import ROWS, endpoints
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkalite.capture.model import Connection, Exchange
    from kafkalite.lab.replay.rewriting.id_mapping import IdMapping

_BROKERS = "brokers"
_NODE_ID_FIELDS = {
    key: node_id
    for key, row in ROWS.items()
    for list_path, node_id in endpoints(row)
    if list_path == _BROKERS
}
"""API key → name of the field with the broker id, for responses with a list of brokers."""


class RecordedNodes:
    """Maps recorded connections to nodes of the target."""

    def __init__(self, nodes: Collection[int], mapping: IdMapping) -> None:
        """`nodes` are the node ids of the target."""
        self._nodes = sorted(nodes)
        self._mapping = mapping
        self._by_port: dict[int, int] = {}
        self._by_endpoint: dict[tuple[str, int], int] = {}
        self._recorded_ids: tuple[int, ...] = ()

    def learn_from(self, exchange: Exchange) -> None:
        """Learn the nodes that a recorded response lists, if its API has a list of brokers."""
        if exchange.api_key not in _NODE_ID_FIELDS or exchange.response is None:
            return
        try:
            response: Any = parse_response(exchange)
        except ProtocolViolation:
            return
        name = _NODE_ID_FIELDS[exchange.api_key]
        self.learn([(getattr(row, name), row.host, row.port) for row in response.brokers])

    def learn(self, brokers: Sequence[tuple[int, str, int]]) -> None:
        """Learn recorded nodes, given as (id, host, port)."""
        for node_id, host, port in brokers:
            self._by_endpoint[host, port] = node_id
            self._by_port[port] = node_id
        recorded = tuple(sorted({node_id for node_id, _, _ in brokers}))
        if recorded and recorded != self._recorded_ids:
            self._recorded_ids = recorded
            if len(recorded) != len(self._nodes):
                self._mapping.node_counts = len(recorded), len(self._nodes)
            for position, node_id in enumerate(recorded):
                target_id = node_id
                if self._nodes and node_id not in self._nodes:
                    target_id = self._nodes[min(position, len(self._nodes) - 1)]
                self._mapping.learn(ValueKind.NODE, node_id, target_id)

    def node(self, connection: Connection) -> int | None:
        """Return the target's node for a recorded connection, None if unknown."""
        node_id = connection.node_id
        if node_id is None or node_id < 0:
            broker = connection.broker
            node_id = self._by_endpoint.get(
                (broker.host, broker.port), self._by_port.get(broker.port)
            )
        if node_id is None or node_id in self._nodes:
            return node_id
        target_id = self._mapping.translate(ValueKind.NODE, Scope(), node_id)
        return target_id if isinstance(target_id, int) and target_id in self._nodes else None
