"""Reassignments begin, are completed by the ISR, change and are cancelled, as in Kafka."""

from __future__ import annotations

import pytest

from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ConfigResource, PartitionImage, ResourceType
from kafkalite.metadata.reassignment import RequestedReassignment, is_reassigned
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.metadata import MetadataCluster, code_of


def cluster_with(*replicas: int) -> MetadataCluster:
    """Return a cluster of five nodes whose topic "t" has one partition with these replicas."""
    cluster = MetadataCluster(nodes=range(1, 6))
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, replicas),))])
    return cluster


def partition_of(cluster: MetadataCluster) -> PartitionImage:
    return cluster.topic("t").partitions[0]


def assignment_of(cluster: MetadataCluster) -> tuple[tuple[int, ...], ...]:
    """Return the replicas, the added and the removed ones, and the ISR."""
    partition = partition_of(cluster)
    return partition.replicas, partition.adding, partition.removing, partition.isr


def reassign(cluster: MetadataCluster, *replicas: int) -> None:
    requested = RequestedReassignment("t", 0, replicas)
    assert cluster.controller.alter_reassignments([requested]) == [None]


def cancel(cluster: MetadataCluster) -> None:
    assert cluster.controller.alter_reassignments([RequestedReassignment("t", 0)]) == [None]


def expand_isr(cluster: MetadataCluster, *isr: int) -> None:
    cluster.controller.alter_isr([(cluster.topic("t").topic_id, 0, isr)])


def test_added_replicas_must_be_in_sync_first() -> None:
    cluster = cluster_with(1, 2)
    before = partition_of(cluster)
    reassign(cluster, 3, 4)
    assert assignment_of(cluster) == ((3, 4, 1, 2), (3, 4), (1, 2), (1, 2))
    assert is_reassigned(partition_of(cluster))
    assert partition_of(cluster).leader_epoch == before.leader_epoch
    expand_isr(cluster, 1, 2, 3)
    assert assignment_of(cluster) == ((3, 4, 1, 2), (3, 4), (1, 2), (1, 2, 3))
    expand_isr(cluster, 1, 2, 3, 4)
    assert assignment_of(cluster) == ((3, 4), (), (), (3, 4))
    after = partition_of(cluster)
    assert not is_reassigned(after)
    assert (after.leader, after.leader_epoch) == (3, before.leader_epoch + 1)
    assert after.partition_epoch == before.partition_epoch + 3


def test_another_order_of_replicas_needs_no_time() -> None:
    cluster = cluster_with(1, 2, 3)
    before = partition_of(cluster)
    reassign(cluster, 3, 2, 1)
    assert assignment_of(cluster) == ((3, 2, 1), (), (), (1, 2, 3))
    assert (partition_of(cluster).leader, partition_of(cluster).leader_epoch) == (1, 0)
    assert partition_of(cluster).partition_epoch == before.partition_epoch + 1


@pytest.mark.parametrize("target", [(1, 2), (2, 3)], ids=["leader remains", "leader is removed"])
def test_removal_increases_the_leader_epoch(target: tuple[int, int]) -> None:
    cluster = cluster_with(1, 2, 3)
    reassign(cluster, *target)
    assert assignment_of(cluster) == (target, (), (), target)
    assert (partition_of(cluster).leader, partition_of(cluster).leader_epoch) == (target[0], 1)


def test_replicas_that_are_not_in_sync_are_not_removed_before_the_others_are() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.controller.fence(3)
    reassign(cluster, 2, 3)
    assert assignment_of(cluster) == ((2, 3, 1), (), (1,), (1, 2))
    cluster.controller.unfence(3)
    expand_isr(cluster, 1, 2, 3)
    assert assignment_of(cluster) == ((2, 3), (), (), (2, 3))


def test_present_replicas_change_nothing() -> None:
    cluster = cluster_with(1, 2)
    before = partition_of(cluster)
    reassign(cluster, 1, 2)
    assert partition_of(cluster) == before


def test_cancellation_removes_added_replicas_and_keeps_the_others() -> None:
    cluster = cluster_with(1, 2)
    reassign(cluster, 2, 3, 4)
    expand_isr(cluster, 1, 2, 3)
    assert assignment_of(cluster) == ((2, 3, 4, 1), (3, 4), (1,), (1, 2, 3))
    epoch = partition_of(cluster).leader_epoch
    cancel(cluster)
    assert assignment_of(cluster) == ((2, 1), (), (), (1, 2))
    assert (partition_of(cluster).leader, partition_of(cluster).leader_epoch) == (1, epoch + 1)
    (again,) = cluster.controller.alter_reassignments([RequestedReassignment("t", 0)])
    assert code_of(again) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def stuck_cluster() -> MetadataCluster:
    """Return a cluster in which only the added replica 2 is in sync."""
    cluster = cluster_with(1)
    reassign(cluster, 2, 3)
    expand_isr(cluster, 1, 2)
    cluster.controller.fence(1)
    assert assignment_of(cluster) == ((2, 3, 1), (2, 3), (1,), (2,))
    assert partition_of(cluster).leader == 2
    return cluster


def test_cancellation_that_may_lose_records_is_refused() -> None:
    cluster = stuck_cluster()
    before = partition_of(cluster)
    (error,) = cluster.controller.alter_reassignments([RequestedReassignment("t", 0)])
    assert error is not None
    assert (error.code, error.message) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (
            "Unable to revert partition assignment for t:0 because it would require an unclean "
            "leader election."
        ),
    )
    assert partition_of(cluster) == before


def test_cancellation_may_lose_records_if_the_topic_allows_unclean_elections() -> None:
    cluster = stuck_cluster()
    resource = ConfigResource(ResourceType.TOPIC, "t")
    change = ConfigChange("unclean.leader.election.enable", AlterOperation.SET, "true")
    cluster.controller.alter_configs({resource: [change]})
    cluster.controller.unfence(1)
    cancel(cluster)
    assert assignment_of(cluster) == ((1,), (), (), (1,))
    assert partition_of(cluster).leader == 1


def test_change_of_a_reassignment_removes_the_previous_targets() -> None:
    cluster = cluster_with(1, 2)
    reassign(cluster, 3, 4)
    reassign(cluster, 5, 2)
    assert assignment_of(cluster) == ((5, 2, 1, 3, 4), (5,), (1, 3, 4), (1, 2))
    expand_isr(cluster, 1, 2, 5)
    assert assignment_of(cluster) == ((5, 2), (), (), (2, 5))


def test_change_without_other_replicas_leaves_the_added_ones_as_they_were() -> None:
    """Kafka sets added or removed replicas of a change only if there are any."""
    cluster = cluster_with(1)
    reassign(cluster, 2, 3)
    reassign(cluster, 2)
    assert assignment_of(cluster) == ((2, 1, 3), (2, 3), (1, 3), (1,))
    expand_isr(cluster, 1, 2)
    assert assignment_of(cluster) == ((2,), (), (), (2,))


@pytest.mark.parametrize(
    ("requested", "code", "message"),
    [
        (
            RequestedReassignment("nope", 0, (1,)),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "Unable to find a topic named nope.",
        ),
        (
            RequestedReassignment("t", 7, (1,)),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "Unable to find partition t:7.",
        ),
        (
            RequestedReassignment("t", 0, ()),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
    ],
)
def test_refusals(requested: RequestedReassignment, code: ErrorCode, message: str) -> None:
    cluster = cluster_with(1, 2)
    before = cluster.image
    (error,) = cluster.controller.alter_reassignments([requested])
    assert error is not None
    assert (error.code, error.message) == (code, message)
    assert cluster.image == before


def test_each_partition_succeeds_or_fails_on_its_own() -> None:
    cluster = cluster_with(1, 2)
    requested = [RequestedReassignment("t", 5, (1,)), RequestedReassignment("t", 0, (2, 3))]
    errors = cluster.controller.alter_reassignments(requested)
    assert [code_of(error) for error in errors] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None]
    assert partition_of(cluster).replicas == (2, 3, 1)


def test_replication_factor_changes_only_if_that_is_allowed() -> None:
    cluster = cluster_with(1, 2)

    def fails(*replicas: int) -> str | None:
        (error,) = cluster.controller.alter_reassignments(
            [RequestedReassignment("t", 0, replicas)], may_change_replication_factor=False
        )
        assert error is None or error.code is ErrorCode.INVALID_REPLICATION_FACTOR
        return None if error is None else error.message

    assert fails(1) == "The replication factor is changed from 2 to 1"
    assert fails(1, 2, 3) == "The replication factor is changed from 2 to 3"
    assert fails(3, 4) is None
    # The replicas of the reassignment in progress count, without those that it removes.
    assert assignment_of(cluster)[0] == (3, 4, 1, 2)
    assert fails(1, 2, 3, 4) == "The replication factor is changed from 2 to 4"
    assert fails(4, 5) is None


def test_a_restart_completes_a_reassignment() -> None:
    """All nodes share one log, so all replicas are in sync after a start."""
    cluster = cluster_with(1, 2)
    reassign(cluster, 3, 2)
    restarted = cluster.restart(1, 2, 3)
    assert assignment_of(restarted) == ((3, 2), (), (), (3, 2))
    assert (partition_of(restarted).leader, partition_of(restarted).leader_epoch) == (3, 1)


def test_a_reassignment_to_an_absent_node_continues_after_a_restart() -> None:
    cluster = cluster_with(1, 2)
    reassign(cluster, 3, 2)
    restarted = cluster.restart(1, 2)
    assert assignment_of(restarted) == ((3, 2, 1), (3,), (1,), (2, 1))
    assert partition_of(restarted).leader == 1
    cancel(restarted)
    assert assignment_of(restarted) == ((2, 1), (), (), (2, 1))


def test_a_reassignment_ends_if_no_replica_is_on_a_node_of_the_next_start() -> None:
    cluster = cluster_with(1)
    reassign(cluster, 2)
    restarted = cluster.restart(5)
    assert assignment_of(restarted) == ((5,), (), (), (5,))
