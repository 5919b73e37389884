"""VirtualClusters: the other clusters in the process of a broker, by id."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.memory_files import InMemoryFiles, Memory
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.settings import Routed
from kafkalite.server.snapshot import clock_of, clock_state, fork_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from kafkalite.ports.clock import Clock
    from kafkalite.ports.files import Files
    from kafkalite.server.broker import Broker, Fork
    from kafkalite.server.settings import Settings
    from kafkalite.server.snapshot import Snapshot

MAX_CLUSTERS: Final = 1_000
START: Final = "start"
"""What a new cluster begins with: the topics and users of the settings."""
CLIENT_ID: Final = "client-id"
SERVER_NAME: Final = "sni"
NAME_FORMAT: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
"""The names of clusters: labels of host names (RFC 1123) in lower case."""
_SHARES: Final = 4
"""A cluster with a name may have this part of the memory, unless it has another limit."""
_MAX_IDLE_CHECK_S: Final = 60.0
_NUMBERED: Final = re.compile(r"c[0-9]+", re.ASCII)


class ClusterError(ValueError):
    """A cluster that cannot be started or found; the text is one sentence."""


class UnknownClusterError(ClusterError):
    """An id that no cluster has."""


class ClusterPlan(NamedTuple):
    """What another cluster in the process of a broker begins with."""

    settings: Settings
    clock: Clock
    snapshot: Snapshot | None
    """None for a new cluster, with the topics and users of the settings."""
    files: Files | None
    """The files of a new cluster; None with a snapshot."""


class VirtualClusters:
    """The clusters that commands, tests and clients have started; they end with the broker."""

    __slots__ = (
        "_broker",
        "_by_id",
        "_idle_since_s",
        "_idle_timer",
        "_memories",
        "_number",
        "_starting",
        "_stopping",
    )

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_id: dict[str, Fork] = {}
        self._memories: dict[str, Memory] = {}
        self._starting: dict[str, asyncio.Task[Fork]] = {}
        self._stopping: set[asyncio.Task[bool]] = set()
        self._idle_since_s: dict[str, float] = {}
        """Cluster without connections → when that was noticed, by the time of the event loop."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._number = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def items(self) -> Iterator[tuple[str, Fork]]:
        """Yield the id and the cluster of all that run, in the order of their starts."""
        yield from self._by_id.items()

    def get(self, cluster_id: str) -> Fork | None:
        """Return the cluster with this id; None if there is none."""
        return self._by_id.get(cluster_id)

    def used_bytes(self, cluster_id: str) -> int:
        """Return the bytes in memory that belong to one cluster alone, without shared ones."""
        return self._memories[cluster_id].used_bytes

    def plan(
        self, name: str | None, snapshot: Snapshot | None, memory_limit: int | None = None
    ) -> tuple[ClusterPlan, Memory]:
        """Return what a cluster with this name begins with, and the memory that it may use.

        Without a snapshot, it begins as the broker began. A cluster with a name has a quarter of
        the memory by default, so that no client can use that of all others.
        """
        broker = self._broker
        settings = broker.settings
        limit = settings.cluster_memory_limit if memory_limit is None else memory_limit
        whole = broker.memory
        if limit is None and name is not None and whole.limit_bytes is not None:
            limit = whole.limit_bytes // _SHARES
        memory = Memory(limit, whole)
        routed = None if name is None or settings.clusters is None else self._routed(name)
        own = fork_settings(settings, broker.listeners)._replace(routed=routed)
        if snapshot is not None:
            state = snapshot.cluster._replace(files=snapshot.cluster.files.copy(memory))
            snapshot = snapshot._replace(cluster=state)
            return ClusterPlan(own, clock_of(snapshot), snapshot, None), memory
        clock = AdjustableClock()
        present = clock_state(broker.clock)
        if present is not None:
            clock.restore(present)
        return ClusterPlan(
            own._replace(cluster_id=None), clock, None, InMemoryFiles(memory)
        ), memory

    def _routed(self, name: str) -> Routed:
        by_host = self._broker.settings.clusters == SERVER_NAME
        return Routed(
            {
                node_id: [
                    spec._replace(
                        advertised=spec.advertised._replace(host=f"{name}.{spec.advertised.host}")
                    )
                    if by_host and spec.protocol.uses_tls and spec.advertised is not None
                    else spec
                    for spec in specs
                ]
                for node_id, specs in self._broker.nodes.routed_specs().items()
            },
            self._broker.certificate_files,
        )

    async def start(
        self,
        name: str | None,
        snapshot: Snapshot | None,
        memory_limit: int | None = None,
    ) -> str:
        """Start a cluster, and return its id: its name, or one of the broker.

        Raises ClusterError for an invalid or used name and beyond the limit, and the exceptions of
        the start.
        """
        start = self._broker.start_fork
        if start is None:
            raise ClusterError("this broker cannot start other clusters")
        if name is not None:
            check_name(name)
            if name in self._by_id or name in self._starting:
                raise ClusterError(f"there is a cluster {name!r} already")
        if len(self._by_id) + len(self._starting) >= MAX_CLUSTERS:
            raise ClusterError(f"there are {MAX_CLUSTERS} clusters already: delete one first")
        self._number += name is None
        cluster_id = f"c{self._number}" if name is None else name
        plan, memory = self.plan(name, snapshot, memory_limit)
        task = asyncio.ensure_future(self._started(cluster_id, start(plan), memory))
        self._starting[cluster_id] = task
        # Other clients may wait for it, so it starts also if this caller is cancelled.
        await asyncio.shield(task)
        return cluster_id

    async def _started(self, cluster_id: str, start: Awaitable[Fork], memory: Memory) -> Fork:
        try:
            self._by_id[cluster_id] = cluster = await start
        finally:
            del self._starting[cluster_id]
        self._memories[cluster_id] = memory
        if self._idle_timer is None and self._broker.settings.cluster_idle_timeout is not None:
            self._check_later(self._broker.settings.cluster_idle_timeout)
        return cluster

    def _check_later(self, timeout_s: int) -> None:
        loop = asyncio.get_running_loop()

        def check() -> None:
            self.check_idle(timeout_s, loop.time())
            self._check_later(timeout_s)

        self._idle_timer = loop.call_later(min(timeout_s / 4, _MAX_IDLE_CHECK_S), check)

    def check_idle(self, timeout_s: int, now_s: float) -> None:
        """Stop the clusters without a connection; see `idle_clusters`."""
        for cluster_id in self.idle_clusters(now_s, timeout_s):
            self._broker.log.info("no client is connected", cluster=cluster_id, seconds=timeout_s)
            task = asyncio.ensure_future(self.forget(cluster_id).stop(0))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    def idle_clusters(self, now_s: float, timeout_s: float) -> list[str]:
        """Return the clusters that had no connection in the calls for `timeout_s` seconds."""
        idle = []
        for cluster_id, cluster in self._by_id.items():
            broker = cluster.broker
            if broker is None or any(True for _ in broker.nodes.connections()):
                self._idle_since_s.pop(cluster_id, None)
            elif now_s - self._idle_since_s.setdefault(cluster_id, now_s) >= timeout_s:
                idle.append(cluster_id)
        return idle

    async def open(self, name: str) -> Fork:
        """Return the cluster of a client, which is started if there is none with the name.

        Raises ClusterError for an invalid name and beyond the limit, and the exceptions of the
        start.
        """
        starting = self._starting.get(name)
        if starting is not None:
            return await asyncio.shield(starting)
        found = self._by_id.get(name)
        if found is not None:
            return found
        maximum = self._broker.settings.max_clusters
        if len(self._by_id) + len(self._starting) >= maximum:
            raise ClusterError(
                f"there are {maximum} clusters already, and none with the name {name!r}: raise "
                "--max-clusters, or delete one"
            )
        await self.start(name, None)
        self._broker.log.info("started a cluster for a client", cluster=name)
        return self._by_id[name]

    def forget(self, cluster_id: str) -> Fork:
        """Return a cluster that its caller stops; raises UnknownClusterError."""
        found = self._by_id.pop(cluster_id, None)
        if found is None:
            known = f"they are {', '.join(self._by_id)}" if self._by_id else "there is none"
            raise UnknownClusterError(f"there is no cluster {cluster_id[:40]!r}; {known}")
        del self._memories[cluster_id]
        self._idle_since_s.pop(cluster_id, None)
        broker = found.broker
        if broker is not None:
            count = sum(1 for _ in broker.nodes.connections())
            self._broker.log.info("stopped a cluster", cluster=cluster_id, connections=count)
        return found

    async def stop(self, grace_s: float) -> None:
        """Stop all clusters; pending answers may take `grace_s` seconds to be sent."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if self._stopping:
            await asyncio.wait(self._stopping)
        while self._by_id or self._starting:
            for task in tuple(self._starting.values()):
                await asyncio.wait((task,))
                await asyncio.sleep(0)
            clusters = tuple(self._by_id.values())
            self._by_id.clear()
            self._memories.clear()
            self._idle_since_s.clear()
            for cluster in clusters:
                await cluster.stop(grace_s)


def check_name(name: str) -> None:
    """Raise ClusterError for a name that is invalid, or one of the ids that the broker chooses."""
    if not NAME_FORMAT.fullmatch(name):
        raise ClusterError(
            f"the name {name[:70]!r} is invalid: a cluster has 1 to 63 of a-z, 0-9 and '-', and "
            "begins and ends with one of a-z and 0-9"
        )
    if _NUMBERED.fullmatch(name):
        raise ClusterError(f"the name {name!r} is one that the broker chooses for other clusters")
