"""Two clusters of three nodes, a real Kafka and kafkalite, that play the same scenarios."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.config.releases import DEFAULT
from tests.conformance.compare import differences
from tests.conformance.compared_releases import RELEASES
from tests.conformance.recordings import recording_of, renamed
from tests.conformance.scenario_nodes import ScenarioNodes
from tests.oracle.isolation import Network
from tests.oracle.node_clusters import NODE_IDS, ONE_CONTROLLER, EmulatedNodes, RealNodes
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conformance.compared_releases import Release
    from tests.conformance.scenario_cluster import Entry
    from tests.oracle.node_clusters import NodeCluster


_CONFIG: Final = {
    # Kafka notices failed nodes soon, and moves no leaders on its own.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "auto.leader.rebalance.enable": "false",
    # Followers soon find a leader that was just elected.
    "replica.fetch.backoff.ms": "100",
    # The timestamps of the records are in the past.
    "log.retention.ms": "-1",
    "log.initial.task.delay.ms": "300",
    "log.retention.check.interval.ms": "300",
    # A node that was killed knows its high watermarks.
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
_NODE_CONFIG: Final = {
    # A follower of this node that does nothing leaves the ISR before its session ends.
    1: {"broker.rack": "a", "replica.lag.time.max.ms": "1000"},
    2: {"broker.rack": "b", "num.partitions": "2", "offset.metadata.max.bytes": "10"},
    3: {"broker.rack": "c"},
}


class NodeClusters(NamedTuple):
    """A real Kafka and kafkalite."""

    release: Release
    real: RealNodes
    emulated: EmulatedNodes


@contextmanager
def node_clusters(
    directory: Path,
    release: str,
    controllers: tuple[int, ...] = ONE_CONTROLLER,
    *,
    can_isolate: bool = False,
) -> Iterator[NodeClusters]:
    """Run both clusters as a release in `RELEASES`; with `can_isolate`, nodes can be isolated."""
    compared = RELEASES[release]
    real = RealNodes(
        directory / "kafka",
        _CONFIG,
        _NODE_CONFIG,
        release=compared.version,
        controllers=controllers,
        network=Network(directory / "network", NODE_IDS) if can_isolate else None,
    )
    emulated = emulated_nodes(directory / "kafkalite", release)
    try:
        with required():
            real.start()
        emulated.start()
        yield NodeClusters(compared, real, emulated)
    finally:
        real.close()
        emulated.close()


def compare(
    clusters: NodeClusters,
    scenario: Callable[[ScenarioNodes], None],
    name: str,
    attempt: int,
    *,
    is_recorded: bool = False,
) -> None:
    """Play a scenario on both clusters, and assert that the answers are equal.

    If it is recorded, the answers of Kafka must also be those of its recording.
    """
    real, emulated = (
        play(cluster, scenario, name, attempt) for cluster in (clusters.real, clusters.emulated)
    )
    lines = differences(real, emulated)
    if is_recorded:
        recording = recording_of(scenario, clusters.release.name or DEFAULT)
        lines += recording.check(name, real)
    assert not lines, "\n".join(lines)


def play(
    cluster: NodeCluster, scenario: Callable[[ScenarioNodes], None], name: str, attempt: int = 1
) -> list[Entry]:
    """Run a scenario on a cluster and return the transcript.

    Each attempt has its own topics, for which the transcript has the names of the first attempt.
    """
    name = name.replace("_", "-")
    nodes = ScenarioNodes(cluster, f"{name}-{attempt}")
    try:
        scenario(nodes)
    finally:
        nodes.close()
    return renamed(nodes.transcript, f"{name}-{attempt}", f"{name}-1")


def emulated_nodes(directory: Path, release: str) -> EmulatedNodes:
    """Return kafkalite as a release in `RELEASES`, before its start."""
    return EmulatedNodes(directory, _CONFIG, _NODE_CONFIG, as_version=RELEASES[release].name)
