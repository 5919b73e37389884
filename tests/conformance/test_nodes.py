"""Three nodes that fail, lag and get other replicas, compared with Kafka.

What an earlier release answers is recorded and does not change, so it runs only for a recording;
`test_recorded.py` compares kafkalite as that release with the recordings.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.config.releases import DEFAULT
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.advertised import advertised
from tests.conformance.compared_releases import RELEASES
from tests.conformance.node_comparison import compare, node_clusters
from tests.conformance.node_scenarios import (
    failures,
    followers,
    lag,
    own_settings,
    placement,
    quorum,
    reassignments,
    timeouts,
)
from tests.conformance.recordings import RENEW, renewed
from tests.conformance.scenario_nodes import ScenarioNodes
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.configs import DELETE, SET, TOPIC, alter, settled
from tests.conformance.transactional_producer import (
    NEW,
    Producer,
    describe,
    end,
    init_producer_id,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.conformance.node_comparison import NodeClusters
    from tests.conformance.scenario_cluster import ScenarioCluster
    from tests.oracle.node_clusters import NodeCluster

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]

OFFSETS: Final = "__consumer_offsets"
_MIN_ISR: Final = "min.insync.replicas"
_OFFSETS_METADATA: Final = MetadataRequest(
    topics=[MetadataRequest.MetadataRequestTopic(name=OFFSETS)]
)
_COMMIT_TIMEOUT_S: Final = 5.0
"""The default of offsets.commit.timeout.ms."""

SCENARIOS = [
    *followers.SCENARIOS,
    *lag.SCENARIOS,
    *failures.SCENARIOS,
    *reassignments.SCENARIOS,
    *placement.SCENARIOS,
    *timeouts.SCENARIOS,
    *quorum.SCENARIOS,
    *own_settings.SCENARIOS,
]


@pytest.fixture(scope="module", params=RELEASES if os.environ.get(RENEW) else [DEFAULT])
def clusters(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeClusters]:
    """Start a real Kafka, and kafkalite, for all scenarios."""
    with node_clusters(tmp_path_factory.mktemp("clusters"), request.param) as running:
        yield running


@pytest.mark.parametrize("scenario", renewed(SCENARIOS), ids=lambda scenario: scenario.__name__)
def test_both_clusters_give_the_same_answers(
    clusters: NodeClusters, scenario: Callable[[ScenarioNodes], None], attempt: int
) -> None:
    compare(clusters, scenario, scenario.__name__, attempt, is_recorded=True)


def test_the_end_of_a_node_is_noticed(clusters: NodeClusters, attempt: int) -> None:
    """Kafka's controller waits for the session of a broker, and kafkalite's does not."""

    def leaders(cluster: NodeCluster) -> tuple[int, int]:
        """Return the leader at once after the end of its node, and later."""
        nodes = ScenarioNodes(cluster, f"noticed-{attempt}")
        try:
            nodes.create("led", (2, 1))
            nodes.kill(2)
            at_once = nodes.leader_at(1, "led")
            nodes.settle("led", 1, (1,))
            return at_once, nodes.leader_at(1, "led")
        finally:
            nodes.close()

    assert leaders(clusters.real) == (2, 1)
    assert leaders(clusters.emulated) == (1, 1)


def test_a_coordinator_with_too_few_in_sync_replicas(clusters: NodeClusters, attempt: int) -> None:
    """Kafka's coordinator waits for `offsets.commit.timeout.ms`."""

    def ask(cluster: NodeCluster) -> tuple[ErrorCode, bool]:
        """Return the error of a commit, and whether the answer came soon."""
        nodes = ScenarioNodes(cluster, f"coordinator-{attempt}")
        try:
            nodes.create("topic", (1,))
            request = commit(group_at(nodes.node(1)), nodes.full_name("topic"), 0)
            node = nodes.node(1)
            node.call_until(request, 9, lambda answer: _error(answer) == ErrorCode.NONE)
            node.probe(alter(TOPIC, OFFSETS, (_MIN_ISR, SET, "3")), 1)
            settled(node, _MIN_ISR, "3", name=OFFSETS)
            nodes.kill(2)
            node.call_until(_OFFSETS_METADATA, 9, lambda answer: not _has_in_sync(answer, 2))
            before_s = time.monotonic()
            error = _error(node.probe(request, 9))
            is_soon = time.monotonic() - before_s < _COMMIT_TIMEOUT_S / 2
            return error, is_soon
        finally:
            nodes.node(1).probe(alter(TOPIC, OFFSETS, (_MIN_ISR, DELETE, None)), 1)
            nodes.close()

    assert ask(clusters.real) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, False)
    assert ask(clusters.emulated) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)


def test_a_transaction_ends_when_the_followers_have_its_marker(
    clusters: NodeClusters, attempt: int
) -> None:
    """The coordinator's log waits for the follower for a shorter time than the partition."""

    def ask(cluster: NodeCluster) -> list[tuple[str, int]]:
        """Return the state of the transaction and its last stable offset.

        They are those after the answer to the commit, and after the follower has caught up.
        """
        nodes = ScenarioNodes(cluster, f"marker-{attempt}")
        try:
            nodes.create("led", (2, 3))
            coordinator = nodes.node(1)
            transactional_id, producer = _producer_at(coordinator)
            name = nodes.full_name("led")
            # Until the leader knows the coordinator, it refuses the batch.
            written = nodes.node(2).call_until(
                write(transactional_id, producer, name),
                NEW.produce,
                lambda answer: not answer.responses[0].partition_responses[0].error_code,
            )
            assert written.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            nodes.settle("led", 2, (2, 3))
            nodes.pause_replication(3)
            ended = coordinator.probe(end(transactional_id, producer, is_commit=True), NEW.end)
            assert ended.error_code == ErrorCode.NONE

            def observed() -> tuple[str, int]:
                found = coordinator.probe(describe(transactional_id), 0).transaction_states[0]
                row = nodes.node(2).probe(nodes.fetch_request("led", 0), 12).responses[0]
                return found.transaction_state, row.partitions[0].last_stable_offset

            before = observed()
            nodes.resume_replication(3)
            coordinator.call_until(
                describe(transactional_id),
                0,
                lambda answer: answer.transaction_states[0].transaction_state == "CompleteCommit",
            )
            nodes.settle("led", 2, (2, 3))
            return [before, observed()]
        finally:
            nodes.close()

    real, emulated = ask(clusters.real), ask(clusters.emulated)
    assert emulated == real
    assert real == [("PrepareCommit", 0), ("CompleteCommit", 2)]


def _producer_at(node: ScenarioCluster) -> tuple[str, Producer]:
    """Return a transactional id whose coordinator is this node, and its producer."""
    names = [f"{node.name}-id-{number}" for number in range(20)]
    found = node.call_until(
        FindCoordinatorRequest(key_type=1, coordinator_keys=names),
        4,
        lambda answer: all(row.error_code == ErrorCode.NONE for row in answer.coordinators),
    )
    transactional_id = next(row.key for row in found.coordinators if row.port == node.port)
    answer = node.call_until(
        init_producer_id(transactional_id),
        NEW.init,
        lambda answer: answer.error_code == ErrorCode.NONE,
    )
    return transactional_id, Producer(answer.producer_id, answer.producer_epoch)


def group_at(node: ScenarioCluster) -> str:
    """Return a group whose coordinator is this node."""
    names = [f"{node.name}-group-{number}" for number in range(20)]
    found = node.call_until(
        FindCoordinatorRequest(key_type=0, coordinator_keys=names),
        4,
        lambda answer: all(row.error_code == ErrorCode.NONE for row in answer.coordinators),
    )
    return str(next(row.key for row in found.coordinators if row.port == node.port))


def _error(answer: Any) -> ErrorCode:  # noqa: ANN401 - a response
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def _has_in_sync(answer: Any, node_id: int) -> bool:  # noqa: ANN401 - a response
    (topic,) = answer.topics
    return any(node_id in partition.isr_nodes for partition in topic.partitions)


def test_releases_advertise_the_same(clusters: NodeClusters, attempt: int) -> None:
    real, emulated = (
        advertised_by(cluster, f"advertised-{attempt}")
        for cluster in (clusters.real, clusters.emulated)
    )
    assert emulated == real


def advertised_by(cluster: NodeCluster, name: str) -> Mapping[str, str | None]:
    """Return what the first node advertises."""
    nodes = ScenarioNodes(cluster, name)
    try:
        nodes.create("described", (1,))
        return advertised(nodes.node(1), nodes.full_name("described"))
    finally:
        nodes.close()
