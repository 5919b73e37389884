"""Broker: one emulated cluster of one or more nodes with listening sockets.

The order of a start: check the settings, bind the ports, read the data, bind the ports of nodes
that were added earlier, accept clients. The order of a stop: accept no clients, serve no requests,
resolve pending answers, send them, close connections, close the data.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkalite.gateway.inter_broker import InterBrokerCalls
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.executors import ThreadExecutor
from kafkalite.ports.files import OsFiles
from kafkalite.ports.system import machine_bytes
from kafkalite.ports.temporary import remove_abandoned
from kafkalite.server.assembly import ClusterAssembly, Environment
from kafkalite.server.gateways import Gateways
from kafkalite.server.logging import Level, Log
from kafkalite.server.maintenance import Maintenance
from kafkalite.server.node_servers import NodeServers
from kafkalite.server.reports import Reports

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from kafkalite.capture.recording.recorder import Recorder
    from kafkalite.cluster.cluster import Cluster
    from kafkalite.config.security_protocols import SecurityProtocol
    from kafkalite.coordinator.event_history import EventHistory
    from kafkalite.gateway.exchanges import Observer
    from kafkalite.gateway.faults import Faults
    from kafkalite.gateway.gateway import Gateway
    from kafkalite.gateway.request_hooks import RequestHooks
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.ports.executors import Executor
    from kafkalite.ports.files import Files
    from kafkalite.ports.memory_files import Memory
    from kafkalite.security.certificates import CertificateFiles
    from kafkalite.security.tls import TlsServer
    from kafkalite.server.addresses import ListenerSpec
    from kafkalite.server.broker_directory import BrokerDirectory
    from kafkalite.server.captures import Captures
    from kafkalite.server.declared_data import DeclaredData, DeclaredState
    from kafkalite.server.request_log import RequestLog
    from kafkalite.server.settings import Settings
    from kafkalite.server.snapshot import Snapshot, Snapshots
    from kafkalite.server.time_skipping import TimeSkipping
    from kafkalite.server.virtual_clusters import ClusterPlan, VirtualClusters
    from kafkalite.storage.disk_health import DiskFailure

T = TypeVar("T")

_MAX_WAITS_FOR_WORKERS = 1_000
"""Iterations of the event loop in which a restore waits for requests that take long."""


class Fork(Protocol):
    """Another cluster in this process, which ends with this one."""

    @property
    def broker(self) -> Broker | None:
        """The broker while it runs."""

    @property
    def control_url(self) -> str | None:
        """The URL of its control API; None without one."""

    async def stop(self, grace_s: float) -> bool:
        """Stop it; pending answers may take `grace_s` seconds to be sent."""


class Broker:
    """One cluster in this process; `start` and `stop` run on the event loop that serves it.

    A process, and an event loop, may have several. `prepare` is called with the broker before the
    first client is accepted.
    """

    start_fork: Callable[[ClusterPlan], Awaitable[Fork]] | None = None
    """Starts another cluster in this process; None if nothing can serve it."""
    _memory: Memory | None = None
    _captures: Captures | None = None
    _clusters: VirtualClusters | None = None
    _snapshots: Snapshots | None = None

    def __init__(
        self,
        settings: Settings,
        log: Log | None = None,
        *,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        files: Files | None = None,
        recorder: Recorder | None = None,
        prepare: Callable[[Broker], None] | None = None,
        executor: Executor | None = None,
        identity: IdentityProvider | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        """Serve with `settings`; clients may authenticate with the tokens of `identity`.

        The broker begins with the state of `snapshot`, and its data is then in memory.
        """
        self._settings = settings
        self.identity = identity
        self.log = Log() if log is None else log
        """The log of all parts of the broker."""
        self._reports = Reports(self.log)
        self.clock: Clock = AdjustableClock() if clock is None else clock
        """The clock of all parts of the broker."""
        self._entropy: Entropy = _entropy_of(settings.seed) if entropy is None else entropy
        self._files = files
        self._snapshot = snapshot
        self._snapshot_topics = {} if snapshot is None else snapshot.settings.topics
        self._recorder = recorder
        self._prepare = prepare
        self._executor = executor
        self._resources = ExitStack()
        self._declared_data: DeclaredData | None = None
        self._assembly: ClusterAssembly | None = None
        self._directory: BrokerDirectory | None = None
        self._nodes: NodeServers | None = None
        self._gateways: Gateways | None = None
        self._maintenance: Maintenance | None = None
        self._time_skipping: TimeSkipping | None = None
        self.cluster: Cluster | None = None
        """None while the broker is not running."""
        self.scenario: object = None
        """The scenario with which the broker was started, if any; see `control.scenario`."""
        self.initial_image: MetadataImage | None = None
        """The metadata after the last start, without the declared state, which a reset loads."""
        self.state_lock = asyncio.Lock()
        """Held by resets and restores: each of them takes several turns of the event loop."""

    async def start(self) -> None:
        """Listen and serve. On failure, everything that was opened is closed again.

        Raises AddressError, ConfigError, BrokerDirectoryError, SettingsError or TopicError.
        """
        if isinstance(self.clock, AdjustableClock):
            self.clock.subscribe(self._reports)
        try:
            loop = asyncio.get_running_loop()
            self._declared_data = self._prepare_load()
            cluster, nodes = self._open(loop)
            if self._settings.state is not None and self._snapshot is None:
                await self._load_state(self._settings.state)
            self._reports.security(_running(self._assembly), cluster.metadata.image)
            await nodes.accept_clients()
            executor = self._executor = self._executor or ThreadExecutor(loop)
            self._start_maintenance(cluster)
            if isinstance(self.clock, AdjustableClock):
                self.skip_time(self.clock.skip_rate)
            if self._snapshot is None:
                self._remove_abandoned(executor, remove_abandoned())
            self._snapshot = None  # so that its data can be freed
        except BaseException:
            await self.stop(grace_s=0)
            if self._declared_data is not None:
                self._declared_data.undo()
            raise

    def _prepare_load(self) -> DeclaredData | None:
        """Prepare a data directory for the load of a state; None if nothing remains of it."""
        settings = self._settings
        path = settings.log_directory
        if settings.state is None or self._snapshot is not None or path is None:
            return None
        from kafkalite.server.declared_data import DeclaredData  # noqa: PLC0415 - rarely used

        files = self._files or OsFiles(is_durable=True)
        return DeclaredData(files, path, settings.state.digest)

    async def _load_state(self, state: DeclaredState) -> None:
        """Create what a state declares, unless the data directory has it from an earlier start."""
        data, cluster = self._declared_data, _running(self.cluster)
        assert self.initial_image is not None
        if data is not None and data.is_loaded:
            # A reset removes what clients have added, and creates what is declared.
            self.initial_image = self.initial_image._replace(
                acls={}, client_quotas={}, scram_credentials={}
            )
            return
        await state.load(self)
        if data is not None:
            for log in cluster.partitions.logs().values():
                log.flush()
            data.finish()

    def _start_maintenance(self, cluster: Cluster) -> None:
        executor = _running(self._executor)
        self._maintenance = Maintenance(cluster, cluster.config, self.clock, self.log, executor)
        self._maintenance.keeps_history = self._settings.keeps_history
        self._maintenance.start()

    def _open(self, loop: asyncio.AbstractEventLoop) -> tuple[Cluster, NodeServers]:
        """Check the settings, bind the ports and read the data."""
        reports = self._reports
        environment = Environment(
            self.clock,
            self._entropy,
            lambda thread: ThreadExecutor(loop, thread),
            self._files,
            self.identity,
        )
        assembly = self._assembly = ClusterAssembly(
            self._settings, environment, reports, self._resources
        )
        assembly.config.log_levels.set_initial_level(self.log.level.kafka_name)
        nodes = self._nodes = NodeServers(assembly, self.clock, self.log)
        if self._settings.clusters is not None:
            self._route_clients(self._settings.clusters, assembly, nodes)
        if self._recorder is not None:
            nodes.start_recording(self._recorder)
        nodes.bind()
        snapshot = self._snapshot
        state = None if snapshot is None else snapshot.cluster
        directory = self._directory = assembly.open_directory(state)
        cluster = self.cluster = assembly.open_cluster(directory, state)
        if snapshot is None:
            if self._settings.seed is not None:
                self._continue_seed(cluster)
            assembly.populate(cluster, directory)
            self.initial_image = cluster.metadata.image
        reports.opened_cluster(assembly, directory, cluster)
        gateways = self._gateways = Gateways(assembly, cluster, reports)
        nodes.open(cluster, gateways, directory.path)
        self._log_exchanges()
        if self._settings.request_log is not None:
            gateways.start_request_log(self._settings.request_log)
        assembly.config.log_levels.subscribe(self._set_log_level)
        cluster.open(InterBrokerCalls(gateways.of_nodes))
        if snapshot is not None:
            self._begin_with(snapshot, gateways, nodes)
        if self._prepare is not None:
            self._prepare(self)
        return cluster, nodes

    def _route_clients(self, kind: str, assembly: ClusterAssembly, nodes: NodeServers) -> None:
        """Serve the clients of other clusters on the ports of this one."""
        from kafkalite.server.cluster_routing import ClusterRouting  # noqa: PLC0415 - rarely used

        nodes.routing = routing = ClusterRouting(self.clusters, kind)
        if not routing.by_client_id:
            routing.check(assembly.listeners)
            servers = chain(assembly.tls_servers.values(), assembly.node_tls_servers.values())
            for server in servers:
                server.notes_server_names = True

    def _begin_with(self, snapshot: Snapshot, gateways: Gateways, nodes: NodeServers) -> None:
        """Have the parts of a snapshot that are not those of its cluster."""
        from kafkalite.server.snapshot import restore_random_state  # noqa: PLC0415 - rarely used

        self.initial_image = snapshot.initial_image
        restore_random_state(self._entropy, snapshot.random_state)
        gateways.restore_faults(snapshot.faults)
        if any(each.is_isolated for each in snapshot.cluster.impaired_nodes):
            gateways.isolated_node()
        nodes.restore_links(snapshot.links)

    def snapshot(self) -> Snapshot:
        """Return the state of now, which shares its data with this broker.

        Data on disk is copied to memory after a flush. Raises SnapshotError if it is too large,
        UnfitStateError if its files change meanwhile, and OSError if a log has failed or the memory
        is not sufficient.
        """
        from kafkalite.server import snapshot  # noqa: PLC0415 - rarely used

        assert self.initial_image is not None
        return snapshot.Snapshot(
            self.cluster_id,
            snapshot.cluster_state(_running(self.cluster), _running(self._directory), self.memory),
            self.initial_image,
            snapshot.clock_state(self.clock),
            snapshot.random_state(self._entropy),
            _running(self._gateways).faults_state(),
            self.nodes.links_state(),
            self._settings._replace(topics=self.initial_topics),
        )

    @property
    def memory(self) -> Memory:
        """The memory of the data; if that is on disk, of snapshots and of other clusters."""
        own = _running(self._directory).memory
        if own is None and self._memory is None:
            from kafkalite.ports.memory_files import Memory  # noqa: PLC0415 - not for data on disk

            self._memory = Memory(machine_bytes() // 2 or None)
        memory = self._memory if own is None else own
        assert memory is not None
        return memory

    async def restore(self, snapshot: Snapshot, *, disconnects: bool = False) -> None:
        """Continue from a snapshot of this broker, or of one that began with such a snapshot.

        Clients stay connected, unless `disconnects`. Requests that wait are answered first, as at
        a stop. Raises SnapshotError for a snapshot of another cluster and if the data is on disk,
        and AddressError if the port of a node that must run was taken; then nothing has changed.
        """
        from kafkalite.server.snapshot import SnapshotError  # noqa: PLC0415 - rarely used

        if snapshot.cluster_id != self.cluster_id:
            raise SnapshotError(
                f"the snapshot is of the cluster {snapshot.cluster_id}, not of {self.cluster_id}"
            )
        if not self.is_in_memory:
            raise SnapshotError(
                f"the data of this broker is in the directory {self.data_directory}, which is not "
                "replaced: begin another cluster with the snapshot (fork)"
            )
        async with self.state_lock:
            nodes = self.nodes
            for _ in range(_MAX_WAITS_FOR_WORKERS):
                if not nodes.is_busy:
                    break
                await asyncio.sleep(0)
            stopped = frozenset(each.node_id for each in snapshot.cluster.stopped_nodes)
            await nodes.restore(lambda: self._restore(snapshot), stopped)
        if disconnects:
            for connection in nodes.connections():
                connection.abort()

    def _restore(self, snapshot: Snapshot) -> None:
        """Replace the state of the cluster, without a pause."""
        cluster, gateways = _running(self.cluster), _running(self._gateways)
        directory = _running(self._directory)
        gateways.clear_faults()
        self.nodes.heal_links()
        if self._maintenance is not None:
            self._maintenance.stop()
        if snapshot.clock is not None and isinstance(self.clock, AdjustableClock):
            self.clock.restore(snapshot.clock)
            self.skip_time(self.clock.skip_rate)
        state = snapshot.cluster
        partitions, replaced = cluster.partitions, directory.directory
        used = replaced.files
        files = state.files.copy(used.memory if isinstance(used, type(state.files)) else None)
        opened = directory.replace_files(files, state)
        cluster.restore(opened, snapshot.cluster)
        partitions.close_files()
        directory.free(replaced)
        self._reports.restored_cluster(directory)
        cluster.open(InterBrokerCalls(gateways.of_nodes))
        self._begin_with(snapshot, gateways, self.nodes)
        self._start_maintenance(cluster)

    def _continue_seed(self, cluster: Cluster) -> None:
        """Generate other ids than the starts before, whose data the cluster has."""
        from kafkalite.ports.seeded_entropy import SeededEntropy  # noqa: PLC0415 - rarely used

        if isinstance(self._entropy, SeededEntropy):
            records = sum(log.end_offset for log in cluster.partitions.logs().values())
            self._entropy.continue_after(f"{cluster.metadata.image.version} {records}")

    def _remove_abandoned(self, executor: Executor, removal: Iterator[str | None]) -> None:
        """Remove the data of one broker that was killed, then continue with the next."""
        removed: list[str | None] = []

        def on_done(_: Exception | None) -> None:
            for path in filter(None, removed):
                self._reports.removed_abandoned(path)
            if removed:
                self._remove_abandoned(executor, removal)

        executor.submit(lambda: removed.extend(islice(removal, 1)), on_done)

    async def stop(self, grace_s: float = 1.0) -> bool:
        """Stop, and return whether the data was closed cleanly; does nothing if not started.

        Pending answers may take `grace_s` seconds to be sent.
        """
        await self._stop_clusters(grace_s)
        nodes = self._nodes
        if self._time_skipping is not None:
            self.skip_time(0)
        gateways, self._gateways = self._gateways, None
        self._assembly = None
        if nodes is not None:
            nodes.stop_accepting()
        if self._maintenance is not None:
            self._maintenance.stop()
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.close()
        if nodes is not None:
            nodes.stop_serving()
        if self.cluster is not None:
            # Requests that wait are answered now; the answers are encoded in the next iteration.
            self.cluster.stop()
            await asyncio.sleep(0)
        if nodes is not None:
            await self._close_nodes(nodes, grace_s)
        if gateways is not None:
            gateways.close()
        self._resources.close()
        if isinstance(self.clock, AdjustableClock):
            self.clock.unsubscribe(self._reports)
        directory, self._directory = self._directory, None
        cluster, self.cluster = self.cluster, None
        return directory is None or self._close_data(directory, cluster)

    async def _close_nodes(self, nodes: NodeServers, grace_s: float) -> None:
        """Close all connections, and then the captures that have them."""
        await nodes.close(grace_s)
        if self._captures is not None:
            await self._captures.close()

    async def _stop_clusters(self, grace_s: float) -> None:
        """Stop the other clusters of this process, and accept no clients, who could start more."""
        if self._clusters is not None:
            if self._nodes is not None:
                self._nodes.stop_accepting()
            await self._clusters.stop(grace_s)

    def _close_data(self, directory: BrokerDirectory, cluster: Cluster | None) -> bool:
        """Close the data directory, and return whether that succeeded."""
        try:
            directory.close(None if cluster is None else cluster.partitions.logs())
        except OSError as error:
            self._reports.failed_close(directory, error)
            return False
        return True

    def skip_time(self, rate: float) -> None:
        """Move the clock while all clients wait, at most at this rate; 0 ends it."""
        skipping = self._time_skipping
        if skipping is not None and rate:
            skipping.rate = rate
        elif skipping is not None:
            self._time_skipping = None
            skipping.stop()
            self.unsubscribe(skipping.observe)
        elif rate:
            from kafkalite.server.time_skipping import TimeSkipping  # noqa: PLC0415 - rarely used

            clock, nodes = self.clock, self.nodes
            assert isinstance(clock, AdjustableClock)
            self._time_skipping = skipping = TimeSkipping(
                clock, asyncio.get_running_loop(), rate, lambda: nodes.is_busy
            )
            self.subscribe(skipping.observe)

    def _set_log_level(self, kafka_name: str) -> None:
        self.log.level = Level.of_kafka(kafka_name)
        self._log_exchanges()

    def _log_exchanges(self) -> None:
        """Log requests at level debug only: observers cost time."""
        change = self.subscribe if self.log.level <= Level.DEBUG else self.unsubscribe
        change(self._reports.exchange)

    @property
    def nodes(self) -> NodeServers:
        """The nodes, which can be added, removed, stopped, started and isolated."""
        return _running(self._nodes)

    @property
    def gateway(self) -> Gateway:
        """The gateway that serves the requests of all nodes, but not those to the controller."""
        return _running(self._gateways).of_nodes

    def subscribe(self, observer: Observer) -> None:
        """Call `observer` with the exchange of each request that a client sends from now on."""
        _running(self._gateways).subscribe(observer)

    def unsubscribe(self, observer: Observer) -> None:
        """Stop calling an observer of exchanges; see `Gateway.unsubscribe`."""
        _running(self._gateways).unsubscribe(observer)

    @property
    def hooks(self) -> RequestHooks:
        """The functions of a test that see each request."""
        return _running(self._gateways).hooks

    @property
    def faults(self) -> Faults:
        """The injected faults: requests that are delayed, refused or disconnected."""
        return _running(self._gateways).faults

    @property
    def request_log(self) -> RequestLog:
        """The log of requests, which begins when it is first used."""
        return _running(self._gateways).request_log

    @property
    def initial_topics(self) -> Mapping[str, int]:
        """The topics to which a reset leads, with their numbers of partitions.

        They are those of the settings, and of the broker that made the snapshot.
        """
        return {**self._snapshot_topics, **_running(self._assembly).settings.topics}

    def populate(self) -> None:
        """Create the topics and users of the settings that a snapshot does not have.

        Raises TopicError.
        """
        _running(self._assembly).populate(_running(self.cluster), _running(self._directory))

    def store_initial_users(self) -> None:
        """Store the users of the settings that are not stored, as the start does."""
        _running(self._assembly).store_users(_running(self.cluster))

    def clear_faults(self) -> None:
        """Remove all faults, if there are any."""
        _running(self._gateways).clear_faults()

    def clear_request_log(self) -> None:
        """Remove all requests from the log of requests, if there is one."""
        _running(self._gateways).clear_request_log()

    @property
    def logs_requests(self) -> bool:
        """Whether requests are logged."""
        return _running(self._gateways).logs_requests

    def stop_request_log(self) -> int:
        """Stop the log of requests, and return the number of requests that it had."""
        return _running(self._gateways).stop_request_log()

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots with ids, which commands make."""
        if self._snapshots is None:
            from kafkalite.server.snapshot import Snapshots  # noqa: PLC0415 - rarely used

            self._snapshots = Snapshots()
        return self._snapshots

    @property
    def captures(self) -> Captures:
        """The captures of traffic that commands start and stop."""
        if self._captures is None:
            from kafkalite.server.captures import Captures  # noqa: PLC0415 - rarely used

            self._captures = Captures(self)
        return self._captures

    @property
    def clusters(self) -> VirtualClusters:
        """The other clusters of this process, which end with this one."""
        if self._clusters is None:
            from kafkalite.server.virtual_clusters import VirtualClusters  # noqa: PLC0415 - rarely used

            self._clusters = VirtualClusters(self)
        return self._clusters

    @property
    def listeners(self) -> Sequence[ListenerSpec]:
        """The listeners of each node."""
        return _running(self._assembly).listeners

    @property
    def files(self) -> Files:
        """The files with the data."""
        return _running(self._directory).directory.files

    @property
    def history(self) -> EventHistory:
        """Recent events of groups and transactional ids, with reasons."""
        return _running(self.cluster).history

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap addresses of the first listener: `host:port,…`."""
        return next(iter(self.bootstrap_by_listener().values()))

    def bootstrap_by_listener(self) -> Mapping[str, str]:
        """Return the bootstrap addresses by listener name."""
        return self.nodes.bootstrap_by_listener()

    def protocol_by_listener(self) -> Mapping[str, SecurityProtocol]:
        """Return the security protocols by listener name, in the order of the listeners."""
        return {each.name: each.protocol for each in _running(self._assembly).listeners}

    @property
    def has_authorizer(self) -> bool:
        """Whether requests are checked by ACLs."""
        return _running(self._assembly).authorizer is not None

    @property
    def certificate_files(self) -> CertificateFiles | None:
        """The files with certificates that the broker made; None if it made none."""
        return None if self._assembly is None else self._assembly.certificate_files

    def new_endpoint_tls(self, *, is_required: bool) -> TlsServer | None:
        """Return TLS for another endpoint; see `ClusterAssembly.new_endpoint_tls`."""
        assembly = self._assembly
        return None if assembly is None else assembly.new_endpoint_tls(is_required=is_required)

    @property
    def disk_failures(self) -> Sequence[DiskFailure]:
        """Current problems of the disk: refused operations, damaged and missing files."""
        return _running(self._directory).directory.health.failures

    @property
    def emulated(self) -> str | None:
        """The Kafka release or the service that is emulated, if one was set, as text."""
        if self._settings.as_version is None:
            return None
        release = _running(self._assembly).config.release
        if release.profile is None:
            return f"Kafka {release.name}"
        return f"{release.profile.service}, otherwise as Kafka {release.name}"

    @property
    def settings(self) -> Settings:
        """The settings with which the broker was started."""
        return self._settings

    @property
    def seed(self) -> int | None:
        """The seed of all random values; None if they are different in each run."""
        return self._settings.seed

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return _running(self._directory).cluster_id

    @property
    def data_directory(self) -> str:
        """The path of the data directory."""
        return _running(self._directory).path

    def data_files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the path of each data file in the data directory, and its content."""
        return _running(self._directory).directory.read_files()

    @property
    def is_temporary(self) -> bool:
        """Whether the data directory is removed when the broker stops."""
        return _running(self._directory).is_temporary

    @property
    def is_in_memory(self) -> bool:
        """Whether the data is in memory, and not in a directory."""
        return _running(self._directory).is_in_memory


def _entropy_of(seed: int | None) -> Entropy:
    if seed is None:
        return SystemEntropy()
    from kafkalite.ports.seeded_entropy import SeededEntropy  # noqa: PLC0415 - rarely used

    return SeededEntropy(seed)


def _running(part: T | None) -> T:
    """Return a part of a broker that is running; raises RuntimeError otherwise."""
    if part is None:
        raise RuntimeError("the broker is not running")
    return part
