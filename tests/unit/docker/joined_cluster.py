"""A cluster of a broker and relays in one event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalite.docker.cluster_messages import Registration
from kafkalite.docker.membership import Membership
from kafkalite.docker.primary import Primary
from kafkalite.docker.relay import Relay, RelayedListener
from kafkalite.server.addresses import Address
from kafkalite.server.broker import Broker
from kafkalite.server.listener import bind
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.oracle.target import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.docker.cluster_messages import Admission, RequestedTopic

HOST = "127.0.0.1"
ANY_PORT = f"{HOST}:0"
_CLOSING_ITERATIONS = 3
"""Iterations of the event loop in which both ends of a closed connection are released."""


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until a condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - sockets change it
            await asyncio.sleep(0.01)


class RelayedNode:
    """A relay, and what it reports."""

    def __init__(self, membership: Membership, registration: Registration) -> None:
        self.lines: list[str] = []
        self.admissions: list[Admission] = []
        self.is_ready = asyncio.Event()
        self.stop_requested = asyncio.Event()
        self.address = "".join(registration.listen[:1]).partition("://")[2]
        listeners = [
            RelayedListener(address.listener or "", address)
            for address in map(Address.parse, registration.listen)
        ]
        relay = Relay(membership, registration, listeners, self.lines.append, self._ready)
        self.run = asyncio.ensure_future(relay.run(self.stop_requested))

    def _ready(self, admission: Admission) -> None:
        self.admissions.append(admission)
        self.is_ready.set()

    async def ready(self) -> RelayedNode:
        """Wait until clients are accepted."""
        await self.is_ready.wait()
        self.is_ready.clear()
        return self

    async def stop(self) -> int:
        """Stop as on a signal; return the exit status."""
        self.stop_requested.set()
        return await self.run

    async def kill(self) -> None:
        """End without a last message."""
        self.run.cancel()
        with suppress(asyncio.CancelledError):
            await self.run


class JoinedCluster:
    """A primary with node 1, and relays of other nodes."""

    def __init__(self, *, topics: Sequence[RequestedTopic] = (), secret: str = "") -> None:
        self.membership = Membership(HOST, free_port(), True, "VOTERS", 1, 3, secret)
        self._topics = topics
        self.broker: Broker
        self._relays: list[RelayedNode] = []

    async def start(self, settings: Settings | None = None, controllers: str = "") -> None:
        """Start the primary; `controllers` is its address for clients of the controller."""
        self.broker = broker = Broker(
            settings or Settings(listen=(ANY_PORT,), expected_brokers=3), Log(Level.ERROR)
        )
        await broker.start()
        self._primary = Primary(self.membership, broker, broker.log, self._topics)
        self._primary.stop_absent_nodes()
        self._primary.start(
            bind(Address(HOST, self.membership.port)),
            bind(Address.parse(controllers)) if controllers else (),
        )
        await asyncio.sleep(0)

    async def close_primary(self) -> None:
        """Stop the primary: its process would end."""
        self._primary.close()
        await self.broker.stop(grace_s=0.1)

    def registration(self, node_id: int, **changes: object) -> Registration:
        """Return the registration of a node with one listener."""
        address = f"PLAINTEXT://{HOST}:{free_port()}"
        values: dict[str, object] = {
            "node_id": node_id, "host": f"kafka-{node_id}", "is_broker": True,
            "listen": (address,), "advertise": (address,), "config": {},
        }  # fmt: skip
        return Registration(**{**values, **changes})  # type: ignore[arg-type]  # checked by tests

    def relay(self, registration: Registration, *, secret: str | None = None) -> RelayedNode:
        """Start a relay."""
        membership = self.membership._replace(
            is_primary=False, secret=self.membership.secret if secret is None else secret
        )
        node = RelayedNode(membership, registration)
        self._relays.append(node)
        return node

    async def join(self, node_id: int, **changes: object) -> RelayedNode:
        """Return a relay that has joined."""
        return await self.relay(self.registration(node_id, **changes)).ready()

    async def close(self) -> None:
        """Stop everything."""
        for relay in self._relays:
            await relay.kill()
        self._primary.close()
        await self.broker.stop(grace_s=0.1)
        for _ in range(_CLOSING_ITERATIONS):
            await asyncio.sleep(0)
