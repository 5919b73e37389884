"""Commands about the other clusters in the process of a broker: start, list and stop them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.options import parse_memory_size
from kafkalite.config.typed_json import About
from kafkalite.control.command_table import CommandError, Family, Row, Words, one_line
from kafkalite.server.virtual_clusters import (
    CLIENT_ID,
    START,
    ClusterError,
    UnknownClusterError,
)

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker
    from kafkalite.server.snapshot import Snapshot

NOW: Final = "now"
_ID: Final = About("id that `cluster list` prints", metavar="ID")


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster in the process of the broker."""

    id: Annotated[str, About("Id of the cluster: its name if it has one.")]
    bootstrap_servers: Annotated[str, About("Addresses for clients, separated by commas.")]
    control: Annotated[str | None, About("URL of its control API; null without one.")]
    client_id_prefix: Annotated[
        str | None,
        About(
            "What the client ids of its clients begin with; null if it has ports or host names of "
            "its own."
        ),
    ]
    memory_bytes: Annotated[
        int, About("Bytes of data in memory that belong to this cluster alone.")
    ]


@dataclass(frozen=True, slots=True)
class ClusterList:
    """Clusters, in the order in which they were made."""

    clusters: Annotated[tuple[ClusterStatus, ...], About("All clusters that run.")]


@dataclass(frozen=True, slots=True)
class ForkCluster:
    """Start another cluster in this process, with the state of a snapshot or a new one.

    It has an own control API, and is independent from then on. Both share the data that neither
    changes. It ends with this broker. With a name, and a broker with `--clusters`, its clients use
    the ports of this broker; otherwise it has own ports.
    """

    snapshot_id: Annotated[
        str | None,
        About(
            "id of a snapshot, `now` for the present state, or `start` for a new cluster with the "
            "topics and users of the broker's start; by default `start` with a name, else `now`",
            alias="from",
            parse=str,
            metavar="ID",
        ),
    ] = None
    name: Annotated[
        str | None,
        About(
            "name of the cluster, which is its id: 1 to 63 of a-z, 0-9 and '-'",
            parse=str,
            metavar="NAME",
        ),
    ] = None
    memory_limit: Annotated[
        str | None,
        About(
            "size such as 64m that its own data in memory may have; by default that of "
            "--cluster-memory-limit, or a quarter of the memory for all clusters if it has a name",
            parse=str,
            metavar="SIZE",
        ),
    ] = None
    at: Annotated[
        str | None,
        About(
            "begin with the state of an earlier point: a time, such as 2026-03-01T12:00:00Z, a "
            "duration before now, such as 5m, or an offset of a log, such as "
            "__consumer_offsets-7:42, whose record and all later ones are absent",
            parse=str,
            metavar="POINT",
        ),
    ] = None

    async def perform(self, broker: Broker) -> ClusterStatus:
        """Start the cluster; raises ValueError if that is impossible."""
        try:
            limit = None if self.memory_limit is None else parse_memory_size(self.memory_limit)
        except ValueError as error:
            raise CommandError(f"memory_limit: {error}") from error
        try:
            snapshot = self._snapshot(broker)
            cluster_id = await broker.clusters.start(self.name, snapshot, limit)
        except OSError as error:
            raise CommandError(f"no cluster can be started: {error.strerror}") from error
        except ClusterError as error:
            raise CommandError(str(error)) from error
        if broker.clusters.get(cluster_id) is None:
            raise CommandError(f"the cluster {cluster_id} was stopped when it had started")
        return status_of(broker, cluster_id)

    def _snapshot(self, broker: Broker) -> Snapshot | None:
        source = self.snapshot_id
        if self.at is not None:
            if source not in {None, NOW}:
                raise CommandError("at: a point in the past of the broker, so omit the snapshot")
            from kafkalite.control.time_travel.past_snapshot import snapshot_at  # noqa: PLC0415 - rarely used

            return snapshot_at(broker, self.at)
        if source is None:
            source = NOW if self.name is None else START
        if source == START:
            return None
        return broker.snapshot() if source == NOW else broker.snapshots.find(source)


@dataclass(frozen=True, slots=True)
class ListClusters:
    """List the other clusters in this process."""

    async def perform(self, broker: Broker) -> ClusterList:
        """Return all clusters."""
        return ClusterList(tuple(status_of(broker, each) for each, _ in broker.clusters.items()))


@dataclass(frozen=True, slots=True)
class StopCluster:
    """Stop another cluster in this process, and return it. Its clients are disconnected."""

    cluster_id: Annotated[str, _ID]

    async def perform(self, broker: Broker) -> ClusterStatus:
        """Stop the cluster; raises UnknownClusterError for an unknown id."""
        clusters = broker.clusters
        status = None
        if clusters.get(self.cluster_id) is not None:
            status = status_of(broker, self.cluster_id)
        cluster = clusters.forget(self.cluster_id)
        assert status is not None
        await cluster.stop(0)
        return status


def status_of(broker: Broker, cluster_id: str) -> ClusterStatus:
    """Return a description of a cluster of the broker."""
    clusters = broker.clusters
    cluster = clusters.get(cluster_id)
    assert cluster is not None
    own = cluster.broker
    is_routed = own is not None and own.settings.routed is not None
    by_client_id = is_routed and broker.settings.clusters == CLIENT_ID
    return ClusterStatus(
        cluster_id,
        "" if own is None else own.bootstrap_servers,
        cluster.control_url,
        f"{cluster_id}/" if by_client_id else None,
        clusters.used_bytes(cluster_id),
    )


def line_of(status: ClusterStatus) -> str:
    """Return a cluster as one line."""
    prefix = "" if status.client_id_prefix is None else f" as {status.client_id_prefix}…"
    control = "" if status.control is None else f", control at {status.control}"
    return f"{status.id}: {status.bootstrap_servers}{prefix}{control}"


def _lines(listed: ClusterList, _: object) -> list[str]:
    return list(map(line_of, listed.clusters)) or ["there are no other clusters"]


_PATH = "/v1/clusters"

COMMANDS = Family(
    (
        Row(
            ListClusters,
            ClusterList,
            "GET",
            _PATH,
            (Words("cluster list", "Print the other clusters in the process of the broker."),),
            _lines,
        ),
        Row(
            ForkCluster,
            ClusterStatus,
            "POST",
            _PATH,
            (
                Words(
                    "cluster fork",
                    "Start another cluster with the state of a snapshot.",
                    offers=("snapshot_id", "at", "memory_limit"),
                ),
                Words(
                    "cluster create",
                    "Start another cluster with a name.",
                    ("name",),
                    offers=("snapshot_id", "at", "memory_limit"),
                ),
            ),
            one_line(line_of),
            {"from": "s1"},
            201,
        ),
        Row(
            StopCluster,
            ClusterStatus,
            "DELETE",
            f"{_PATH}/{{cluster_id}}",
            (Words("cluster stop", "Stop another cluster in the process.", ("cluster_id",)),),
            one_line(lambda status: f"stopped {line_of(status)}"),
            not_found=UnknownClusterError,
        ),
    ),
    {"cluster": "Start and stop other clusters in the process of a broker."},
)
