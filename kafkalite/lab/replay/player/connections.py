"""`TargetConnections`: the connections of a replay to its target.

Each recorded connection has one connection to every node of the target that gets its requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from kafkalite.client.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.client.access import Access
    from kafkalite.server.addresses import Address

_MAX_CLOSING_CONNECTIONS = 100


class TargetConnections:
    """The connections of one replay, by recorded connection and node of the target."""

    def __init__(self, address: Callable[[int], Address], access: Access, timeout_s: float) -> None:
        """`address` returns the address of a node; `timeout_s` limits the time to connect."""
        self._address = address
        self._access = access
        self._timeout_s = timeout_s
        self._open: dict[int, dict[int, Connection]] = {}
        self._closing: deque[Connection] = deque(maxlen=_MAX_CLOSING_CONNECTIONS)
        self._unflushed: Connection | None = None
        self.opened_count = 0
        """Number of connections opened so far."""

    async def get(self, number: int, node: int) -> Connection:
        """Return the connection to a node for a recorded connection; open it if necessary.

        Requests on the previously used connection are flushed first, so that all stay in order.
        """
        by_node = self._open.get(number)
        connection = None if by_node is None else by_node.get(node)
        if connection is None or connection.is_lost:
            self.flush()
            address = self._address(node)
            connection = await Connection.open(address, self._access, timeout_s=self._timeout_s)
            self._open.setdefault(number, {})[node] = connection
            self.opened_count += 1
        if connection is not self._unflushed:
            self.flush()
            self._unflushed = connection
        return connection

    def flush(self) -> None:
        """Flush the requests on the connection that was used last."""
        if self._unflushed is not None:
            self._unflushed.flush()
            self._unflushed = None

    def close(self, number: int) -> None:
        """Close the connections that belong to a recorded connection."""
        self.flush()
        for connection in self._open.pop(number, {}).values():
            connection.close()
            self._closing.append(connection)

    async def close_all(self) -> None:
        """Close all connections, and wait until they are closed."""
        for number in list(self._open):
            self.close(number)
        await asyncio.gather(*(connection.wait_closed() for connection in self._closing))
