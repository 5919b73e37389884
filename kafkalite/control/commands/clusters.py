"""Commands about clusters that begin with a snapshot: make, list and stop them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import CommandError, Family, Row, Words, one_line

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker, Fork

MAX_FORKS: Final = 1_000
_ID: Final = About("id that `cluster list` prints", metavar="ID")


class UnknownClusterError(CommandError):
    """A cluster id that the broker does not have."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster that was made from a snapshot."""

    id: Annotated[str, About("Id of the cluster.")]
    bootstrap_servers: Annotated[str, About("Addresses for clients, separated by commas.")]
    control: Annotated[str | None, About("URL of its control API; null without one.")]


@dataclass(frozen=True, slots=True)
class ClusterList:
    """Clusters, in the order in which they were made."""

    clusters: Annotated[tuple[ClusterStatus, ...], About("All clusters that run.")]


@dataclass(frozen=True, slots=True)
class ForkCluster:
    """Start another cluster in this process, with the state of a snapshot.

    It has own ports and an own control API, and is independent from then on. Both share the data
    that neither changes. It ends with this broker.
    """

    snapshot_id: Annotated[
        str | None,
        About(
            "id of the snapshot; without it, the present state",
            alias="from",
            parse=str,
            metavar="ID",
        ),
    ] = None

    async def perform(self, broker: Broker) -> ClusterStatus:
        """Start the cluster; raises CommandError if that is impossible."""
        if broker.start_fork is None:
            raise CommandError("this broker cannot start other clusters")
        if len(broker.forks) >= MAX_FORKS:
            raise CommandError(f"there are {MAX_FORKS} clusters already: delete one first")
        try:
            snapshot = (
                broker.snapshot()
                if self.snapshot_id is None
                else broker.snapshots.find(self.snapshot_id)
            )
        except OSError as error:
            raise CommandError(f"no snapshot can be made: {error.strerror}") from error
        fork = await broker.start_fork(snapshot)
        broker.last_fork += 1
        cluster_id = f"c{broker.last_fork}"
        broker.forks[cluster_id] = fork
        return _status(cluster_id, fork)


@dataclass(frozen=True, slots=True)
class ListClusters:
    """List the clusters that were made from snapshots of this broker."""

    async def perform(self, broker: Broker) -> ClusterList:
        """Return all clusters."""
        return ClusterList(tuple(_status(*each) for each in broker.forks.items()))


@dataclass(frozen=True, slots=True)
class StopCluster:
    """Stop a cluster that was made from a snapshot, and return it."""

    cluster_id: Annotated[str, _ID]

    async def perform(self, broker: Broker) -> ClusterStatus:
        """Stop the cluster; raises UnknownClusterError for an unknown id."""
        fork = broker.forks.pop(self.cluster_id, None)
        if fork is None:
            known = f"they are {', '.join(broker.forks)}" if broker.forks else "there is none"
            raise UnknownClusterError(f"there is no cluster {self.cluster_id[:40]!r}; {known}")
        status = _status(self.cluster_id, fork)
        await fork.stop(0)
        return status


def _status(cluster_id: str, fork: Fork) -> ClusterStatus:
    broker = fork.broker
    servers = "" if broker is None else broker.bootstrap_servers
    return ClusterStatus(cluster_id, servers, fork.control_url)


def line_of(status: ClusterStatus) -> str:
    """Return a cluster as one line."""
    control = "" if status.control is None else f", control at {status.control}"
    return f"{status.id}: {status.bootstrap_servers}{control}"


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
            (Words("cluster list", "Print the clusters that were made from snapshots."),),
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
                    offers=("snapshot_id",),
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
            (
                Words(
                    "cluster stop", "Stop a cluster that was made from a snapshot.", ("cluster_id",)
                ),
            ),
            one_line(lambda status: f"stopped {line_of(status)}"),
            not_found=UnknownClusterError,
        ),
    ),
    {"cluster": "Start and stop clusters with the state of a snapshot."},
)
