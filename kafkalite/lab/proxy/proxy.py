"""`Proxy`: forwards and records the traffic of a cluster, with one listener per node."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.client.connection import SETUP_TIMEOUT_S
from kafkalite.lab.proxy.address_rewriting import BROKER_ENDPOINT_TYPE
from kafkalite.lab.proxy.nodes import Nodes, reaches_listener
from kafkalite.lab.proxy.proxied_connection import (
    UNKNOWN_NODE,
    ListenerRoute,
    ProxiedConnection,
    ProxyContext,
    Totals,
)
from kafkalite.lab.proxy.reachability import (
    Probe,
    ReachabilityLog,
    UnreachableError,
    connect_to_first,
)
from kafkalite.server.addresses import Address, AddressError, ListenerSpec
from kafkalite.server.listener import accept, bind

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.lab.proxy.address_rewriting import Node
    from kafkalite.lab.proxy.proxied_connection import Recorder
    from kafkalite.server.logging import Log

MAX_REQUEST_BYTES = 100 * 1024 * 1024
"""Maximum size of a request; Kafka's default of socket.request.max.bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """Addresses and limits of a proxy."""

    upstream: Sequence[Address]
    """Bootstrap addresses of the cluster; the first that accepts a connection is used."""
    listen: Address
    """The bootstrap address for clients; the nodes use the following ports."""
    advertised: Address | None = None
    """The address for clients, if it differs from `listen`; port 0 stands for the bound port."""
    node_ports: Mapping[int, int] = field(default_factory=dict)
    """Node id → port, for nodes with a fixed port; the others use the next free port."""
    client_tls: ssl.SSLContext | None = None
    upstream_tls: ssl.SSLContext | None = None
    max_request_bytes: int = MAX_REQUEST_BYTES


class Proxy:
    """Forwards and records the traffic between clients and a cluster."""

    def __init__(self, settings: ProxySettings, log: Log) -> None:
        """Bind the bootstrap address.

        Raises AddressError if it is in use, or if it is an address of the cluster.
        """
        for address in settings.upstream:
            if reaches_listener(address, settings.listen):
                raise AddressError(
                    f"{address} is an address of the cluster; listen on another address"
                )
        self._settings = settings
        self._log = log
        self._sockets = bind(settings.listen)
        port: int = self._sockets[0].getsockname()[1]
        self.bound = Address(settings.listen.host, port)
        """The bound bootstrap address."""
        self.bootstrap = ListenerSpec("PROXY", self.bound, settings.advertised).advertised_address(
            port, 0
        )
        """The bootstrap address for clients."""
        self._nodes = Nodes(
            settings.listen, settings.advertised, settings.node_ports, self._serve_node
        )
        self._context = ProxyContext(
            log=log,
            proxy_addresses=self._nodes.proxy_addresses,
            upstream_tls=settings.upstream_tls,
            max_request_bytes=settings.max_request_bytes,
        )
        self._servers: list[asyncio.Server] = []
        self._reachability_logs: list[ReachabilityLog] = []
        self._probing: asyncio.Task[None] | None = None
        self._opening_tasks: set[asyncio.Task[None]] = set()

    @property
    def totals(self) -> Totals:
        """Totals of all connections; the requests of a connection are added when it is closed."""
        return self._context.totals

    def unbind(self) -> None:
        """Close the bound sockets of a proxy that is not started."""
        for bound in self._sockets:
            bound.close()
        self._sockets.clear()

    async def start(self, recorder: Recorder) -> None:
        """Start to accept clients, and to record their traffic.

        It also tests the connection to the cluster, and logs a failure without waiting for a
        client.
        """
        self._context.recorder = recorder
        sockets, self._sockets = self._sockets, []
        route = self._new_route(lambda: self._settings.upstream, self._node_id_at)
        await self._serve(sockets, route)
        self._probing = asyncio.get_running_loop().create_task(self._probe(route))

    async def stop(self) -> None:
        """Stop accepting clients, and close all connections."""
        if self._probing is not None:
            self._probing.cancel()
        for task in tuple(self._opening_tasks):
            await asyncio.wait((task,))
        for server in self._servers:
            server.close()
        self.unbind()
        for connection in tuple(self._context.connections):
            connection.close()
        await self.wait_closed()
        for reachability_log in self._reachability_logs:
            reachability_log.close()

    async def wait_closed(self) -> None:
        """Wait until all connections are closed."""
        await self._context.is_empty.wait()

    async def _probe(self, route: ListenerRoute) -> None:
        tls = self._settings.upstream_tls
        try:
            await connect_to_first(Probe, route.get_addresses(), tls, SETUP_TIMEOUT_S)
        except UnreachableError as error:
            route.reachability.report_failure(str(error))

    def _node_id_at(self, address: Address) -> int:
        node_id = self._nodes.node_id_at(address)
        return UNKNOWN_NODE if node_id is None else node_id

    def _serve_node(self, node: Node, sockets: list[socket.socket]) -> None:
        """Start to accept clients of a node; until then, connections wait in the listen backlog."""
        route = self._new_route(
            lambda: self._nodes.upstreams(node), lambda _: _recorded_node_id(node)
        )
        task = asyncio.get_running_loop().create_task(self._serve(sockets, route))
        self._opening_tasks.add(task)
        task.add_done_callback(self._opening_tasks.discard)
        self._log.info("node found", node=node.node_id, listen_port=sockets[0].getsockname()[1])

    def _new_route(
        self, get_addresses: Callable[[], Sequence[Address]], get_node_id: Callable[[Address], int]
    ) -> ListenerRoute:
        self._reachability_logs.append(ReachabilityLog(self._log))
        return ListenerRoute(
            context=self._context,
            get_addresses=get_addresses,
            get_node_id=get_node_id,
            reachability=self._reachability_logs[-1],
        )

    async def _serve(self, sockets: Sequence[socket.socket], route: ListenerRoute) -> None:
        loop = asyncio.get_running_loop()
        await accept(
            loop,
            lambda: ProxiedConnection(route).client,
            sockets,
            self._servers,
            self._settings.client_tls,
        )


def _recorded_node_id(node: Node) -> int:
    return node.node_id if node.endpoint_type == BROKER_ENDPOINT_TYPE else UNKNOWN_NODE
