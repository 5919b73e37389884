"""The endpoints of connections as columns, looked up by the number of the connection.

A connection's columns are built once, and again when its state changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from kafkalite.traffic.columnar.arrays import sealed, view
from kafkalite.traffic.columnar.byte_columns import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.traffic.columnar.arrays import Ints

_UNKNOWN_NODE = -1 << 63
"""Represents an unknown node id; -1 is a valid one."""
_CONNECTION, _NODE, _START, _SIZE = 0, 1, 2, 4


class ConnectionInfo(Protocol):
    """A connection with two endpoints."""

    @property
    def names(self) -> tuple[str, str]:
        """The client's endpoint, and the broker's."""

    @property
    def node_id(self) -> int | None:
        """The broker's node id, None if unknown."""

    @property
    def connection(self) -> int:
        """The connection's id."""


class Endpoints:
    """The endpoints of connections; connections may change, and more may be added."""

    __slots__ = ("_connections", "_table", "_text", "stale")

    def __init__(self, connections: Sequence[ConnectionInfo]) -> None:
        self._connections = connections
        self.stale = set(range(len(connections)))
        """Numbers of the connections whose columns must be built."""
        self._table = np.zeros((_SIZE + 2, 0), np.int64)
        """One column per connection: its id, the node id, and the position of both names."""
        self._text = np.zeros(0, np.uint8)

    def columns(self, rows: Ints) -> dict[str, Any]:
        """Return the connection columns of rows, given the numbers of their connections."""
        if self.stale:
            self._build()
        known, text = self._table.take(rows, axis=1), sealed(self._text)
        node = known[_NODE]
        client, broker = (
            text_of(text, known[_START + side], known[_SIZE + side]) for side in (0, 1)
        )
        return {
            "connection": pa.array(known[_CONNECTION]),
            "client": client,
            "broker": broker,
            "node_id": pa.array(node.astype(np.int32), mask=node == _UNKNOWN_NODE),
        }

    def _build(self) -> None:
        missing = len(self._connections) - self._table.shape[1]
        more = np.zeros((len(self._table), missing), np.int64)
        self._table = np.concatenate([self._table, more], axis=1)
        used, parts = len(self._text), []
        numbers = sorted(self.stale)
        for number in numbers:
            connection = self._connections[number]
            node = _UNKNOWN_NODE if connection.node_id is None else connection.node_id
            client, broker = (name.encode() for name in connection.names)
            parts += [client, broker]
            starts = used, used + len(client)
            self._table[:, number] = (
                connection.connection,
                node,
                *starts,
                len(client),
                len(broker),
            )
            used += len(client) + len(broker)
        self._text = np.concatenate([self._text, view(b"".join(parts))])
        self.stale.clear()
