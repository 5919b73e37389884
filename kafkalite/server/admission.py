"""Admission: limits on the number of connections of a node, and closing of idle ones.

Kafka stops accepting at `max.connections`. A client can still connect, because the kernel has a
backlog, but it gets no answer until another client disconnects. Here such connections are accepted
and queued, which looks the same to clients. A connection beyond `max.connections.per.ip`, or
beyond the override for its address, is closed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import TYPE_CHECKING

from kafkalite.server.logging import Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.server.connection import Connection

MAX_QUEUED_CONNECTIONS = 4096
"""The maximum number of queued connections, equal to the backlog of the listening socket."""

_TICKS_PER_IDLE_TIME = 8


class Admission:
    """The connections of one node.

    Idle time is measured in ticks, eight per `connections.max.idle.ms`. Storing the current tick
    costs an active connection almost nothing, and an idle connection is closed at most one tick
    too late.
    """

    __slots__ = (
        "_admitted",
        "_clock",
        "_config",
        "_connections",
        "_counts_by_host",
        "_max_idle_ms",
        "_queue",
        "_timer",
        "is_empty",
        "tick",
    )  # fmt: skip

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._connections: set[Connection] = set()
        self._admitted: set[Connection] = set()
        self._queue: deque[Connection] = deque()
        self._counts_by_host: Counter[str] = Counter()
        self._max_idle_ms = config.int("connections.max.idle.ms")
        self._timer: Timer | None = None
        self.tick = 0
        self.is_empty = asyncio.Event()
        """Set while there are no connections."""
        self.is_empty.set()

    def __iter__(self) -> Iterator[Connection]:
        """Yield every connection, including queued ones."""
        return iter(tuple(self._connections))

    def start(self) -> None:
        """Begin to check for idle connections, unless `connections.max.idle.ms` is below 0."""
        if self._max_idle_ms >= 0:
            self._start_tick()

    def stop(self) -> None:
        """Stop checking for idle connections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add(self, connection: Connection) -> None:
        """Admit, queue or close a new connection."""
        self._connections.add(connection)
        self.is_empty.clear()
        self._counts_by_host[connection.host] += 1
        connection.last_active_tick = self.tick
        max_connections = self._max_connections_of(connection.host)
        if self._counts_by_host[connection.host] > max_connections:
            connection.close(f"more than max.connections.per.ip={max_connections} from one address")
        elif self._has_capacity:
            self._admit(connection)
        elif len(self._queue) < MAX_QUEUED_CONNECTIONS:
            self._queue.append(connection)
        else:
            connection.close(
                f"{MAX_QUEUED_CONNECTIONS} connections are queued already (max.connections)"
            )

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection, and admit the next one in the queue.

        Does nothing for a connection that was not added.
        """
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        host = connection.host
        self._counts_by_host[host] -= 1
        if not self._counts_by_host[host]:
            del self._counts_by_host[host]
        if connection in self._admitted:
            self._admitted.remove(connection)
        elif connection in self._queue:
            self._queue.remove(connection)
        while self._queue and self._has_capacity:
            self._admit(self._queue.popleft())
        if not self._connections:
            self.is_empty.set()

    def _max_connections_of(self, host: str) -> int:
        """Return the maximum number of connections of an address; overrides name IP addresses."""
        for override in self._config.str("max.connections.per.ip.overrides").split(","):
            address, _, count = override.strip().rpartition(":")
            # `host` is empty if the client reset the connection before it was accepted. An empty
            # override must not match it.
            if count and address.strip() == host:
                return int(count)
        return self._config.int("max.connections.per.ip")

    @property
    def _has_capacity(self) -> bool:
        return len(self._admitted) < self._config.int("max.connections")

    def _admit(self, connection: Connection) -> None:
        self._admitted.add(connection)
        connection.admit()

    def _start_tick(self) -> None:
        """Begin a tick: close the connections idle for too long, and schedule the next tick."""
        self.tick += 1
        for connection in self:
            if connection.is_idle(self.tick - _TICKS_PER_IDLE_TIME):
                # A jump of the clock makes all clients idle, so this is not worth a warning.
                reason = f"idle for connections.max.idle.ms={self._max_idle_ms}"
                connection.close(reason, Level.INFO)
        tick_length_ms = max(1, self._max_idle_ms // _TICKS_PER_IDLE_TIME)
        next_ms = self._clock.periodic_deadline_ms(self._clock.now_ms() + tick_length_ms)
        self._timer = self._clock.call_at(next_ms, self._start_tick)
