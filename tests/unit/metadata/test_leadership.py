"""Leadership: elections, fenced nodes, changes of the ISR, and leaders after a start."""

from __future__ import annotations

import pytest

from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import NO_LEADER, PartitionImage
from kafkalite.metadata.leadership import ElectionType
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.metadata import MetadataCluster, code_of

Members = tuple[int, ...]


def cluster_of(
    *replicas: Members,
    nodes: Members = (1, 2, 3),
    as_version: str | None = None,
    min_insync_replicas: str = "1",
) -> MetadataCluster:
    """Return a cluster with topic `t`, whose partitions have these replicas."""
    cluster = MetadataCluster(
        nodes=nodes, as_version=as_version, min_insync_replicas=min_insync_replicas
    )
    (made,) = cluster.controller.create_topics(
        [NewTopic(name="t", assignments=tuple(enumerate(replicas)))]
    )
    assert made.error is None
    return cluster


def partition(cluster: MetadataCluster, index: int = 0) -> PartitionImage:
    return cluster.topic("t").partitions[index]


def leaders(cluster: MetadataCluster) -> list[tuple[int, int, Members]]:
    """Return leader, leader epoch and ISR of each partition."""
    return [(each.leader, each.leader_epoch, each.isr) for each in cluster.topic("t").partitions]


def set_isr(cluster: MetadataCluster, *isr: int, index: int = 0) -> None:
    cluster.controller.alter_isr([(cluster.topic("t").topic_id, index, isr)])


# Elections on request


def test_preferred_election_elects_the_preferred_replica() -> None:
    """Node 1 is missing in one start, and back in the next."""
    first = MetadataCluster(nodes=(1, 2))
    first.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    cluster = first.restart(2).restart(1, 2)
    before = cluster.topic("t").partitions[0]
    assert (before.leader, before.isr) == (2, (1, 2))
    assert cluster.controller.elect_leaders([("t", 0)], ElectionType.PREFERRED) == [None]
    after = cluster.topic("t").partitions[0]
    assert after.leader == 1
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1


def test_unnecessary_election_is_refused() -> None:
    cluster = MetadataCluster()
    cluster.controller.create_topics([NewTopic(name="t")])
    asked = [("t", 0), ("t", 7), ("nope", 0)]
    for kind in ElectionType:
        outcome = cluster.controller.elect_leaders(asked, kind)
        assert [code_of(error) for error in outcome] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert [error.message for error in outcome if error is not None] == [
            None,
            "No such partition as t-7",
            "No such topic as nope",
        ]


def test_absent_preferred_replica_cannot_be_elected() -> None:
    first = MetadataCluster(nodes=(1, 2))
    first.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    (error,) = first.restart(2).controller.elect_leaders([("t", 0)], ElectionType.PREFERRED)
    assert code_of(error) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


# Fenced nodes


def test_a_fenced_node_leaves_isrs_and_leaderships() -> None:
    cluster = cluster_of((1, 2), (2, 1), (3, 2))
    cluster.controller.fence(1)
    assert leaders(cluster) == [(2, 1, (2,)), (2, 0, (2,)), (3, 0, (3, 2))]
    assert cluster.image.active_brokers == [2, 3]
    assert cluster.image.controller_id == 2
    assert [each.partition_epoch for each in cluster.topic("t").partitions] == [1, 1, 0]


def test_fencing_and_unfencing_twice_changes_nothing() -> None:
    cluster = cluster_of((1, 2, 3))
    cluster.controller.fence(1)
    version = cluster.image.version
    cluster.controller.fence(1)
    cluster.controller.fence(9)
    assert cluster.image.version == version
    cluster.controller.unfence(1)
    version = cluster.image.version
    cluster.controller.unfence(1)
    assert cluster.image.version == version


def test_an_unfenced_node_joins_no_isr_by_itself() -> None:
    cluster = cluster_of((1, 2, 3))
    cluster.controller.fence(1)
    cluster.controller.unfence(1)
    assert leaders(cluster) == [(2, 1, (2, 3))]
    set_isr(cluster, 2, 3, 1)
    assert leaders(cluster) == [(2, 1, (2, 3, 1))]


def test_the_last_replica_in_sync_leads_again_when_it_is_unfenced() -> None:
    cluster = cluster_of((1, 2))
    cluster.controller.fence(2)
    cluster.controller.fence(1)
    assert (partition(cluster).leader, partition(cluster).isr) == (NO_LEADER, ())
    assert set(partition(cluster).elr) == {1}
    cluster.controller.unfence(2)
    assert partition(cluster).leader == NO_LEADER
    cluster.controller.unfence(1)
    assert leaders(cluster) == [(1, 2, (1,))]
    assert partition(cluster).elr == ()


def test_a_release_without_eligible_replicas_keeps_the_last_isr() -> None:
    cluster = cluster_of((1, 2), as_version="3.9")
    cluster.controller.fence(2)
    cluster.controller.fence(1)
    assert leaders(cluster) == [(NO_LEADER, 1, (1,))]
    cluster.controller.unfence(1)
    assert leaders(cluster) == [(1, 2, (1,))]


def test_min_insync_replicas_decide_about_eligible_replicas() -> None:
    cluster = cluster_of((1, 2, 3), min_insync_replicas="2")
    cluster.controller.fence(3)
    assert partition(cluster).elr == ()
    cluster.controller.fence(2)
    assert (partition(cluster).isr, partition(cluster).elr) == ((1,), (2,))


# The ISR


def test_a_leader_has_recovered_when_its_isr_grows() -> None:
    cluster = cluster_of((1, 2, 3))
    set_isr(cluster, 1, 3)
    cluster.controller.move_leader("t", 0, 2, is_unclean=True)
    assert partition(cluster).is_recovering
    set_isr(cluster, 2, 1)
    assert not partition(cluster).is_recovering


def test_fenced_nodes_do_not_join_an_isr() -> None:
    cluster = cluster_of((1, 2, 3))
    cluster.controller.fence(3)
    set_isr(cluster, 1, 2, 3)
    assert leaders(cluster) == [(1, 0, (1, 2))]


def test_the_isr_of_a_deleted_topic_is_ignored() -> None:
    cluster = cluster_of((1, 2))
    topic_id = cluster.topic("t").topic_id
    cluster.controller.delete_topics([topic_id])
    version = cluster.image.version
    cluster.controller.alter_isr([(topic_id, 0, (1,))])
    assert cluster.image.version == version


# Leaders that are moved


def test_a_replica_in_sync_becomes_the_leader() -> None:
    cluster = cluster_of((1, 2, 3))
    cluster.controller.move_leader("t", 0, 3)
    assert leaders(cluster) == [(3, 1, (1, 2, 3))]
    assert not partition(cluster).is_recovering


@pytest.mark.parametrize(
    ("topic", "index", "leader", "code", "message"),
    [
        ("nope", 0, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as nope"),
        ("t", 3, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-3"),
        ("t", 0, 4, ErrorCode.INVALID_REPLICA_ASSIGNMENT,
         "Node 4 has no replica of t-0: its replicas are on 1, 2, 3."),
        ("t", 0, 3, ErrorCode.BROKER_NOT_AVAILABLE,
         "Node 3 is fenced, because it is stopped or isolated."),
        ("t", 0, 1, ErrorCode.ELECTION_NOT_NEEDED, "Node 1 leads t-0 already."),
        ("t", 0, 2, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
         ("Node 2 is not in sync with t-0: only an unclean election, which loses records, can make "
          "it the leader.")),
    ],
)  # fmt: skip
def test_an_impossible_leader_is_refused(
    topic: str, index: int, leader: int, code: ErrorCode, message: str
) -> None:
    cluster = cluster_of((1, 2, 3), nodes=(1, 2, 3, 4))
    cluster.controller.fence(3)
    set_isr(cluster, 1)
    before = leaders(cluster)
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.move_leader(topic, index, leader)
    assert (refusal.value.code, refusal.value.message) == (code, message)
    assert leaders(cluster) == before


def test_an_unclean_move_stores_where_the_log_is_truncated() -> None:
    cluster = cluster_of((1, 2, 3))
    cluster.controller.truncate_at(lambda _, __, leader: 7 if leader == 2 else -1)
    set_isr(cluster, 1)
    cluster.controller.move_leader("t", 0, 2, is_unclean=True)
    after = partition(cluster)
    assert (after.leader, after.isr, after.epoch_start_offset) == (2, (2,), 7)
    assert after.is_recovering
    cluster.controller.move_leader("t", 0, 3, is_unclean=True)
    later = partition(cluster)
    # The earlier truncation remains, because it may still have to be done.
    assert (later.epoch_start_offset, later.truncation_epoch) == (7, 1)


def test_an_election_stores_where_the_log_is_truncated() -> None:
    cluster = cluster_of((1, 2, 3))
    cluster.controller.truncate_at(lambda _, __, leader: 10 + leader)
    cluster.controller.fence(1)
    assert partition(cluster).epoch_start_offset == 12
    cluster.controller.elect_leaders([("t", 0)], ElectionType.PREFERRED)
    assert (partition(cluster).leader, partition(cluster).epoch_start_offset) == (2, 12)
    # A change of the ISR alone truncates nothing.
    set_isr(cluster, 2)
    assert partition(cluster).epoch_start_offset == 12


# Starts


def test_a_start_unfences_all_nodes_and_lets_all_replicas_catch_up() -> None:
    cluster = cluster_of((1, 2), (2, 1))
    cluster.controller.fence(2)
    cluster.controller.fence(1)
    restarted = cluster.restart(1, 2)
    assert [(leader, isr) for leader, _, isr in leaders(restarted)] == [(1, (1, 2)), (2, (2, 1))]
    assert restarted.image.active_brokers == [1, 2]
    assert partition(restarted).elr == ()
    assert partition(restarted).last_known_elr == ()


def test_a_start_with_other_nodes_replaces_replicas_that_are_all_missing() -> None:
    cluster = cluster_of((1, 2), (3, 1))
    restarted = cluster.restart(2)
    assert [(leader, isr) for leader, _, isr in leaders(restarted)] == [(2, (2,)), (2, (2,))]
    assert [each.replicas for each in restarted.topic("t").partitions] == [(1, 2), (2,)]
