"""Three nodes that fail, lag and get other replicas, compared with Kafka of two releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.advertised import advertised
from tests.conformance.compared_releases import RELEASES
from tests.conformance.node_comparison import compare, node_clusters
from tests.conformance.node_scenarios import failures, followers, lag, quorum, reassignments
from tests.conformance.node_world import NodeWorlds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.conformance.node_comparison import NodeClusters
    from tests.oracle.node_clusters import NodeCluster

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]

SCENARIOS = [
    *followers.SCENARIOS,
    *lag.SCENARIOS,
    *failures.SCENARIOS,
    *reassignments.SCENARIOS,
    *quorum.SCENARIOS,
]


@pytest.fixture(scope="module", params=RELEASES)
def clusters(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeClusters]:
    """Start a real Kafka of each release, and kafkalite, for all scenarios."""
    with node_clusters(tmp_path_factory.mktemp("clusters"), request.param) as running:
        yield running


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_both_clusters_give_the_same_answers(
    clusters: NodeClusters, scenario: Callable[[NodeWorlds], None], attempt: int
) -> None:
    compare(clusters, scenario, scenario.__name__, attempt)


def test_the_end_of_a_node_is_noticed(clusters: NodeClusters, attempt: int) -> None:
    """Kafka's controller waits for the session of a broker, and kafkalite's does not."""

    def leaders(cluster: NodeCluster) -> tuple[int, int]:
        """Return the leader at once after the end of its node, and later."""
        worlds = NodeWorlds(cluster, f"noticed-{attempt}")
        try:
            worlds.create("led", (2, 1))
            worlds.kill(2)
            at_once = worlds.leader_at(1, "led")
            worlds.settle("led", 1, (1,))
            return at_once, worlds.leader_at(1, "led")
        finally:
            worlds.close()

    assert leaders(clusters.real) == (2, 1)
    assert leaders(clusters.emulated) == (1, 1)


def test_releases_advertise_the_same(clusters: NodeClusters, attempt: int) -> None:
    real, emulated = (
        advertised_by(cluster, f"advertised-{attempt}")
        for cluster in (clusters.real, clusters.emulated)
    )
    assert emulated == real


def advertised_by(cluster: NodeCluster, name: str) -> Mapping[str, str | None]:
    """Return what the first node advertises."""
    worlds = NodeWorlds(cluster, name)
    try:
        worlds.create("described", (1,))
        return advertised(worlds.node(1), worlds.full_name("described"))
    finally:
        worlds.close()
