"""Admission: limits on the connections of a node, and closing of idle ones.

Kafka accepts the connections of a listener one after the other, and stops at `max.connections` and,
for a while, at `max.connection.creation.rate`. A client can still connect, because the kernel has a
backlog, but it gets no answer. Here such connections are accepted, queued and not read, which looks
the same to clients. A connection beyond `max.connections.per.ip`, or beyond the override for its
address, is closed. One beyond the rate of its address is closed when its throttle time is over.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.security.client_addresses import canonical_address
from kafkalite.security.quotas import (
    CONNECTION_CREATION_RATE,
    UNLIMITED_CONNECTIONS,
    ConnectionRates,
)
from kafkalite.server.logging import Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.security.quotas import WindowedRate
    from kafkalite.server.connection import Connection

MAX_QUEUED_CONNECTIONS = 4096
"""The maximum number of queued connections of a listener, equal to the backlog of its socket; and
of connections of a node that wait to be closed."""

_TICKS_PER_IDLE_TIME = 8
_MAX_CONNECTIONS = "max.connections"
_CREATION_RATE = "max.connection.creation.rate"


class _Acceptor:
    """The connections of one listener that are not accepted yet, the next one first."""

    __slots__ = ("count", "is_protected", "name", "prefix", "queue", "rates", "timer")

    def __init__(self, name: str, *, is_protected: bool) -> None:
        self.name = name
        self.prefix = f"listener.name.{name.lower()}."
        self.is_protected = is_protected
        """Whether the limits of the node do not apply: this is the listener for other nodes."""
        self.count = 0
        """The number of admitted connections."""
        self.queue: deque[Connection] = deque()
        self.rates: Sequence[WindowedRate] | None = None
        """The rates that have counted the next connection; None if it was not counted."""
        self.timer: Timer | None = None
        """Set while the listener is throttled."""


class Admission:
    """The connections of one node.

    Idle time is measured in ticks, eight per `connections.max.idle.ms`. Storing the current tick
    costs an active connection almost nothing, and an idle connection is closed at most one tick
    too late.
    """

    __slots__ = (
        "_acceptors",
        "_admitted",
        "_clock",
        "_config",
        "_connections",
        "_counts_by_host",
        "_is_stopped",
        "_max_idle_ms",
        "_rates",
        "_refused",
        "_timer",
        "is_empty",
        "tick",
    )  # fmt: skip

    def __init__(self, config: BrokerConfig, clock: Clock, listeners: Sequence[str]) -> None:
        """Create the admission of a node without connections; `listeners` are the names."""
        self._config = config
        self._clock = clock
        protected = _inter_broker_listener(config) if len(listeners) > 1 else None
        self._acceptors = {
            name: _Acceptor(name, is_protected=name == protected) for name in listeners
        }
        self._connections: dict[Connection, None] = {}
        """The connections, the oldest first."""
        self._admitted: dict[Connection, _Acceptor] = {}
        """In the order of admission."""
        self._refused: dict[Connection, Timer] = {}
        """Connections beyond the rate of their address, which are closed later."""
        self._counts_by_host: Counter[str] = Counter()
        self._rates = ConnectionRates(
            config.int("quota.window.num"), config.int("quota.window.size.seconds")
        )
        self._max_idle_ms = config.int("connections.max.idle.ms")
        self._timer: Timer | None = None
        self._is_stopped = False
        self.tick = 0
        self.is_empty = asyncio.Event()
        """Set while there are no connections."""
        self.is_empty.set()

    def __iter__(self) -> Iterator[Connection]:
        """Yield every connection, including queued ones."""
        return iter(tuple(self._connections))

    def start(self) -> None:
        """Begin to check for idle connections, unless `connections.max.idle.ms` is below 0."""
        self._is_stopped = False
        if self._max_idle_ms >= 0:
            self._start_tick()

    def stop(self) -> None:
        """Stop checking for idle connections, and accept no queued ones."""
        self._is_stopped = True
        timers = [self._timer, *self._refused.values()]
        self._timer = None
        for acceptor in self._acceptors.values():
            timers.append(acceptor.timer)
            acceptor.timer = None
        for timer in timers:
            if timer is not None:
                timer.cancel()

    def add(self, connection: Connection) -> None:
        """Admit, queue or close a new connection."""
        self._connections[connection] = None
        self.is_empty.clear()
        connection.last_active_tick = self.tick
        acceptor = self._acceptors[connection.listener]
        if len(acceptor.queue) >= MAX_QUEUED_CONNECTIONS:
            connection.close(
                f"{MAX_QUEUED_CONNECTIONS} connections are queued already ({_MAX_CONNECTIONS}, "
                f"{_CREATION_RATE})"
            )
            return
        acceptor.queue.append(connection)
        self._accept_next(acceptor)
        if acceptor.queue:
            connection.hold()

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection, and admit the next ones that are queued.

        Does nothing for a connection that was not added.
        """
        if connection not in self._connections:
            return
        del self._connections[connection]
        acceptor = self._admitted.pop(connection, None)
        if acceptor is not None:
            acceptor.count -= 1
            host = connection.host
            self._counts_by_host[host] -= 1
            if not self._counts_by_host[host]:
                del self._counts_by_host[host]
            self._accept_all()
        elif connection in self._refused:
            self._refused.pop(connection).cancel()
        else:
            self._remove_queued(self._acceptors[connection.listener], connection)
        if not self._connections:
            self.is_empty.set()

    def apply_settings(self) -> None:
        """Apply changed limits: accept queued connections, or close those beyond the limit."""
        self._accept_all()
        self._close_excess()

    def _accept_all(self) -> None:
        for acceptor in self._acceptors.values():
            if acceptor.queue:
                self._accept_next(acceptor)

    def _remove_queued(self, acceptor: _Acceptor, connection: Connection) -> None:
        queue = acceptor.queue
        if connection in queue:
            if queue[0] is connection:
                # The next connection is counted when the throttle time of this one is over.
                acceptor.rates = None
            queue.remove(connection)
            self._accept_next(acceptor)

    def _accept_next(self, acceptor: _Acceptor) -> None:
        """Accept connections until one has to wait, as Kafka's Acceptor does."""
        queue = acceptor.queue
        while queue and acceptor.timer is None and not self._is_stopped:
            if acceptor.rates is None:
                throttle_ms = self._count(acceptor)
                if throttle_ms:
                    queue[0].report_throttle(_CREATION_RATE, throttle_ms)
                    deadline_ms = self._clock.now_ms() + throttle_ms
                    acceptor.timer = self._clock.call_at(
                        deadline_ms, partial(self._end_throttle, acceptor)
                    )
                    return
            if not self._has_slot(acceptor):
                return
            rates, acceptor.rates = acceptor.rates or (), None
            self._accept(acceptor, queue.popleft(), rates)

    def _end_throttle(self, acceptor: _Acceptor) -> None:
        acceptor.timer = None
        self._accept_next(acceptor)

    def _count(self, acceptor: _Acceptor) -> int:
        """Count the next connection, and return for how long the listener is throttled."""
        limits = [(acceptor.name, self._limit(acceptor, _CREATION_RATE))]
        if not acceptor.is_protected:
            limits.append(("", self._config.int(_CREATION_RATE)))
        now_ms = self._clock.now_ms()
        acceptor.rates = rates = self._rates.of_limits(limits, now_ms)
        return self._rates.record(rates, now_ms)

    def _accept(
        self, acceptor: _Acceptor, connection: Connection, rates: Sequence[WindowedRate]
    ) -> None:
        """Admit a connection, unless its address has too many or connects too often."""
        host, now_ms = connection.host, self._clock.now_ms()
        address_rates = self._rates.of_address(connection.client_quotas, host, now_ms)
        throttle_ms = self._rates.record(address_rates, now_ms) if address_rates else 0
        if throttle_ms:
            # A refused connection does not count.
            self._rates.take_back((*address_rates, *rates), now_ms)
            self._close_later(connection, now_ms, throttle_ms)
            return
        max_connections = self._max_connections_of(host)
        if self._counts_by_host[host] >= max_connections:
            connection.close(f"more than max.connections.per.ip={max_connections} from one address")
            return
        self._counts_by_host[host] += 1
        acceptor.count += 1
        self._admitted[connection] = acceptor
        connection.last_active_tick = self.tick
        connection.admit()
        if acceptor.is_protected:
            self._close_excess()

    def _close_later(self, connection: Connection, now_ms: int, throttle_ms: int) -> None:
        """Close a connection when its throttle time is over, so that its client cannot hurry."""
        if len(self._refused) >= MAX_QUEUED_CONNECTIONS:
            connection.close(f"too many throttled connections ({CONNECTION_CREATION_RATE})")
            return
        connection.report_throttle(CONNECTION_CREATION_RATE, throttle_ms)
        connection.hold()
        self._refused[connection] = self._clock.call_at(now_ms + throttle_ms, connection.close)

    def _close_excess(self) -> None:
        """Close the least recently used connections beyond `max.connections`.

        There are such connections if the limit was lowered, or those of the protected listener
        leave no room for others, which is why theirs remain.
        """
        limit = self._config.int(_MAX_CONNECTIONS)
        if len(self._admitted) <= limit:
            return
        is_closing = {each: each.transport.is_closing() for each in self._admitted}
        excess = len(is_closing) - sum(is_closing.values()) - limit
        candidates = [
            connection
            for connection, acceptor in self._admitted.items()
            if not acceptor.is_protected and not is_closing[connection]
        ]
        candidates.sort(key=lambda each: each.last_active_tick)
        for connection in candidates[: max(excess, 0)]:
            connection.close(f"more than {_MAX_CONNECTIONS}={limit}")

    def _max_connections_of(self, host: str) -> int:
        """Return the maximum number of connections of an address; overrides name IP addresses."""
        overrides = self._config.str("max.connections.per.ip.overrides")
        address_of_host = canonical_address(host) if overrides else host
        for override in overrides.split(","):
            address, _, count = override.strip().rpartition(":")
            # `host` is empty if the client reset the connection before it was accepted. An empty
            # override must not match it.
            if count and canonical_address(address.strip(" []")) == address_of_host:
                return int(count)
        return self._config.int("max.connections.per.ip")

    def _limit(self, acceptor: _Acceptor, key: str) -> int:
        """Return the value of a key for a listener, which is the node's value by default."""
        try:
            value = self._config.get(acceptor.prefix + key)
        except KeyError:
            return self._config.int(key)
        return value if isinstance(value, int) else UNLIMITED_CONNECTIONS

    def _has_slot(self, acceptor: _Acceptor) -> bool:
        if acceptor.count >= self._limit(acceptor, _MAX_CONNECTIONS):
            return False
        return acceptor.is_protected or len(self._admitted) < self._config.int(_MAX_CONNECTIONS)

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


def _inter_broker_listener(config: BrokerConfig) -> str:
    """Return the name of the listener for connections between nodes."""
    name = config.get("inter.broker.listener.name") or config.str("security.inter.broker.protocol")
    return str(name).upper()
