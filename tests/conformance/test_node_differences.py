"""Known differences of clusters of three nodes: the answers of a real Kafka and of kafkalite.

`tests/docs/known_differences.py` lists the differences. Kafka is as slow as a test needs: its
followers are paused.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.node_comparison import node_clusters
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenario_nodes import ScenarioNodes
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.configs import BROKER, DELETE, SET, alter
from tests.conformance.test_nodes import group_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.node_comparison import NodeClusters
    from tests.oracle.node_clusters import NodeCluster

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]

_ATTEMPTS: Final = 5
_SOON_S: Final = 0.3
"""Less than a third of the replica.lag.time.max.ms of node 1."""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeClusters]:
    """Start a real Kafka of the default release, and kafkalite."""
    with node_clusters(tmp_path_factory.mktemp("differences"), "4.4") as running:
        yield running


@contextmanager
def nodes_of(cluster: NodeCluster, name: str) -> Iterator[ScenarioNodes]:
    """Open the nodes of a cluster; in the end, all of them run."""
    nodes = ScenarioNodes(cluster, name)
    try:
        yield nodes
    finally:
        nodes.close()


def test_a_controlled_shutdown_is_known_at_once(clusters: NodeClusters, attempt: int) -> None:
    def ask(cluster: NodeCluster) -> tuple[int, int]:
        """Return the leader at once after the shutdown of its node, and later."""
        with nodes_of(cluster, f"shutdown-{attempt}") as nodes:
            nodes.create("led", (2, 1))
            nodes.stop(2)
            at_once = nodes.leader_at(1, "led")
            nodes.settle("led", 1, (1,))
            return at_once, nodes.leader_at(1, "led")

    assert ask(clusters.real) in ((1, 1), (2, 1))
    assert ask(clusters.emulated) == (1, 1)


def test_only_the_leader_removes_old_records(clusters: NodeClusters, attempt: int) -> None:
    """The records of a partition that node 2 leads are too old for node 1, which has a replica."""

    def ask(cluster: NodeCluster) -> int:
        """Return the first offset at node 1."""
        with nodes_of(cluster, f"old-records-{attempt}") as nodes:
            node = nodes.node(1)

            def starts_later(response: Any) -> bool:  # noqa: ANN401 - any response class
                return bool(response.responses[0].partitions[0].log_start_offset)

            nodes.create("led-2", (2, 1))
            nodes.produce(2, "led-2", b"old")
            nodes.settle("led-2", 2, (1, 2))
            node.probe(alter(BROKER, "1", ("log.retention.ms", SET, "3600000")), 1)
            # When the records of the second topic are removed, another check of all has ended.
            for topic in ("first", "second"):
                nodes.create(topic, (1,))
                nodes.produce(1, topic, b"old")
                node.call_until(nodes.fetch_request(topic, 1), 12, starts_later)
            row = node.probe(nodes.fetch_request("led-2", 1), 12).responses[0]
            node.probe(alter(BROKER, "1", ("log.retention.ms", DELETE, None)), 1)
            return int(row.partitions[0].log_start_offset)

    assert ask(clusters.real) == 1
    assert ask(clusters.emulated) == 0


def test_a_commit_does_not_wait_for_replicas(clusters: NodeClusters, attempt: int) -> None:
    """Kafka's coordinator waits until a follower that does nothing leaves the ISR."""

    def ask(cluster: NodeCluster, *, is_soon: bool) -> bool:
        """Return whether one of several commits is answered soon, or is not."""
        with nodes_of(cluster, f"commits-{attempt}") as nodes:
            nodes.create("topic", (1,))
            group, node = group_at(nodes.node(1)), nodes.node(1)
            request = commit(group, nodes.full_name("topic"), 0)
            for _ in range(_ATTEMPTS):
                node.call_until(request, 9, lambda answer: not _error(answer))
                nodes.create(f"ready-{time.monotonic_ns()}", (2, 1))  # all nodes follow
                nodes.pause_replication(2)
                before_s = time.monotonic()
                assert _error(node.probe(request, 9)) == ErrorCode.NONE
                elapsed_s = time.monotonic() - before_s
                nodes.resume_replication(2)
                if (elapsed_s < _SOON_S) is is_soon:
                    return True
            return False

    assert ask(clusters.real, is_soon=False)
    assert ask(clusters.emulated, is_soon=True)


def _error(answer: Any) -> ErrorCode:  # noqa: ANN401 - a response
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_nodes_share_a_directory(clusters: NodeClusters, attempt: int) -> None:
    def ask(cluster: NodeCluster) -> int:
        """Return the number of different log directories of all nodes."""
        with nodes_of(cluster, f"directories-{attempt}") as nodes:
            request = DescribeLogDirsRequest(topics=None)
            answers = [node.probe(request, 4) for node in nodes.running()]
            return len({result.log_dir for answer in answers for result in answer.results})

    assert ask(clusters.real) == 3
    assert ask(clusters.emulated) == 1


def test_a_restart_starts_all_nodes(clusters: NodeClusters, attempt: int) -> None:
    """A node is down while the process of another one restarts."""
    for cluster in (clusters.real, clusters.emulated):
        with nodes_of(cluster, f"restarted-{attempt}") as nodes:
            nodes.create("topic", (1, 2, 3))
        cluster.kill_node(3)
    clusters.real.stop_node(1)
    clusters.real.start_node(1)
    try:
        assert _wait_for_nodes(clusters.real, {1, 2}) == {1, 2}
    finally:
        clusters.real.start_node(3)
    clusters.emulated.close()
    clusters.emulated.start()
    assert _wait_for_nodes(clusters.emulated, {1, 2, 3}) == {1, 2, 3}
    with nodes_of(clusters.emulated, f"restarted-{attempt}") as nodes:
        assert nodes.isr_at(1, "topic") == {1, 2, 3}


def _wait_for_nodes(cluster: NodeCluster, expected: set[int]) -> set[int]:
    """Return the nodes that node 1 reports, when they are the expected ones or time is up."""
    scenario = ScenarioCluster(cluster.port(1), "restarted")
    answer = scenario.call_until(
        DescribeClusterRequest(), 2, lambda found: _node_ids(found) == expected
    )
    scenario.close()
    return _node_ids(answer)


def _node_ids(answer: Any) -> set[int]:  # noqa: ANN401 - a response
    return {broker.broker_id for broker in answer.brokers}
