"""Broker: one emulated cluster of one or more nodes, listening.

The order of a start: settings that cannot be met are found first, then the ports are bound, then
the data is read, and clients are let in last. The order of the end: nobody is let in, nothing more
is served, what is owed is answered, answers leave, connections close, data is closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.apis.context import Endpoint
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.releases import find_in
from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.ports.clock import DrivenClock
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.files import OsFiles
from kafkalite.server.addresses import Address
from kafkalite.server.admission import Admission
from kafkalite.server.cluster import Cluster
from kafkalite.server.home import Home, HomeError
from kafkalite.server.listener import Door, Listener
from kafkalite.server.logging import Level, Log
from kafkalite.server.maintenance import Maintenance
from kafkalite.wire.frames import SHARED_BYTES, ReceiveBuffers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.apis.contract import Api
    from kafkalite.capture.recorder import Recorder
    from kafkalite.coordinator.journal import Journal
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.ports.files import Files
    from kafkalite.server.settings import Settings
    from kafkalite.server.stage import Dispatch, Stage


class Node(NamedTuple):
    """One node's listeners, and the connections that came in by them."""

    node_id: int
    listeners: Sequence[Listener]
    admission: Admission

    def stop_serving(self) -> None:
        """Leave requests where they are; answers that are owed may still leave."""
        self.admission.stop()
        for connection in self.admission:
            connection.stop_serving()

    async def close(self, grace_s: float) -> None:
        """Close every connection once its answers have left, after `grace_s` in any case."""
        for connection in self.admission:
            connection.close()
        try:
            async with asyncio.timeout(grace_s):
                await self.admission.is_empty.wait()
        except TimeoutError:
            for connection in self.admission:
                connection.abort()


class Broker:
    """One cluster in this process; `start` and `stop` run on the event loop that serves it."""

    def __init__(
        self,
        settings: Settings,
        log: Log | None = None,
        *,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        files: Files | None = None,
        recorder: Recorder | None = None,
        stage: Stage | None = None,
    ) -> None:
        self._settings = settings
        self._log = Log() if log is None else log
        self._clock: Clock = DrivenClock() if clock is None else clock
        self._entropy: Entropy = SystemEntropy() if entropy is None else entropy
        self._files = files
        self._recorder = recorder
        self._stage = stage
        self._listeners: dict[int, list[Listener]] = {}
        self._nodes: list[Node] = []
        self._home: Home | None = None
        self._maintenance: Maintenance | None = None
        self._endpoints: dict[str, list[Endpoint]] = {}
        self.cluster: Cluster | None = None

    async def start(self) -> None:
        """Listen and serve; on failure everything is let go, and the exception says why.

        Raises AddressError, ConfigError, HomeError, SettingsError or TopicError.
        """
        try:
            self._open()
            await self._let_in()
        except BaseException:
            await self.stop(grace_s=0)
            raise

    def _open(self) -> None:
        """Do all of a start that comes before the first client."""
        settings = self._settings
        node_ids = settings.node_ids
        specs = settings.listeners
        config = BrokerConfig.from_text(settings.config, as_version=settings.as_version)
        config.log_levels.begin(self._log.level.kafka_name)
        config.log_levels.subscribe(self._set_log_level)
        for index, node_id in enumerate(node_ids):
            own = self._listeners[node_id] = []
            for spec in specs:
                # One by one: when a port is taken, those bound before must be let go.
                own.append(Listener(spec, index))  # noqa: PERF401
        path = settings.log_directory
        files = self._files or OsFiles(is_lasting=path is not None)
        self._home = Home(files, path, node_ids[0], self._entropy)
        try:
            self.cluster = Cluster(
                directory=self._home.directory,
                clock=self._clock,
                entropy=self._entropy,
                config=config,
                node_ids=node_ids,
            )
            self.cluster.have_topics(settings.topics)
        except OSError as error:
            where = error.filename or self._home.path
            raise HomeError(f"cannot use {where}: {error.strerror}") from error
        self._tell_losses(self._home, self.cluster)
        self._tell_addresses(config)

    def _tell_losses(self, home: Home, cluster: Cluster) -> None:
        """Say what of the data directory was not taken over."""
        for name, stray in home.directory.set_aside:
            self._log.warning("a directory belongs to no topic", directory=name, renamed=stray)
        for (topic, index), log in cluster.partitions.logs().items():
            if log.cut_bytes:
                self._log.warning(
                    "the end of a log could not be read and was cut off",
                    partition=f"{topic}-{index}",
                    cut_bytes=log.cut_bytes,
                    end_offset=log.end_offset,
                )
        for index, fault in cluster.groups.unreadable.items():
            self._log.error(
                "groups of this partition have no coordinator: its log is unreadable",
                exception=fault,
                partition=f"{OFFSETS_TOPIC}-{index}",
            )
        for index, fault in cluster.shares.unreadable.items():
            self._log.error(
                "share states of this partition have no coordinator: its log is unreadable",
                exception=fault,
                partition=f"{SHARE_STATE_TOPIC}-{index}",
            )

        for index, fault in cluster.transactions.unreadable.items():
            self._log.error(
                "transactional ids of this partition have no coordinator: its log is unreadable",
                exception=fault,
                partition=f"{TRANSACTION_STATE_TOPIC}-{index}",
            )

    async def _let_in(self) -> None:
        """Open the doors."""
        cluster, home = self._running()
        services = cluster.services(home.cluster_id, self._endpoints.__getitem__)
        config = services.config
        dispatcher = Dispatcher(find_in(config.release), self._report_fault)
        stage = self._stage
        serve: Dispatch = dispatcher.dispatch
        if stage is not None:
            serve = stage.enter(services, serve)
        queued_bytes = config.int("queued.max.request.bytes")
        buffers = ReceiveBuffers()
        loop = asyncio.get_running_loop()
        for node in self._nodes:
            node.admission.start()
            for listener in node.listeners:
                door = Door(
                    services=services,
                    node_id=node.node_id,
                    listener=listener.name,
                    admission=node.admission,
                    dispatch=serve,
                    settle=dispatcher.settle if stage is None else None,
                    buffers=buffers,
                    max_request_bytes=config.int("socket.request.max.bytes"),
                    max_kept_bytes=queued_bytes if queued_bytes > 0 else SHARED_BYTES // 2,
                    unsent=services.unsent,
                    log=self._log,
                    recorder=self._recorder,
                )
                await listener.start(loop, door)
        self._maintenance = Maintenance(cluster, config, self._clock, self._log)
        self._maintenance.start()

    async def stop(self, grace_s: float = 1.0) -> None:
        """End cleanly: answers that were owed may take `grace_s` seconds to leave.

        Harmless when nothing runs.
        """
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.stop()
        self._listeners.clear()
        if self._maintenance is not None:
            self._maintenance.stop()
        for node in self._nodes:
            node.stop_serving()
        if self.cluster is not None:
            # Whoever waits is answered now; the answers are put together once this one rests.
            self.cluster.end_waits()
            await asyncio.sleep(0)
        for node in self._nodes:
            await node.close(grace_s)
        if self._nodes and self._stage is not None:
            self._stage.leave()
        self._nodes.clear()
        home, self._home = self._home, None
        cluster, self.cluster = self.cluster, None
        if home is not None:
            try:
                home.leave(None if cluster is None else cluster.partitions.logs())
            except OSError as error:
                # Nothing is lost: what could not be written now is recovered by the next start.
                self._log.error(
                    "the data directory could not be closed cleanly",
                    directory=home.path,
                    reason=str(error),
                )

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given to find the cluster, by its first listener: `host:port,…`."""
        return next(iter(self.bootstrap_by_listener().values()))

    def bootstrap_by_listener(self) -> Mapping[str, str]:
        """Return each listener's name and what its clients are given to find the cluster."""
        return {
            name: ",".join(str(Address(each.host, each.port)) for each in endpoints)
            for name, endpoints in self._endpoints.items()
        }

    @property
    def clock(self) -> Clock:
        """The clock that all of the broker goes by."""
        return self._clock

    @property
    def recorder(self) -> Recorder | None:
        """Where all traffic is written down, if anywhere."""
        return self._recorder

    @property
    def journal(self) -> Journal:
        """Why things befell groups and transactional ids, lately."""
        return self._running()[0].journal

    @property
    def as_version(self) -> str | None:
        """The release of Kafka that it speaks as, where one was asked for."""
        return self._settings.as_version

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._running()[1].cluster_id

    @property
    def data_directory(self) -> str:
        """Where the data is."""
        return self._running()[1].path

    @property
    def is_temporary(self) -> bool:
        """Whether the data goes when the broker does."""
        return self._running()[1].is_temporary

    def _running(self) -> tuple[Cluster, Home]:
        if self.cluster is None or self._home is None:
            raise RuntimeError("the broker is not running")
        return self.cluster, self._home

    def _tell_addresses(self, config: BrokerConfig) -> None:
        """Let clients, and whoever asks for a node's settings, know where each node listens."""
        _, home = self._running()
        rack = config.str_or_none("broker.rack")
        for node_id, listeners in self._listeners.items():
            self._nodes.append(Node(node_id, listeners, Admission(config, self._clock)))
            for listener in listeners:
                told = listener.address
                endpoint = Endpoint(node_id, told.host, told.port, rack)
                self._endpoints.setdefault(listener.name, []).append(endpoint)
            config.set_apart(
                node_id,
                {
                    "listeners": ",".join(f"{each.name}://{each.bound}" for each in listeners),
                    "advertised.listeners": ",".join(
                        f"{each.name}://{each.address}" for each in listeners
                    ),
                    "log.dirs": home.path,
                },
            )

    def _set_log_level(self, kafka_name: str) -> None:
        self._log.level = Level.of_kafka(kafka_name)

    def _report_fault(self, api: Api, fault: Exception) -> None:
        self._log.error("a request met a fault of this broker", exception=fault, api=api.name)
