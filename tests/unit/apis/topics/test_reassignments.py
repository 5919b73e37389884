"""AlterPartitionReassignments and ListPartitionReassignments, as bytes, in a cluster of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.topics.reassignments import APIS
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.protocol._generated.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import BatchView, build_batch
from kafkalite.storage.record_format import NewRecord
from tests.cluster.cluster import TestCluster
from tests.cluster.metadata import MetadataCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.partitions.partition import Partition

ALTER, LIST = APIS
Topic = AlterPartitionReassignmentsRequest.ReassignableTopic
Row = AlterPartitionReassignmentsRequest.ReassignablePartition


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster of four nodes with a topic on nodes 1 and 2, which has three records."""
    wire = TestCluster(tmp_path, nodes=4)
    wire.cluster.metadata.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    write(wire, 3)
    yield wire
    wire.end()


def partition_of(wire: TestCluster) -> Partition:
    partition = wire.cluster.partitions.get(wire.cluster.metadata.image.topics["t"].topic_id, 0)
    assert partition is not None
    return partition


def write(wire: TestCluster, count: int) -> None:
    for _ in range(count):
        batch = build_batch([NewRecord(None, b"value", 1_700_000_000_000)])
        partition_of(wire).append(BatchView(batch), wire.clock.now_ms())


def alter(
    wire: TestCluster, rows: dict[int, list[int] | None], version: int = 1, *, topic: str = "t"
) -> dict[int, tuple[int, str | None]]:
    """Request reassignments of partitions; return code and message of each."""
    partitions = [Row(partition_index=index, replicas=replicas) for index, replicas in rows.items()]
    request = AlterPartitionReassignmentsRequest(topics=[Topic(name=topic, partitions=partitions)])
    response: AlterPartitionReassignmentsResponse = wire.ask(request, version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    (result,) = response.responses
    assert result.name == topic
    return {
        each.partition_index: (each.error_code, each.error_message) for each in result.partitions
    }


def ongoing(wire: TestCluster, topics: dict[str, list[int]] | None = None) -> list[object]:
    """Return the reassignments in progress: topic, index, replicas, added and removed ones."""
    requested = None
    if topics is not None:
        requested = [
            ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
                name=name, partition_indexes=indexes
            )
            for name, indexes in topics.items()
        ]
    response: ListPartitionReassignmentsResponse = wire.ask(
        ListPartitionReassignmentsRequest(topics=requested), 0
    )
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    return [
        (
            topic.name,
            each.partition_index,
            each.replicas,
            each.adding_replicas,
            each.removing_replicas,
        )
        for topic in response.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_reassignment_to_running_nodes_is_completed_at_once(
    wire: TestCluster, version: int
) -> None:
    assert alter(wire, {0: [3, 4]}, version) == {0: (ErrorCode.NONE, None)}
    assert ongoing(wire) == []
    partition = partition_of(wire)
    assert (partition.replicas, set(partition.isr)) == ((3, 4), {3, 4})
    assert (partition.leader, partition.leader_epoch) == (3, 1)
    assert (partition.end_offset, partition.high_watermark, partition.views) == (3, 3, {})


def test_reassignment_to_a_stopped_node_is_completed_when_it_starts(wire: TestCluster) -> None:
    wire.cluster.node_control.stop(3)
    assert alter(wire, {0: [2, 3]}) == {0: (ErrorCode.NONE, None)}
    expected = ("t", 0, [2, 3, 1], [3], [1])
    assert ongoing(wire) == [expected]
    assert ongoing(wire, {"t": [0]}) == [expected]
    assert ongoing(wire, {"t": [1, -1], "nope": [0]}) == []
    assert ongoing(wire, {}) == []
    assert partition_of(wire).end_offset_of(3) == 0
    write(wire, 1)
    # The added replica is not in sync, so nothing waits for it.
    assert partition_of(wire).high_watermark == 4
    wire.cluster.node_control.start(3)
    assert ongoing(wire) == []
    partition = partition_of(wire)
    assert (partition.replicas, set(partition.isr)) == ((2, 3), {2, 3})
    assert (partition.leader, partition.end_offset_of(3), partition.views) == (2, 4, {})


def test_reassignment_to_a_node_with_paused_replication_waits(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.pause_replication(4)
    alter(wire, {0: [1, 2, 4]})
    assert ongoing(wire) == [("t", 0, [1, 2, 4], [4], [])]
    assert partition_of(wire).end_offset_of(4) == 0
    control.resume_replication(4)
    assert ongoing(wire) == []
    assert set(partition_of(wire).isr) == {1, 2, 4}


def test_reassignment_is_cancelled(wire: TestCluster) -> None:
    wire.cluster.node_control.stop(3)
    alter(wire, {0: [3]})
    assert ongoing(wire) == [("t", 0, [3, 1, 2], [3], [1, 2])]
    assert alter(wire, {0: None}) == {0: (ErrorCode.NONE, None)}
    assert ongoing(wire) == []
    partition = partition_of(wire)
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (1, 2), 1)
    assert partition.views == {}
    wire.cluster.node_control.start(3)
    assert partition.replicas == (1, 2)


def test_a_stopped_node_deletes_its_removed_replica_when_it_starts(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.stop(2)
    write(wire, 2)
    partition = partition_of(wire)
    alter(wire, {0: [1, 3]})
    alter(wire, {0: [1, 2]})
    # The node does not know that the replica was removed and added again.
    assert ongoing(wire) == [("t", 0, [1, 2, 3], [2], [3])]
    assert partition.end_offset_of(2) == 3
    alter(wire, {0: None})
    control.start(2)
    assert (partition.replicas, partition.views) == ((1, 3), {})
    control.stop(2)
    alter(wire, {0: [1, 2]})
    assert partition.end_offset_of(2) == 0


def test_an_isolated_node_does_not_know_that_its_replica_was_removed(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.isolate(1)
    wire.clock.advance(9_000)
    partition = partition_of(wire)
    assert partition.leader == 2
    write(wire, 2)
    alter_on(wire, 2, [2, 3])
    assert partition.replicas == (2, 3)
    view = partition.seen_by(1)
    assert (view.leader, view.replicas) == (1, (1, 2))
    assert view.limit_offset(committed=False) == 3
    control.start(1)
    assert partition.views == {}
    assert partition.seen_by(1) is partition


def test_a_node_with_frozen_metadata_does_not_know_of_its_new_replica(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.freeze_metadata(3)
    alter(wire, {0: [1, 3]})
    assert ongoing(wire) == [("t", 0, [1, 3, 2], [3], [2])]
    assert partition_of(wire).end_offset_of(3) == 0
    control.thaw_metadata(3)
    assert ongoing(wire) == []
    assert partition_of(wire).replicas == (1, 3)


def test_a_leader_with_frozen_metadata_does_not_know_the_new_follower(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.freeze_metadata(1)
    alter_on(wire, 2, [1, 3])
    assert ongoing(wire) == [("t", 0, [1, 3, 2], [3], [2])]
    control.thaw_metadata(1)
    assert ongoing(wire) == []


def test_a_node_with_frozen_metadata_leads_on_after_its_removal(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.freeze_metadata(1)
    alter_on(wire, 2, [2])
    partition = partition_of(wire)
    assert (partition.leader, partition.replicas) == (2, (2,))
    view = partition.seen_by(1)
    assert (view.leader, view.leader_epoch, view.replicas) == (1, 0, (1, 2))
    control.thaw_metadata(1)
    assert partition.seen_by(1) is partition


def alter_on(wire: TestCluster, node: int, replicas: list[int]) -> None:
    """Send the request to a node that reaches the controller."""
    row = Row(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[Topic(name="t", partitions=[row])])
    (result,) = wire.ask(request, 1, node).responses[0].partitions
    assert result.error_code == ErrorCode.NONE


def test_a_coordinator_moves_with_the_partition_of_its_log(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    wire = TestCluster(tmp_path, nodes=3, config=settings)

    def coordinator() -> int:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
        (found,) = wire.ask(request, 6).coordinators
        assert found.error_code == ErrorCode.NONE
        node_id: int = found.node_id
        return node_id

    wire.cluster.metadata.ensure_internal_topic(OFFSETS_TOPIC)
    target = 2 if coordinator() == 1 else 1
    alter(wire, {0: [target]}, topic=OFFSETS_TOPIC)
    assert coordinator() == target
    assert wire.cluster.groups.locate("group", target).leader_id == target
    wire.end()


def test_a_restart_continues_with_the_new_replicas(wire: TestCluster) -> None:
    alter(wire, {0: [4, 3]})
    wire.restart()
    partition = partition_of(wire)
    assert (partition.replicas, partition.leader, partition.end_offset) == ((4, 3), 4, 3)
    assert ongoing(wire) == []


def test_an_unclean_election_of_an_empty_replica_removes_all_records(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.pause_replication(3)
    alter(wire, {0: [1, 2, 3]})
    control.stop(2)
    wire.cluster.metadata.move_leader("t", 0, 3, is_unclean=True)
    partition = partition_of(wire)
    assert (partition.leader, partition.end_offset) == (3, 0)


def test_refusals_repeat_the_partitions() -> None:
    cluster = MetadataCluster()
    requested = AlterPartitionReassignmentsRequest(
        topics=[Topic(name="t", partitions=[Row(partition_index=2)])]
    )
    altered = ALTER.refuse(requested, ErrorCode.KAFKA_STORAGE_ERROR, "why")
    assert (altered.error_code, altered.error_message) == (ErrorCode.KAFKA_STORAGE_ERROR, "why")
    (result,) = altered.responses[0].partitions
    assert (result.partition_index, result.error_code) == (2, ErrorCode.KAFKA_STORAGE_ERROR)
    listed = LIST.refuse(
        ListPartitionReassignmentsRequest(
            topics=[
                ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
                    name="t", partition_indexes=[2]
                )
            ]
        ),
        ErrorCode.KAFKA_STORAGE_ERROR,
        "why",
    )
    assert (listed.error_code, listed.error_message) == (ErrorCode.KAFKA_STORAGE_ERROR, "why")
    assert [each.partition_index for each in listed.topics[0].partitions] == [2]
    assert cluster.ask(LIST, ListPartitionReassignmentsRequest(topics=None)).topics == []
