"""Who may talk to a node, and for how long: connection limits and idle connections.

Kafka stops accepting at `max.connections`: a client's connect succeeds, for the kernel has a
backlog, but nobody answers until another client leaves. Here the surplus is accepted and waits in
line, which looks the same from outside. Beyond `max.connections.per.ip`, or what its overrides say
of an address, a connection is closed.
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

MAX_WAITING = 4096
"""Connections that may wait in line; as many as the listening socket's backlog holds."""

_BEATS_PER_IDLE_TIME = 8


class Admission:
    """The connections of one node.

    Time is told in beats, eight of them to `connections.max.idle.ms`: to note a beat costs a busy
    connection nothing, and an idle one is closed at most an eighth of the time too late.
    """

    __slots__ = (
        "_admitted", "_clock", "_config", "_connections", "_line", "_max_idle_ms", "_per_host",
        "_timer", "beat", "is_empty",
    )  # fmt: skip

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._connections: set[Connection] = set()
        self._admitted: set[Connection] = set()
        self._line: deque[Connection] = deque()
        self._per_host: Counter[str] = Counter()
        self._max_idle_ms = config.int("connections.max.idle.ms")
        self._timer: Timer | None = None
        self.beat = 0
        self.is_empty = asyncio.Event()
        """Set while there are no connections."""
        self.is_empty.set()

    def __iter__(self) -> Iterator[Connection]:
        """Every connection, those that wait in line included."""
        return iter(tuple(self._connections))

    def start(self) -> None:
        """Begin to look for idle connections, unless `connections.max.idle.ms` is below 0."""
        if self._max_idle_ms >= 0:
            self._next_beat()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def arrive(self, connection: Connection) -> None:
        """Admit a connection, put it in line, or close it."""
        self._connections.add(connection)
        self.is_empty.clear()
        self._per_host[connection.host] += 1
        connection.last_beat = self.beat
        per_host = self._most_of(connection.host)
        if self._per_host[connection.host] > per_host:
            connection.close(f"more than max.connections.per.ip={per_host} from one address")
        elif self._has_place:
            self._admit(connection)
        elif len(self._line) < MAX_WAITING:
            self._line.append(connection)
        else:
            connection.close(f"{MAX_WAITING} connections wait for a place already")

    def leave(self, connection: Connection) -> None:
        """Forget a connection, and let the next in line take its place."""
        self._connections.discard(connection)
        host = connection.host
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        if connection in self._admitted:
            self._admitted.remove(connection)
        elif connection in self._line:
            self._line.remove(connection)
        while self._line and self._has_place:
            self._admit(self._line.popleft())
        if not self._connections:
            self.is_empty.set()

    def _most_of(self, host: str) -> int:
        """Return how many connections one address may have; overrides name it by its number."""
        for override in self._config.str("max.connections.per.ip.overrides").split(","):
            address, _, count = override.strip().rpartition(":")
            # A client that reset its connection before we saw it has no address any more.
            if count and address.removeprefix("[").removesuffix("]") == host:
                return int(count)
        return self._config.int("max.connections.per.ip")

    @property
    def _has_place(self) -> bool:
        return len(self._admitted) < self._config.int("max.connections")

    def _admit(self, connection: Connection) -> None:
        self._admitted.add(connection)
        connection.admit()

    def _next_beat(self) -> None:
        """Close who has been silent for longer than the limit, and set the next beat."""
        self.beat += 1
        for connection in self:
            if connection.is_idle(self.beat - _BEATS_PER_IDLE_TIME):
                # Nobody did anything wrong: a jump of time makes everybody silent.
                reason = f"idle for connections.max.idle.ms={self._max_idle_ms}"
                connection.close(reason, Level.INFO)
        beat_ms = max(1, self._max_idle_ms // _BEATS_PER_IDLE_TIME)
        next_ms = self._clock.tick_ms(self._clock.now_ms() + beat_ms)
        self._timer = self._clock.call_at(next_ms, self._next_beat)
