"""Three nodes that are controllers, too: the active one fails. Compared with Kafka."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.releases import DEFAULT
from kafkalite.protocol._generated.messages.describe_quorum import DescribeQuorumRequest
from tests.conformance.compare import differences
from tests.conformance.compared_releases import RELEASES
from tests.conformance.node_comparison import emulated_nodes, node_clusters, play
from tests.conformance.node_scenarios.controllers import controller_fails_and_returns
from tests.conformance.raw import RawClient
from tests.oracle.node_clusters import NODE_IDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.node_comparison import NodeClusters
    from tests.oracle.node_clusters import EmulatedNodes

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeClusters]:
    """Start a real Kafka with three controllers, and kafkalite."""
    directory = tmp_path_factory.mktemp("clusters")
    with node_clusters(directory, DEFAULT, controllers=NODE_IDS) as running:
        yield running


@pytest.fixture(scope="module", params=[release for release in RELEASES if release != DEFAULT])
def earlier(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmulatedNodes]:
    """Start kafkalite as an earlier release, whose nodes answer as those of the default one."""
    nodes = emulated_nodes(tmp_path_factory.mktemp("earlier"), request.param)
    nodes.start()
    yield nodes
    nodes.close()


def active_controller(port: int) -> int:
    """Return the node that leads the quorum of a real Kafka, as one of its nodes reports."""
    rows = DescribeQuorumRequest
    partition = rows.PartitionData(partition_index=0)
    topic = rows.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    client = RawClient(port)
    try:
        answer = client.call(rows(topics=[topic]), 2)
    finally:
        client.close()
    leader: int = answer.topics[0].partitions[0].leader_id
    return leader


def test_the_active_controller_fails_and_returns(
    clusters: NodeClusters, earlier: EmulatedNodes, attempt: int
) -> None:
    controller = active_controller(clusters.real.port(NODE_IDS[0]))
    assert controller in NODE_IDS
    scenario = partial(controller_fails_and_returns, controller=controller)
    real, emulated, as_earlier = (
        play(cluster, scenario, "controller-fails", attempt)
        for cluster in (clusters.real, clusters.emulated, earlier)
    )
    lines = [*differences(real, emulated), *differences(real, as_earlier)]
    assert not lines, "\n".join(lines)
