"""The endpoints of connections as columns, looked up by the number of the connection.

A connection's columns are built once, and again when its state changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from kafkalite.lab.columnar.arrays import byte_array, read_only
from kafkalite.lab.columnar.byte_columns import text_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.lab.columnar.arrays import Ints

_UNKNOWN_NODE = -1 << 63
"""Represents an unknown node id. -1 is a valid node id."""
_CONNECTION_ROW, _NODE_ROW, _START_ROWS, _SIZE_ROWS = 0, 1, 2, 4


class ConnectionInfo(Protocol):
    """A connection with two endpoints."""

    @property
    def endpoint_names(self) -> tuple[str, str]:
        """The endpoints of the client and of the broker, as text."""

    @property
    def node_id(self) -> int | None:
        """The broker's node id, None if unknown."""

    @property
    def connection_id(self) -> int:
        """The connection's id."""


class EndpointColumns:
    """The endpoints of connections as columns; connections may change, and more may be added."""

    __slots__ = ("_connections", "_table", "_text", "stale")

    def __init__(self, connections: Sequence[ConnectionInfo]) -> None:
        self._connections = connections
        self.stale = set(range(len(connections)))
        """Numbers of the connections whose columns must be built."""
        self._table = np.zeros((_SIZE_ROWS + 2, 0), np.int64)
        """One column per connection: its id, the node id, the starts of both endpoints in `_text`,
        and their sizes."""
        self._text = np.zeros(0, np.uint8)

    def columns(self, rows: Ints) -> dict[str, Any]:
        """Return the columns that describe connections, for rows with these connection numbers."""
        if self.stale:
            self._build()
        table, text = self._table.take(rows, axis=1), read_only(self._text)
        node = table[_NODE_ROW]
        client, broker = (
            text_column(text, table[_START_ROWS + side], table[_SIZE_ROWS + side])
            for side in (0, 1)
        )
        return {
            "connection": pa.array(table[_CONNECTION_ROW]),
            "client": client,
            "broker": broker,
            "node_id": pa.array(node.astype(np.int32), mask=node == _UNKNOWN_NODE),
        }

    def _build(self) -> None:
        new_count = len(self._connections) - self._table.shape[1]
        new_columns = np.zeros((len(self._table), new_count), np.int64)
        self._table = np.concatenate([self._table, new_columns], axis=1)
        text_bytes, parts = len(self._text), []
        numbers = sorted(self.stale)
        for number in numbers:
            connection = self._connections[number]
            node = _UNKNOWN_NODE if connection.node_id is None else connection.node_id
            client, broker = (name.encode() for name in connection.endpoint_names)
            parts += [client, broker]
            starts = text_bytes, text_bytes + len(client)
            self._table[:, number] = (
                connection.connection_id,
                node,
                *starts,
                len(client),
                len(broker),
            )
            text_bytes += len(client) + len(broker)
        self._text = np.concatenate([self._text, byte_array(b"".join(parts))])
        self.stale.clear()
