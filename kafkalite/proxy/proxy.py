"""Proxy: listeners for a whole cluster, and all that goes through them on record."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.proxy.link import UNKNOWN_NODE, Link, Surroundings, Totals, Way
from kafkalite.proxy.nodes import Nodes, is_here
from kafkalite.proxy.rewriting import BROKERS
from kafkalite.server.addresses import Address, AddressError, ListenerSpec
from kafkalite.server.listener import BACKLOG, bind

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.proxy.link import Recorder
    from kafkalite.proxy.rewriting import Node
    from kafkalite.server.logging import Log

MAX_REQUEST_BYTES = 100 * 1024 * 1024
"""Kafka's own default of socket.request.max.bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Where a proxy stands."""

    upstream: Sequence[Address]
    """Where the cluster is found: the first that answers is taken."""
    listen: Address
    """Where clients find the cluster; nodes take the ports behind."""
    advertised: Address | None = None
    """What clients are told instead; port 0: the one that is listened at."""
    node_ports: Mapping[int, int] = field(default_factory=dict)
    """The port of a node by its id, for those that shall not take the next."""
    client_tls: ssl.SSLContext | None = None
    upstream_tls: ssl.SSLContext | None = None
    max_request_bytes: int = MAX_REQUEST_BYTES


class Proxy:
    """Stands between clients and a cluster from `start` to `stop`."""

    def __init__(self, settings: ProxySettings, log: Log) -> None:
        """Bind; AddressError when the address cannot be had, or is the cluster's."""
        for address in settings.upstream:
            if is_here(address, settings.listen):
                raise AddressError(f"{address} is where the cluster is: listen elsewhere")
        self._settings = settings
        self._log = log
        self._sockets = bind(settings.listen)
        port: int = self._sockets[0].getsockname()[1]
        self.bound = Address(settings.listen.host, port)
        """Where it listens for those who do not know the cluster yet."""
        self.bootstrap = ListenerSpec("PROXY", self.bound, settings.advertised).told(port, 0)
        """The same, as clients are told."""
        self._nodes = Nodes(
            settings.listen, settings.advertised, settings.node_ports, self._open_node
        )
        self._surroundings = Surroundings(
            log=log,
            tell=self._nodes.tell,
            upstream_tls=settings.upstream_tls,
            max_request_bytes=settings.max_request_bytes,
        )
        self._servers: list[asyncio.Server] = []
        self._opening: set[asyncio.Task[None]] = set()

    @property
    def totals(self) -> Totals:
        """What has gone through it; of connections that are open, not the requests."""
        return self._surroundings.totals

    def unbind(self) -> None:
        """Give the address back, where it is not started any more."""
        for bound in self._sockets:
            bound.close()
        self._sockets.clear()

    async def start(self, recorder: Recorder) -> None:
        """Let clients in, and have recorded what they do."""
        self._surroundings.recorder = recorder
        sockets, self._sockets = self._sockets, []
        await self._serve(sockets, self._way(lambda: self._settings.upstream, self._node_at))

    async def stop(self) -> None:
        """Let nobody in any more, and close all connections."""
        for task in tuple(self._opening):
            await asyncio.wait((task,))
        for server in self._servers:
            server.close()
        self.unbind()
        for link in tuple(self._surroundings.links):
            link.end()
        await self.drained()

    async def drained(self) -> None:
        """Wait until there are no connections."""
        await self._surroundings.is_empty.wait()

    def _node_at(self, address: Address) -> int:
        node_id = self._nodes.node_id_at(address)
        return UNKNOWN_NODE if node_id is None else node_id

    def _open_node(self, node: Node, sockets: list[socket.socket]) -> None:
        """Let clients in to a node; those who come before the loop has done so wait in line."""
        way = self._way(lambda: self._nodes.upstreams(node), lambda _: _recorded_id(node))
        task = asyncio.get_running_loop().create_task(self._serve(sockets, way))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        self._log.info("node found", node=node.node_id, listen_port=sockets[0].getsockname()[1])

    def _way(
        self, addresses: Callable[[], Sequence[Address]], node_id: Callable[[Address], int]
    ) -> Way:
        return Way(surroundings=self._surroundings, addresses=addresses, node_id=node_id)

    async def _serve(self, sockets: Sequence[socket.socket], way: Way) -> None:
        loop = asyncio.get_running_loop()
        for bound in sockets:
            server = await loop.create_server(
                lambda: Link(way).client,
                sock=bound,
                backlog=BACKLOG,
                ssl=self._settings.client_tls,
            )
            self._servers.append(server)


def _recorded_id(node: Node) -> int:
    return node.node_id if node.kind == BROKERS else UNKNOWN_NODE
