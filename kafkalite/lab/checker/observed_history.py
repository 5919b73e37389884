"""Histories of running brokers: an observer of their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.checker.collecting import Collector, Observation
from kafkalite.lab.checker.history import Client, Event, Proof
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND

if TYPE_CHECKING:
    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.gateway.exchanges import Exchange
    from kafkalite.lab.checker.history import History

MAX_REQUESTS: Final = 1_000_000
"""Requests after these are counted, but not checked, because a history is in memory."""

_TOO_MANY: Final = f"requests after the first {MAX_REQUESTS}"


class _Connection:
    """The number of a connection, and of its requests."""

    __slots__ = ("context", "number", "requests")

    def __init__(self, context: ConnectionContext, number: int) -> None:
        self.context = context  # it keeps its id
        self.number = number
        self.requests = 0


class ObservedHistory:
    """Collects the history of a broker; `observe` is an observer of its exchanges.

    A clock that is stopped gives the same time to many requests, so each event is at least a
    nanosecond later than the one before.
    """

    def __init__(self) -> None:
        self._collector = Collector()
        self._connections: dict[int, _Connection] = {}
        self._pending: dict[int, int] = {}
        """Exchange that waits for its answer → time at which it was sent."""
        self._latest_ns = 0
        self._requests = 0

    def observe(self, exchange: Exchange) -> None:
        """Add a request and its answer to the history."""
        sent_ns = self._pending.pop(id(exchange), 0) or self._next_ns(exchange.received_ms)
        if exchange.is_pending:
            self._pending[id(exchange)] = sent_ns
            return
        self._requests += 1
        if self._requests > MAX_REQUESTS:
            self._collector.leave_undecided(_TOO_MANY)
            return
        response = exchange.response
        answered_ms = exchange.answered_ms or exchange.received_ms
        answered_ns = None if response is None else self._next_ns(answered_ms)
        event = self._event(exchange, sent_ns, answered_ns)
        self._collector.add(Observation(exchange.api_key, exchange.request, response, event))

    def history(self) -> History:
        """Return the history up to now."""
        return self._collector.finish()

    def _next_ns(self, now_ms: int) -> int:
        self._latest_ns = max(now_ms * NANOSECONDS_PER_MILLISECOND, self._latest_ns + 1)
        return self._latest_ns

    def _event(self, exchange: Exchange, sent_ns: int, answered_ns: int | None) -> Event:
        context = exchange.context
        connection = self._connections.get(id(context))
        if connection is None:
            connection = _Connection(context, len(self._connections))
            self._connections[id(context)] = connection
        host, node = context.client_host.removeprefix("/"), f"node {context.node.id}"
        place = f"connection {connection.number} of {host} to {node}"
        proof = Proof("", -1, place, connection.requests)
        connection.requests += 1
        return Event(
            client=Client(exchange.client_id or "", host),
            connection=connection.number,
            sent_ns=sent_ns,
            answered_ns=answered_ns,
            broker=node,
            proof=proof,
        )
