"""Routes: which node of the target stands for the one that a recorded connection went to.

It is the node of the same id; where the target has none, the one of the same rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.messages import parse_response
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.mapping import Kind, Scope

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkalite.capture.model import Connection, Exchange
    from kafkalite.replay.mapping import Mapping

_TELL_OF_NODES = {3: "node_id", 60: "broker_id"}
"""Metadata and DescribeCluster, and where they have the ids of nodes."""


class Routes:
    """Which node of the target each recorded connection goes to."""

    def __init__(self, nodes: Collection[int], meaning: Mapping) -> None:
        """`nodes` are the target's."""
        self._nodes = sorted(nodes)
        self._meaning = meaning
        self._by_port: dict[int, int] = {}
        self._by_endpoint: dict[tuple[str, int], int] = {}
        self._recorded: tuple[int, ...] = ()

    def look_at(self, exchange: Exchange) -> None:
        """Take the nodes that a recorded answer names, if it does."""
        if exchange.api_key not in _TELL_OF_NODES or exchange.response is None:
            return
        try:
            told: Any = parse_response(exchange)
        except ProtocolViolation:
            return
        name = _TELL_OF_NODES[exchange.api_key]
        self.learn([(getattr(row, name), row.host, row.port) for row in told.brokers])

    def learn(self, brokers: Sequence[tuple[int, str, int]]) -> None:
        """Take the nodes that a recorded answer names: id, host and port."""
        for node_id, host, port in brokers:
            self._by_endpoint[host, port] = node_id
            self._by_port[port] = node_id
        recorded = tuple(sorted({node_id for node_id, _, _ in brokers}))
        if recorded and recorded != self._recorded:
            self._recorded = recorded
            if len(recorded) != len(self._nodes):
                self._meaning.nodes = len(recorded), len(self._nodes)
            for rank, node_id in enumerate(recorded):
                stands_in = node_id
                if self._nodes and node_id not in self._nodes:
                    stands_in = self._nodes[min(rank, len(self._nodes) - 1)]
                self._meaning.tell(Kind.NODE, node_id, stands_in)

    def node(self, connection: Connection) -> int | None:
        """Return which node a recorded connection goes to, None where nobody knows."""
        node_id = connection.node_id
        if node_id is None or node_id < 0:
            broker = connection.broker
            node_id = self._by_endpoint.get(
                (broker.host, broker.port), self._by_port.get(broker.port)
            )
        if node_id is None or node_id in self._nodes:
            return node_id
        meant = self._meaning.translate(Kind.NODE, Scope(), node_id)
        return meant if isinstance(meant, int) and meant in self._nodes else None
