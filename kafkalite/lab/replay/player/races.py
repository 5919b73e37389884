"""`Races`: detects concurrent requests of several connections of which at least one is a write.

A broker processes such requests in any order, and their responses depend on the order.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.catalogue import ChangedState, keys_where

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange

_WRITE_APIS = keys_where(
    lambda row: (
        row.changes
        in {
            ChangedState.RECORDS,
            ChangedState.OFFSETS,
            ChangedState.MEMBERS,
            ChangedState.TRANSACTIONS,
            ChangedState.TOPICS,
        }
    )
)
"""APIs of writes: requests that change the responses to other clients."""


class RequestInFlight(NamedTuple):
    """A request that has no response yet."""

    connection: int
    is_write: bool
    had_concurrent_writes: bool
    """Whether writes of other connections were pending when it was sent."""
    write_count: int
    """Number of writes sent by then, including this one if it is a write."""


class Races:
    """Detects races between requests in constant time per request."""

    def __init__(self) -> None:
        self._pending_writes: Counter[int] = Counter()
        """Connection → number of its pending writes."""
        self._write_count = 0
        """Number of writes so far; each write is numbered by the count after it."""
        self._last_write_connection = -1
        self._last_write_of_others = 0
        """Number of the last write that was not sent on `_last_write_connection`."""

    def begin(self, exchange: Exchange) -> RequestInFlight:
        """Add a request that is about to be sent."""
        connection, is_write = exchange.connection.number, exchange.api_key in _WRITE_APIS
        had_concurrent_writes = len(self._pending_writes) > (connection in self._pending_writes)
        if is_write:
            self._pending_writes[connection] += 1
            if connection != self._last_write_connection:
                self._last_write_connection, self._last_write_of_others = (
                    connection,
                    self._write_count,
                )
            self._write_count += 1
        return RequestInFlight(connection, is_write, had_concurrent_writes, self._write_count)

    def end(self, request: RequestInFlight) -> bool:
        """Remove a request that was answered; return whether it raced with other connections."""
        connection = request.connection
        if request.is_write:
            self._pending_writes[connection] -= 1
            if not self._pending_writes[connection]:
                del self._pending_writes[connection]
        last_write_of_others = (
            self._last_write_of_others
            if connection == self._last_write_connection
            else self._write_count
        )
        return request.had_concurrent_writes or last_write_of_others > request.write_count
