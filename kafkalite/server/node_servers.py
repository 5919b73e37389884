"""Servers of the nodes of one cluster: their listeners, and the clients that these accepted."""

from __future__ import annotations

import asyncio
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.cluster.node import NodeState
from kafkalite.cluster.node_control import NodeError
from kafkalite.config.broker import is_of_tls
from kafkalite.gateway.error_messages import printable
from kafkalite.metadata.image import AddedNode
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.addresses import Address, AddressError, ListenerSpec
from kafkalite.server.admission import Admission
from kafkalite.server.client_warnings import ClientWarnings
from kafkalite.server.connection import Connection
from kafkalite.server.listener import ListenerContext
from kafkalite.server.memory_queue import MemoryQueue
from kafkalite.server.node_listeners import NodeListeners, registered_listeners
from kafkalite.server.scheduler import Scheduler
from kafkalite.server.settings import SettingsError
from kafkalite.wire.frames import SHARED_BUFFER_BYTES, ReceiveBuffers
from kafkalite.wire.session import SessionSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkalite.capture.recording.recorder import Recorder
    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.node import Endpoint, Node
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.ports.clock import Clock
    from kafkalite.security.tls import TlsServer
    from kafkalite.server.assembly import ClusterAssembly
    from kafkalite.server.cluster_routing import ClusterRouting
    from kafkalite.server.gateways import Gateways
    from kafkalite.server.links import Links, LinksState
    from kafkalite.server.listener import Listener
    from kafkalite.server.logging import Log
    from kafkalite.server.recording import Recording
    from kafkalite.server.sasl_listener import SaslListener

_ANSWER_ITERATIONS: Final = 3
"""Iterations of the event loop in which the answers that a controlled shutdown ends are written."""

_SHUTDOWN_GRACE_S: Final = 1.0
"""The time in which clients must read their last answers after a controlled shutdown."""

_DEFAULT_QUEUED_BYTES: Final = 1024 * 1024 * 1024
"""Limit of the memory for large requests if `queued.max.request.bytes` is not positive."""


class NodeServer(NamedTuple):
    """One node's listeners, and the connections that they accepted.

    The listeners of a node for clients of the controller are separate: as in Kafka, their
    connections do not count against the limits of the others.
    """

    node: Node
    listeners: Sequence[Listener]
    admission: Admission

    def kill(self) -> None:
        """Accept no clients, and close all connections without answers, like a killed process."""
        for listener in self.listeners:
            listener.stop()
        self.admission.stop()
        for connection in self.admission:
            connection.abort()

    def stop_serving(self) -> None:
        """Serve no further requests; pending answers may still be sent."""
        self.admission.stop()
        for connection in self.admission:
            connection.stop_serving()

    async def shut_down(self) -> None:
        """Accept no clients and no requests; send the answers that are ready, then disconnect.

        Requests that still wait are not answered, as in Kafka.
        """
        for listener in self.listeners:
            listener.stop()
        self.stop_serving()
        # The answers of requests whose wait has ended are encoded in the next iterations.
        for _ in range(_ANSWER_ITERATIONS):
            await asyncio.sleep(0)
        await self.close(_SHUTDOWN_GRACE_S)

    async def close(self, grace_s: float) -> None:
        """Close every connection when its answers have been sent, or after `grace_s`."""
        for connection in self.admission:
            connection.close()
        try:
            async with asyncio.timeout(grace_s):
                await self.admission.is_empty.wait()
        except TimeoutError:
            for connection in self.admission:
                connection.abort()


class NodeServers:
    """The servers of all nodes. Nodes can be added, removed, stopped, started and isolated.

    A start calls `bind`, `open` and `accept_clients`, a stop `stop_accepting`, `stop_serving` and
    `close`, also after a start that failed.
    """

    def __init__(self, assembly: ClusterAssembly, clock: Clock, log: Log) -> None:
        self._assembly = assembly
        self._clock = clock
        self._log = log
        self._warnings = ClientWarnings(clock, log.warning)
        self._listeners = NodeListeners(log)
        self._servers: list[NodeServer] = []
        self._changes = asyncio.Lock()
        """Held while a node starts or stops: two starts at once would bind its ports twice, and a
        stop during a start would leave a running node without ports."""
        self._endpoints: dict[str, list[Endpoint]] = {}
        self._cluster: Cluster
        self._gateways: Gateways
        self._data_path: str
        self._recording: Recording | None = None
        """None if no connection was ever recorded."""
        self._links: Links | None = None
        """None if no link was ever disturbed."""
        self._session_settings: SessionSettings
        self._scheduler: Scheduler | None = None
        self._memory_queue: MemoryQueue | None = None
        self.routing: ClusterRouting | None = None
        """Passes clients on to other clusters; set before clients are accepted."""

    def bind(self) -> None:
        """Bind the ports of the nodes of the settings; raises AddressError."""
        settings = self._assembly.settings
        routed = {} if settings.routed is None else settings.routed.specs
        self._listeners.bind(
            self._assembly.listeners, settings.node_ids, routed, settings.listeners_of_nodes
        )

    def open(self, cluster: Cluster, gateways: Gateways, data_path: str) -> None:
        """Release the ports of removed nodes, and bind those of added nodes.

        All nodes then have addresses. Raises AddressError.
        """
        self._cluster = cluster
        self._gateways = gateways
        self._data_path = data_path
        if self._listeners.update({node.id: node.added for node in cluster.nodes.values()}):
            self._log.info(
                "nodes were added or removed while the cluster ran",
                nodes=", ".join(map(str, cluster.nodes)),
            )
        for node_id, listeners in self._listeners.items():
            self._add_servers(cluster.nodes[node_id], listeners)
        cluster.subscribe(self._limit_connections)

    def _add_servers(self, node: Node, listeners: Sequence[Listener]) -> None:
        """Add the servers of a node, and its addresses to the metadata and to its settings."""
        config = self._assembly.config
        node.warn_about_client = self._warnings.warn
        if node.added is not None:
            tls_servers = self._own_tls(node.added.settings)
            for listener in listeners:
                listener.tls_server = listener.tls_server or tls_servers.get(listener.name)
        for is_for_controllers in (False, True):
            group = [each for each in listeners if each.is_for_controllers is is_for_controllers]
            if group:
                names = [each.name for each in group]
                admission = Admission(config.of_node(node.id), self._clock, names)
                self._servers.append(NodeServer(node, group, admission))
        for listener in listeners:
            advertised = listener.advertised_address
            endpoint = node.set_endpoint(listener.name, advertised.host, advertised.port)
            self._endpoints.setdefault(listener.name, []).append(endpoint)
        config.set_node_text(
            node.id,
            {
                "listeners": ",".join(f"{each.name}://{each.bound_address}" for each in listeners),
                "advertised.listeners": ",".join(
                    f"{each.name}://{each.advertised_address}"
                    for each in listeners
                    if not each.is_for_controllers
                ),
                "log.dirs": ",".join(_described_directories(node)),
            },
        )

    def _own_tls(self, settings: Mapping[str, str]) -> Mapping[str, TlsServer | None]:
        """Return TLS by the names of listeners, for the settings of an added node.

        Raises SettingsError for a key store that cannot be read, and ConfigError.
        """
        tls = {key: value for key, value in settings.items() if is_of_tls(key)}
        assembly = self._assembly
        listeners = assembly.listeners if tls else ()
        return {each.name: assembly.new_node_tls(each, tls) for each in listeners}

    async def restore(self, change: Callable[[], None], stopped: Collection[int]) -> None:
        """Make a change that replaces the state of the cluster, and serve the nodes that it has.

        The nodes in `stopped` do not run afterwards. Raises AddressError if a port of another one
        was taken; then no change is made.
        """
        async with self._changes:
            self._bind_stopped(stopped)
            change()
            nodes = self._cluster.nodes
            for node_id in {server.node.id for server in self._servers} - nodes.keys():
                for server in self._of(node_id):
                    server.kill()
                self._forget(node_id)
            known = {server.node.id for server in self._servers}
            self._listeners.update({node.id: node.added for node in nodes.values()})
            for node_id, listeners in self._listeners.items():
                if node_id not in known:
                    self._add_servers(nodes[node_id], listeners)
            for server in tuple(self._servers):
                if server.node.id in stopped:
                    server.kill()
                elif any(each.new_protocol is None for each in server.listeners):
                    await self._serve(server)

    def _bind_stopped(self, stopped: Collection[int]) -> None:
        """Bind the ports of stopped nodes that are not in `stopped`; raises AddressError."""
        bound: list[Listener] = []
        try:
            for server in self._servers:
                is_stopped = server.node.state is NodeState.STOPPED
                if is_stopped and server.node.id not in stopped:
                    for listener in server.listeners:
                        listener.bind_again()
                        bound.append(listener)
        except AddressError:
            for listener in bound:
                listener.stop()
            raise

    def links_state(self) -> LinksState | None:
        """Return the rules for links of now; None if there never were any."""
        return None if self._links is None else self._links.snapshot()

    def restore_links(self, state: LinksState | None) -> None:
        """Have the rules for links of a state; None means no rules."""
        if state is not None:
            self.links.restore(state)
        else:
            self.heal_links()

    def _limit_connections(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply the limits for connections, which dynamic settings may have changed."""
        del image, delta
        for server in self._servers:
            server.admission.apply_settings()

    async def accept_clients(self) -> None:
        """Start the listeners of all nodes that run."""
        loop = asyncio.get_running_loop()
        config, gateway = self._assembly.config, self._gateways.of_nodes
        queued_bytes = config.int("queued.max.request.bytes")
        buffers = ReceiveBuffers(queued_bytes if queued_bytes > 0 else _DEFAULT_QUEUED_BYTES)
        self._scheduler = Scheduler(loop, buffers)
        self._memory_queue = MemoryQueue(loop, buffers, self.connections)
        self._session_settings = SessionSettings(
            buffers=buffers,
            serve=gateway.serve,
            serve_in_worker=gateway.serve_in_worker,
            wake=Connection.wake,
            max_request_bytes=config.int("socket.request.max.bytes"),
            max_buffered_bytes=SHARED_BUFFER_BYTES // 2,
            is_turn_over=self._scheduler.is_turn_over,
            flush=gateway.flush,
        )
        for server in self._servers:
            # A cluster that begins with a snapshot may have stopped nodes.
            if server.node.state is NodeState.STOPPED:
                server.kill()
            else:
                await self._serve(server)

    async def _serve(self, server: NodeServer) -> None:
        """Accept the clients of one node."""
        loop = asyncio.get_running_loop()
        server.admission.start()
        for listener in server.listeners:
            await listener.start(loop, self._context_of(server, listener))

    def _context_of(self, server: NodeServer, listener: Listener) -> ListenerContext:
        assert self._scheduler is not None
        assert self._memory_queue is not None
        max_bytes = server.node.config.int("socket.request.max.bytes")
        session_settings = self._session_settings._replace(max_request_bytes=max_bytes)
        if listener.is_for_controllers:
            gateway = self._gateways.of_controllers
            session_settings = session_settings._replace(
                serve=gateway.serve, serve_in_worker=gateway.serve_in_worker, flush=gateway.flush
            )
        return ListenerContext(
            node=server.node,
            listener=listener.name,
            admission=server.admission,
            session_settings=session_settings,
            scheduler=self._scheduler,
            memory_queue=self._memory_queue,
            log=self._log,
            warn_about_client=self._warnings.warn,
            protocol_of=self._protocol_of,
            sasl=self._sasl_listener(server.node, listener),
            tls_server=(
                listener.tls_server
                or self._assembly.node_tls_servers.get((server.node.id, listener.name))
                or self._assembly.tls_servers.get(listener.name)
            ),
            routing=self._routing_of(listener),
        )

    def _routing_of(self, listener: Listener) -> ClusterRouting | None:
        routing = self.routing
        if routing is None or listener.is_for_controllers or listener.is_relayed:
            return None
        return routing if routing.by_client_id or listener.protocol.uses_tls else None

    def routed_specs(self) -> Mapping[int, Sequence[ListenerSpec]]:
        """Return the listeners by node id of a cluster whose clients connect to these ports."""
        return {
            node_id: [
                ListenerSpec(
                    each.name,
                    each.bound_address,
                    each.advertised_address,
                    each.protocol,
                    is_relayed=True,
                    is_routed=True,
                )
                for each in listeners
                if not each.is_for_controllers
            ]
            for node_id, listeners in self._listeners.items()
        }

    def context_of(self, node_id: int, listener: str) -> ListenerContext | None:
        """Return what the connections of a listener use; None while its node is stopped."""
        listeners = chain.from_iterable(each.listeners for each in self._of(node_id))
        return next((each.context for each in listeners if each.name == listener), None)

    def _sasl_listener(self, node: Node, listener: Listener) -> SaslListener | None:
        """Return the authentication of a listener, if its clients authenticate by SASL."""
        settings = self._assembly.sasl_settings_of(node.id, listener.name)
        if settings is None:
            return None
        from kafkalite.server.sasl_listener import SaslListener  # noqa: PLC0415 - rarely used

        gateways = self._gateways
        controller = gateways.of_controllers if listener.is_for_controllers else None
        return SaslListener(node, settings, gateways.of_nodes, controller)

    def _protocol_of(self, connection: Connection) -> asyncio.BufferedProtocol:
        recording, links = self._recording, self._links
        inner = connection if recording is None else recording.protocol_of(connection)
        return inner if links is None else links.protocol_of(connection, inner)

    @property
    def links(self) -> Links:
        """The links between clients and nodes, and between nodes, which rules disturb."""
        if self._links is None:
            from kafkalite.server.links import Links  # noqa: PLC0415 - rarely used

            self._links = Links(self._cluster, self.connections, self._report_link)
        return self._links

    def heal_links(self) -> None:
        """Remove all rules for links, if there are any."""
        if self._links is not None:
            self._links.heal_all()

    def _report_link(self, event: str, link_id: str, rule: str) -> None:
        self._log.info(event, link=link_id, rule=printable(rule))

    @property
    def recorder(self) -> Recorder | None:
        """The recorder of all traffic, if traffic is recorded."""
        return None if self._recording is None else self._recording.recorder

    def start_recording(self, recorder: Recorder) -> None:
        """Record all connections; raises RuntimeError if they are recorded already."""
        if self._recording is None:
            from kafkalite.server.recording import Recording  # noqa: PLC0415 - rarely used

            self._recording = Recording()
        self._recording.start(recorder, self.connections())

    def stop_recording(self) -> Recorder | None:
        """Stop recording, and return the recorder, which the caller must close."""
        return None if self._recording is None else self._recording.stop()

    @property
    def is_busy(self) -> bool:
        """Whether requests are queued."""
        return self._scheduler is not None and self._scheduler.is_busy

    def connections(self) -> Iterator[Connection]:
        """Return the connections of all nodes."""
        return chain.from_iterable(server.admission for server in self._servers)

    def bootstrap_by_listener(self) -> Mapping[str, str]:
        """Return the bootstrap addresses by listener name: `host:port,…`."""
        return {
            name: ",".join(str(Address(each.host, each.port)) for each in endpoints)
            for name, endpoints in self._endpoints.items()
        }

    def stop_accepting(self) -> None:
        """Accept no further clients; connected ones remain."""
        self._listeners.stop()
        if self.routing is not None:
            self.routing.close()

    def stop_serving(self) -> None:
        """Serve no further requests; pending answers may still be sent."""
        for server in self._servers:
            server.stop_serving()

    async def close(self, grace_s: float) -> None:
        """Close all connections when their answers have been sent, or after `grace_s` for each."""
        if self._links is not None:
            self._links.close()
        for server in self._servers:
            await server.close(grace_s)
        self._warnings.stop()
        if self._scheduler is not None:
            self._scheduler.stop()
        if self._memory_queue is not None:
            self._memory_queue.stop()
        self._servers.clear()

    def _of(self, node_id: int) -> Sequence[NodeServer]:
        return [server for server in self._servers if server.node.id == node_id]

    async def stop(self, node_id: int, *, controlled: bool = False) -> None:
        """Stop a node as if it was killed.

        A `controlled` shutdown is that of Kafka's broker on SIGTERM: first other nodes lead the
        partitions of the node, and the answers that this ends are sent. Raises NodeError if the
        node is isolated. A node that is being started is stopped afterwards.
        """
        self._cluster.node_control.node(node_id)
        async with self._changes:
            if controlled:
                await self._shut_down(node_id)
            else:
                self._kill(node_id)

    def _kill(self, node_id: int) -> None:
        control = self._cluster.node_control
        node = control.node(node_id)
        was_stopped = node.state is NodeState.STOPPED
        try:
            control.stop(node_id)
        finally:
            # Also if the disk refused the change of the metadata.
            if node.state is NodeState.STOPPED:
                for server in self._of(node_id):
                    server.kill()
                if not was_stopped:
                    self._log.info("stopped a node", node=node_id)

    async def _shut_down(self, node_id: int) -> None:
        control = self._cluster.node_control
        was_stopped = control.node(node_id).state is NodeState.STOPPED
        control.shut_down(node_id)
        if not was_stopped:
            for server in self._of(node_id):
                await server.shut_down()
            self._log.info("shut down a node", node=node_id)

    async def start(self, node_id: int) -> None:
        """Start a stopped node, or connect an isolated one; no effect on a running one.

        Raises UnknownNodeError, and AddressError if the node's port was taken meanwhile.
        """
        control = self._cluster.node_control
        control.node(node_id)
        async with self._changes:
            node = control.node(node_id)
            before = node.state
            servers = self._of(node_id)
            try:
                if before is NodeState.STOPPED:
                    for listener in chain.from_iterable(each.listeners for each in servers):
                        listener.bind_again()
                control.start(node_id)
            finally:
                if node.state is NodeState.STOPPED:
                    # A port was taken, or the disk refused the change of the metadata.
                    for server in servers:
                        server.kill()
                elif before is NodeState.STOPPED:
                    # Last, as in Kafka: clients are not served by a node that is not registered.
                    for server in servers:
                        await self._serve(server)
                if before is not NodeState.RUNNING and node.state is NodeState.RUNNING:
                    self._log.info("started a node", node=node_id)

    async def add(
        self, node_id: int | None = None, settings: Mapping[str, str] | None = None
    ) -> int:
        """Add a running node, and return its id: by default the one after the largest id.

        The node has no partitions until some are assigned to it. Later starts of the cluster begin
        with it, too. Raises NodeError for an id that is taken and for a key store that cannot be
        read, ConfigError for invalid `settings`, AddressError if no port is free, and KafkaError if
        the disk refuses the change.
        """
        cluster = self._cluster
        if self._assembly.settings.routed is not None:
            raise NodeError(
                "the nodes of this cluster have the ports of another cluster: add the node to that "
                "one, and start this cluster again"
            )
        settings = dict(settings or {})
        try:
            self._own_tls(settings)
        except SettingsError as error:
            raise NodeError(str(error)) from error
        async with self._changes:
            new_id = cluster.node_control.check_new(node_id)
            listeners = self._listeners.add(new_id)
            added = AddedNode(settings, registered_listeners(listeners))
            await self._add(new_id, added, listeners)
        return new_id

    async def _add(self, node_id: int, added: AddedNode, listeners: Sequence[Listener]) -> None:
        """Add a node with these listeners; see `add`."""
        cluster = self._cluster
        try:
            cluster.node_control.add(
                node_id, added, lambda node: self._add_servers(node, listeners)
            )
        finally:
            if node_id not in cluster.nodes:
                self._forget(node_id)
            else:
                for server in self._of(node_id):
                    await self._serve(server)
                self._log.info("added a node", node=node_id)

    async def join(
        self,
        node_id: int,
        settings: Mapping[str, str],
        specs: Sequence[ListenerSpec],
        tls: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start a node whose clients connect to another process; add it if it is unknown.

        A node that is stopped gets these `settings` and listeners in place of its earlier ones.
        `tls` are its settings of TLS, if they differ from those of the cluster. Raises NodeError
        for a node that is not stopped, for an invalid id, and for listeners that the cluster does
        not have, ConfigError for invalid settings, SettingsError for a key store that cannot be
        read, and KafkaError if the disk refuses the change.
        """
        self._check_relayed(specs)
        tls_servers = {each.name: self._assembly.new_node_tls(each, tls) for each in specs}
        specs = [*specs, *self._relayed_controllers()]
        cluster = self._cluster
        async with self._changes:
            node = cluster.nodes.get(node_id)
            if node is None:
                cluster.node_control.check_new(node_id)
            elif node.state is not NodeState.STOPPED:
                raise NodeError(f"node {node_id} is {node.state.value} already")
            elif node.added is not None:
                self._assembly.config.configure_node(node_id, settings)
            listeners = self._listeners.add_relayed(node_id, specs)
            for listener in listeners:
                listener.tls_server = tls_servers.get(listener.name)
            added = AddedNode(dict(settings), registered_listeners(listeners))
            if node is None:
                await self._add(node_id, added, listeners)
                return
            self._forget_servers(node_id)
            self._add_servers(node, listeners)
            node.added = None if node.added is None else added
        await self.start(node_id)

    def _check_relayed(self, specs: Sequence[ListenerSpec]) -> None:
        """Raise NodeError for a listener that is not one of the cluster."""
        known = {each.name: each.protocol for each in self._assembly.listeners}
        for spec in specs:
            if spec.name not in known:
                raise NodeError(
                    f"the cluster has no listener {spec.name}: its listeners are {', '.join(known)}"
                )
            if spec.protocol is not known[spec.name]:
                raise NodeError(
                    f"the listener {spec.name} of the cluster has the security protocol "
                    f"{known[spec.name].value}, not {spec.protocol.value}"
                )

    def _relayed_controllers(self) -> Iterator[ListenerSpec]:
        """Yield the listener of the controller for a node without one: it has the same address."""
        for spec in self._assembly.listeners:
            if spec.is_for_controllers:
                first = self._endpoints[spec.name][0]
                address = Address(first.host, first.port)
                yield spec._replace(listen_address=address, advertised=address, is_relayed=True)

    def controller_protocol_factory(self) -> Callable[[], asyncio.BufferedProtocol] | None:
        """Return the function that creates the protocol of a client of the controller.

        Returns None while no node accepts such clients.
        """
        listeners = chain.from_iterable(each.listeners for each in self._servers)
        return next(
            (each.new_protocol for each in listeners
             if each.is_for_controllers and each.new_protocol is not None), None
        )  # fmt: skip

    def is_relayed(self, node_id: int) -> bool:
        """Return whether the clients of a node connect to another process."""
        listeners = chain.from_iterable(each.listeners for each in self._of(node_id))
        return any(each.is_relayed and not each.is_for_controllers for each in listeners)

    def protocol_factory(
        self, node_id: int, listener: str
    ) -> Callable[[], asyncio.BufferedProtocol] | None:
        """Return the function that creates the protocol of a client of a listener.

        Returns None while the node does not accept clients, and for an unknown listener.
        """
        listeners = chain.from_iterable(each.listeners for each in self._of(node_id))
        return next((each.new_protocol for each in listeners if each.name == listener), None)

    async def remove(self, node_id: int) -> None:
        """Remove a node without replicas; a running one is shut down before.

        Later starts of the cluster begin without it. Raises UnknownNodeError, NodeError for a node
        with replicas and for the last running one, and KafkaError if the disk refuses the change.
        """
        control = self._cluster.node_control
        async with self._changes:
            node = control.check_removal(node_id)
            if node.state is NodeState.RUNNING:
                await self._shut_down(node_id)
            elif node.state is NodeState.ISOLATED:
                self._kill(node_id)
            control.remove(node_id)
            self._forget(node_id)
            self._log.info("removed a node", node=node_id)

    def _forget(self, node_id: int) -> None:
        """Release everything that belongs to a removed node."""
        self._listeners.release(node_id)
        self._gateways.forget_node(node_id)
        self._forget_servers(node_id)

    def _forget_servers(self, node_id: int) -> None:
        """Remove the servers and the addresses of a node that has no clients."""
        self._servers = [server for server in self._servers if server.node.id != node_id]
        for name, endpoints in self._endpoints.items():
            self._endpoints[name] = [each for each in endpoints if each.node_id != node_id]

    def isolate(self, node_id: int) -> None:
        """Cut a node off from all other nodes; clients still reach it.

        From then on, requests for the controller wait at isolated nodes. Raises NodeError for a
        stopped node, and for the last running one.
        """
        control = self._cluster.node_control
        before = control.node(node_id).state
        control.isolate(node_id)
        if before is not NodeState.ISOLATED:
            self._log.info("isolated a node", node=node_id)
        self._gateways.isolated_node()


def _described_directories(node: Node) -> Sequence[str]:
    """Return the log directories of a node as DescribeConfigs shows them."""
    directories = node.cluster.log_directories
    is_one_offline = directories.offline(node.id)
    return directories.configured(node.id) if is_one_offline else directories.paths(node.id)
