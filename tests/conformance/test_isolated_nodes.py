"""A node that clients reach, but no other node, compared with Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.config.releases import DEFAULT
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import batch
from tests.conformance.node_comparison import compare, node_clusters
from tests.conformance.node_scenarios import isolation
from tests.conformance.scenario_nodes import NO_LEADER, UNCLEAN, ScenarioNodes
from tests.conformance.scenarios.commits import commit
from tests.conformance.setup import EARLIEST, list_offsets, produce
from tests.conformance.transactional_producer import Producer, init_producer_id, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conformance.node_comparison import NodeClusters
    from tests.oracle.node_clusters import NodeCluster

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]

_OTHER: Final = 1
_ISOLATED: Final = 2
_THIRD: Final = 3
_TRANSACTION: Final = 1
"""The type of the key of a transactional id."""
_ADDS_PARTITIONS: Final = 12
"""The first version of Produce that adds partitions to transactions."""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeClusters]:
    """Start a real Kafka whose nodes can be isolated, and kafkalite."""
    directory = tmp_path_factory.mktemp("clusters")
    with node_clusters(directory, DEFAULT, can_isolate=True) as running:
        yield running


@pytest.mark.parametrize("scenario", isolation.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_both_clusters_give_the_same_answers(
    clusters: NodeClusters, scenario: Callable[[ScenarioNodes], None], attempt: int
) -> None:
    compare(clusters, scenario, scenario.__name__, attempt)


# Differences that the documentation lists.


def test_a_coordinator_on_an_isolated_node(clusters: NodeClusters, attempt: int) -> None:
    """Kafka's coordinator reads, but cannot replicate what it writes."""

    def ask(cluster: NodeCluster) -> tuple[ErrorCode, ErrorCode]:
        """Return the errors of an OffsetFetch and of an OffsetCommit."""
        nodes = ScenarioNodes(cluster, f"coordinator-{attempt}")
        try:
            nodes.create("topic", (_OTHER,))
            node_id, group = _coordinated_group(nodes)
            node = nodes.node(node_id)
            request = commit(group, nodes.full_name("topic"), 0)
            node.call_until(request, 9, lambda answer: _commit_error(answer) == ErrorCode.NONE)
            nodes.isolate(node_id)
            rows = OffsetFetchRequest.OffsetFetchRequestGroup
            fetched = node.probe(OffsetFetchRequest(groups=[rows(group_id=group)]), 8)
            return ErrorCode(fetched.groups[0].error_code), _commit_error(node.probe(request, 9))
        finally:
            nodes.close()

    assert ask(clusters.real) == (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert ask(clusters.emulated) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)


def _coordinated_group(nodes: ScenarioNodes) -> tuple[int, str]:
    """Return a node that can be isolated, and a group that it coordinates.

    After earlier isolations, another node may coordinate the groups of a node.
    """
    names = [f"{nodes.full_name('group')}-{number}" for number in range(20)]
    found = nodes.node(_OTHER).call_until(
        FindCoordinatorRequest(key_type=0, coordinator_keys=names),
        4,
        lambda answer: all(row.error_code == ErrorCode.NONE for row in answer.coordinators),
    )
    row = next(row for row in found.coordinators if row.node_id != _OTHER)
    return row.node_id, row.key


def _commit_error(answer: Any) -> ErrorCode:  # noqa: ANN401 - a response
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_a_topic_that_an_isolated_node_creates(clusters: NodeClusters, attempt: int) -> None:
    """A client requests the metadata of a missing topic."""

    def ask(cluster: NodeCluster) -> ErrorCode:
        """Return the error of another node that is asked for the topic."""
        nodes = ScenarioNodes(cluster, f"missing-{attempt}")
        try:
            nodes.create("led", (_ISOLATED, _OTHER))
            nodes.isolate(_ISOLATED)
            row = MetadataRequest.MetadataRequestTopic(name=nodes.full_name("missing"))
            request = MetadataRequest(topics=[row])
            nodes.node(_ISOLATED).probe(request, 12)
            nodes.settle("led", _OTHER, (_OTHER,))
            request.allow_auto_topic_creation = False
            (described,) = nodes.node(_OTHER).probe(request, 12).topics
            return ErrorCode(described.error_code)
        finally:
            nodes.close()

    assert ask(clusters.real) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(clusters.emulated) == ErrorCode.NONE


def test_records_that_an_isolated_leader_has_deleted(clusters: NodeClusters, attempt: int) -> None:
    """DeleteRecords times out before the controller elects another leader."""

    def ask(cluster: NodeCluster) -> tuple[ErrorCode, int]:
        """Return the error of DeleteRecords, and the first offset of the next leader."""
        nodes = ScenarioNodes(cluster, f"deleted-{attempt}")
        try:
            nodes.create("led", (_ISOLATED, _OTHER))
            nodes.produce(_ISOLATED, "led", b"first")
            nodes.settle("led", _ISOLATED, (_ISOLATED, _OTHER))
            nodes.isolate(_ISOLATED)
            name = nodes.full_name("led")
            deleted = nodes.node(_ISOLATED).probe(isolation.delete_records(name, 1), 2)
            found = nodes.node(_OTHER).call_until(
                list_offsets(name, timestamp=EARLIEST),
                7,
                lambda answer: answer.topics[0].partitions[0].error_code == ErrorCode.NONE,
            )
            error = ErrorCode(deleted.topics[0].partitions[0].error_code)
            return error, found.topics[0].partitions[0].offset
        finally:
            nodes.close()

    assert ask(clusters.real) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert ask(clusters.emulated) == (ErrorCode.REQUEST_TIMED_OUT, 1)


def test_a_transaction_at_an_isolated_leader(clusters: NodeClusters, attempt: int) -> None:
    """The leader does not reach the coordinator; producers retry after this answer."""

    def ask(cluster: NodeCluster) -> list[tuple[ErrorCode, str | None]]:
        """Return errors of the first Produce of a transaction, with their messages.

        The first is that of the leader, the second that after the election of another leader.
        """
        nodes = ScenarioNodes(cluster, f"transaction-{attempt}")
        try:
            nodes.create("led", (_ISOLATED, _OTHER))
            nodes.settle("led", _ISOLATED, (_ISOLATED, _OTHER))
            transactional_id, producer = _producer(nodes)
            nodes.isolate(_ISOLATED)
            request = write(transactional_id, producer, nodes.full_name("led"))
            answers = [nodes.node(_ISOLATED).probe(request, _ADDS_PARTITIONS)]
            nodes.settle("led", _OTHER, (_OTHER,))
            answers.append(nodes.node(_ISOLATED).probe(request, _ADDS_PARTITIONS))
            rows = [answer.responses[0].partition_responses[0] for answer in answers]
            return [(ErrorCode(row.error_code), row.error_message) for row in rows]
        finally:
            nodes.close()

    real, emulated = ask(clusters.real), ask(clusters.emulated)
    assert emulated == real
    assert [code for code, _ in real] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2


def _producer(nodes: ScenarioNodes) -> tuple[str, Producer]:
    """Return a transactional id whose coordinator is not isolated, and its producer."""
    names = [f"{nodes.full_name('id')}-{number}" for number in range(20)]
    found = nodes.node(_OTHER).call_until(
        FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=names),
        4,
        lambda answer: all(row.error_code == ErrorCode.NONE for row in answer.coordinators),
    )
    row = next(row for row in found.coordinators if row.node_id != _ISOLATED)
    answer = nodes.node(row.node_id).call_until(
        init_producer_id(row.key), 5, lambda answer: answer.error_code == ErrorCode.NONE
    )
    return row.key, Producer(answer.producer_id, answer.producer_epoch)


def test_the_only_replica_in_sync_is_isolated(clusters: NodeClusters, attempt: int) -> None:
    """Another node is elected although it may lack records: Kafka has then two logs."""

    def ask(cluster: NodeCluster) -> ErrorCode:
        """Return the error of a Produce at the former leader."""
        nodes = ScenarioNodes(cluster, f"only-{attempt}")
        try:
            nodes.create("led", (_ISOLATED, _THIRD))
            nodes.kill(_THIRD)
            nodes.settle("led", _ISOLATED, (_ISOLATED,))
            nodes.isolate(_ISOLATED)
            nodes.start(_THIRD)
            nodes.settle("led", NO_LEADER, ())
            nodes.elect(UNCLEAN, "led")
            nodes.settle("led", _THIRD, (_THIRD,))
            request = produce(nodes.full_name("led"), batch(b"lost"))
            answer = nodes.node(_ISOLATED).probe(request, 10)
            return ErrorCode(answer.responses[0].partition_responses[0].error_code)
        finally:
            nodes.close()

    assert ask(clusters.real) == ErrorCode.NONE
    assert ask(clusters.emulated) == ErrorCode.NOT_LEADER_OR_FOLLOWER
