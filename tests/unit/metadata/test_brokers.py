"""The cluster has the nodes of its last start, except those that were unregistered since."""

from __future__ import annotations

import pytest

from kafkalite.metadata.brokers import NoNodesError
from kafkalite.metadata.controller import MetadataSerde
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import NO_LEADER, AddedNode, RegisteredListener
from kafkalite.metadata.reassignment import RequestedReassignment
from kafkalite.protocol._generated.records.broker_registration_change import (
    BrokerRegistrationChangeRecord,
)
from kafkalite.protocol._generated.records.partition import PartitionRecord
from kafkalite.protocol._generated.records.partition_change import PartitionChangeRecord
from kafkalite.protocol._generated.records.register_broker import RegisterBrokerRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import ZERO_UUID
from tests.cluster.metadata import MetadataCluster


def test_nodes_are_registered_and_unregistered_at_start() -> None:
    first = MetadataCluster(nodes=(1, 2))
    assert [each.broker_epoch for each in first.image.brokers.values()] == [1, 2]
    second = first.restart(2, 3)
    assert {each.node_id: each.broker_epoch for each in second.image.brokers.values()} == {
        2: 3,
        3: 4,
    }
    assert second.image.controller_id == 2


def test_node_with_a_new_rack_registers_again() -> None:
    first = MetadataCluster(racks={1: "a"})
    again = MetadataCluster(racks={1: "b"}, log=first.log)
    assert again.image.brokers[1].rack == "b"
    assert again.image.brokers[1].broker_epoch > first.image.brokers[1].broker_epoch


def fields(cluster: MetadataCluster, node_id: int) -> tuple[int, bool]:
    broker = cluster.image.brokers[node_id]
    return broker.broker_epoch, broker.is_fenced


def test_unregistered_node_is_registered_as_fenced_with_a_new_epoch() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.unregister_broker(2)
    assert list(cluster.image.brokers) == [1]
    cluster.controller.register_broker(2, "r")
    assert fields(cluster, 2) == (3, True)
    assert cluster.image.brokers[2].rack == "r"
    cluster.controller.unfence(2)
    assert fields(cluster, 2) == (3, False)


def test_node_that_starts_again_is_another_incarnation() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    before = cluster.image.brokers[2]
    cluster.controller.fence(2)
    cluster.controller.register_broker(2, None)
    assert fields(cluster, 2) == (3, True)
    cluster.controller.unfence(2)
    assert fields(cluster, 2) == (3, False)
    assert cluster.image.brokers[2].incarnation_id != before.incarnation_id


def test_start_registers_all_nodes_with_new_epochs() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.fence(2)
    again = cluster.restart(1, 2)
    assert (fields(again, 1), fields(again, 2)) == ((3, False), (4, False))
    version = again.image.version
    assert again.restart(1, 2).image.version == version + 2
    incarnations = {
        each.image.brokers[1].incarnation_id for each in (cluster, again, again.restart(1, 2))
    }
    assert len(incarnations) == 3


def replicated(nodes: int = 3) -> MetadataCluster:
    """Return a cluster in which node 1 leads a partition with replicas on all nodes."""
    node_ids = tuple(range(1, nodes + 1))
    cluster = MetadataCluster(nodes=node_ids)
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, node_ids),))])
    return cluster


def written(cluster: MetadataCluster, start: int) -> list[object]:
    """Return the records of the metadata log from an offset on."""
    serde = MetadataSerde()
    entries = [serde.decode(key, value) for key, value in list(cluster.log.read_all())[start:]]
    return [entry.value for entry in entries if entry is not None]


def test_shutdown_moves_leaders_before_the_node_is_fenced() -> None:
    cluster = replicated()
    before = cluster.image.version
    cluster.controller.begin_shutdown(1)
    broker = cluster.image.brokers[1]
    assert (broker.is_shutting_down, broker.is_fenced, broker.is_active) == (True, False, False)
    partition = cluster.topic("t").partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, (2, 3))
    assert cluster.image.active_brokers == [1, 2, 3]
    cluster.controller.begin_shutdown(1)  # no effect
    cluster.controller.fence(1)
    change, move, fencing = written(cluster, before)
    assert isinstance(change, BrokerRegistrationChangeRecord)
    assert (change.broker_epoch, change.fenced, change.in_controlled_shutdown) == (1, 0, 1)
    assert isinstance(move, PartitionChangeRecord)
    assert (move.leader, move.isr) == (2, [2, 3])
    assert isinstance(fencing, BrokerRegistrationChangeRecord)
    assert (fencing.fenced, fencing.in_controlled_shutdown) == (1, 0)
    assert cluster.image.active_brokers == [2, 3]


def test_node_that_leads_nothing_is_only_fenced() -> None:
    cluster = replicated()
    before = cluster.image.version
    cluster.controller.begin_shutdown(3)
    assert cluster.image.version == before
    cluster.controller.fence(3)
    assert cluster.topic("t").partitions[0].isr == (1, 2)


def test_partition_without_another_replica_in_sync_has_no_leader_after_a_shutdown() -> None:
    cluster = replicated(2)
    cluster.controller.fence(2)
    cluster.controller.begin_shutdown(1)
    partition = cluster.topic("t").partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (NO_LEADER, 1, ())
    assert partition.elr == (1,)


def test_replicas_are_not_placed_on_a_node_that_shuts_down() -> None:
    cluster = replicated()
    cluster.controller.begin_shutdown(1)
    (created,) = cluster.controller.create_topics(
        [NewTopic(name="u", partitions=6, replication_factor=2)]
    )
    assert created.error is None
    assert {node for each in cluster.topic("u").partitions for node in each.replicas} == {2, 3}
    (refused,) = cluster.controller.create_topics(
        [NewTopic(name="v", partitions=1, replication_factor=3)]
    )
    assert refused.error is not None
    assert refused.error.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 2 broker(s) are registered" in (refused.error.message or "")


def test_added_node_is_a_member_in_later_starts() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    listener = RegisteredListener("PLAINTEXT", "h", 9098, security_protocol=0, port_offset=6)
    added = AddedNode({"broker.rack": "r"}, (listener,))
    cluster.controller.register_broker(7, "r", added=added)
    cluster.controller.unfence(7)
    assert fields(cluster, 7) == (3, False)
    again = cluster.restart(1)
    assert {
        node_id: (broker.broker_epoch, broker.rack, broker.added)
        for node_id, broker in again.image.brokers.items()
    } == {1: (4, None, None), 7: (5, "r", added)}
    again.controller.fence(7)
    once_more = again.restart(1)
    assert fields(once_more, 7) == (7, False)
    assert once_more.image.brokers[7].added == added


@pytest.mark.parametrize("is_unregistered", [False, True])
def test_removed_node_is_no_member_in_later_starts(*, is_unregistered: bool) -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    if is_unregistered:
        cluster.controller.unregister_broker(2)
    cluster.controller.remove_broker(2)
    assert list(cluster.image.brokers) == [1]
    again = cluster.restart(1, 2)
    assert list(again.image.brokers) == [1]
    again.controller.register_broker(2, None, added=AddedNode({}))
    assert list(again.restart(1).image.brokers) == [1, 2]


def test_start_without_nodes_is_refused() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.remove_broker(1)
    before = cluster.image.version
    with pytest.raises(NoNodesError, match=r"^all nodes \(1\) were removed from the "):
        cluster.restart(1)
    assert list(cluster.restart(1, 2).image.brokers) == [2]
    assert cluster.image.version == before


def test_start_registers_an_unregistered_node() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.unregister_broker(2)
    assert fields(cluster.restart(1, 2), 2) == (4, False)


def test_unregistered_node_leaves_isr_and_leadership_but_keeps_its_replicas() -> None:
    cluster = MetadataCluster(nodes=(1, 2, 3))
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    cluster.controller.create_topics([NewTopic(name="u", assignments=((0, (2,)),))])
    cluster.controller.unregister_broker(2)
    shared, alone = cluster.topic("t").partitions[0], cluster.topic("u").partitions[0]
    assert (shared.leader, shared.replicas, shared.isr) == (1, (1, 2), (1,))
    assert (alone.leader, alone.replicas, alone.isr) == (NO_LEADER, (2,), ())
    assert (alone.elr, alone.last_known_elr) == ((2,), (2,))


def test_fenced_node_remains_eligible_after_it_is_unregistered() -> None:
    """As in Kafka, which removes it from the ISR only."""
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, (2,)),))])
    cluster.controller.fence(2)
    before = cluster.topic("t").partitions[0]
    assert before.elr == (2,)
    cluster.controller.unregister_broker(2)
    assert cluster.topic("t").partitions[0] == before
    cluster.controller.register_broker(2, None)
    cluster.controller.unfence(2)
    after = cluster.topic("t").partitions[0]
    assert (after.leader, after.isr, after.elr) == (2, (2,), ())


def directory_of(node_id: int) -> bytes:
    return bytes([node_id]) * 16


def directories_of(node_id: int) -> tuple[bytes, ...]:
    return (directory_of(node_id),)


def written_with_directories(as_version: str | None) -> list[object]:
    """Return all records of two nodes with a topic whose replicas change."""
    cluster = MetadataCluster(nodes=(1, 2), directories_of=directories_of, as_version=as_version)
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, (2, 1)),))])
    cluster.controller.alter_reassignments([RequestedReassignment("t", 0, (1,))])
    return written(cluster, 0)


def test_registrations_have_features_and_directories() -> None:
    registrations = [
        record
        for record in written_with_directories(None)
        if isinstance(record, RegisterBrokerRecord)
    ]
    assert [each.log_dirs for each in registrations] == [[directory_of(1)], [directory_of(2)]]
    assert [each.cordoned_log_dirs for each in registrations] == [[], []]
    levels = {
        each.name: (each.min_supported_version, each.max_supported_version)
        for each in registrations[0].features
    }
    assert (levels["metadata.version"], levels["share.version"]) == ((7, 33), (0, 2))


def test_replicas_have_the_directories_of_their_nodes() -> None:
    records = written_with_directories(None)
    (partition,) = (each for each in records if isinstance(each, PartitionRecord))
    assert partition.directories == [directory_of(2), directory_of(1)]
    changes = [each for each in records if isinstance(each, PartitionChangeRecord)]
    assert [(each.replicas, each.directories) for each in changes] == [([1], [directory_of(1)])]


def test_a_node_without_a_directory_has_unassigned_replicas() -> None:
    cluster = MetadataCluster()
    cluster.controller.create_topics([NewTopic(name="t")])
    records = written(cluster, 0)
    (registration,) = (each for each in records if isinstance(each, RegisterBrokerRecord))
    (partition,) = (each for each in records if isinstance(each, PartitionRecord))
    assert (registration.log_dirs, partition.directories) == ([], [ZERO_UUID])


@pytest.mark.parametrize(
    ("release", "log_dirs", "cordoned", "directories"),
    [
        ("3.6", [], None, []),
        ("3.7", [directory_of(1)], None, [directory_of(2), directory_of(1)]),
        ("4.3", [directory_of(1)], [], [directory_of(2), directory_of(1)]),
    ],
)
def test_earlier_levels_of_metadata_have_no_directories(
    release: str,
    log_dirs: list[bytes],
    cordoned: list[bytes] | None,
    directories: list[bytes],
) -> None:
    records = written_with_directories(release)
    registration = next(each for each in records if isinstance(each, RegisterBrokerRecord))
    assert (registration.log_dirs, registration.cordoned_log_dirs) == (log_dirs, cordoned)
    (partition,) = (each for each in records if isinstance(each, PartitionRecord))
    assert partition.directories == directories
