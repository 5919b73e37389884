"""Requests whose time is over before they are decided, or before followers fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from kafkalite.protocol._generated.messages.update_features import UpdateFeaturesRequest
from tests.conformance.batches import batch
from tests.conformance.setup import EARLIEST, LATEST, list_offsets, produce

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol.message import Message
    from tests.conformance.scenario_nodes import ScenarioNodes

_TIMEOUTS_MS = (0, -1)


def changes_have_no_time(nodes: ScenarioNodes) -> None:
    """Send every kind of change with a timeout of 0 and below, in all versions."""
    nodes.create("changed", (1, 2))
    nodes.settle("changed", 1, (1, 2))
    for timeout_ms in _TIMEOUTS_MS:
        nodes.begin(f"timeout {timeout_ms}")
        for request, versions in _changes(nodes.full_name("changed"), timeout_ms):
            for version in versions:
                nodes.node(2).ask(request, version)
        nodes.describe("changed")


def _changes(name: str, timeout_ms: int) -> Iterator[tuple[Message, range]]:
    """Yield requests, with their versions."""
    new = CreateTopicsRequest.CreatableTopic(
        name=f"{name}-new", num_partitions=1, replication_factor=1
    )
    invalid = CreateTopicsRequest.CreatableTopic(name="!", num_partitions=1, replication_factor=1)
    internal = CreateTopicsRequest.CreatableTopic(
        name="__cluster_metadata", num_partitions=1, replication_factor=1
    )
    for created in ([], [new], [new, new], [new, new, invalid], [invalid], [internal]):
        yield CreateTopicsRequest(topics=created, timeout_ms=timeout_ms), range(2, 8)
    checked = CreateTopicsRequest(topics=[new], timeout_ms=timeout_ms, validate_only=True)
    yield checked, range(2, 8)

    for names in ([], [name], ["unknown"], ["a", "a"], ["a", "a", name]):
        yield DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms), range(1, 6)
    named = DeleteTopicsRequest.DeleteTopicState(name=name)
    unnamed = DeleteTopicsRequest.DeleteTopicState(name=None)
    by_id = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=bytes(range(16)))
    for deleted in ([named], [unnamed], [unnamed, named], [by_id]):
        yield DeleteTopicsRequest(topics=deleted, timeout_ms=timeout_ms), range(6, 7)

    grown = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=3, assignments=None)
    for rows in ([], [grown], [grown, grown]):
        yield CreatePartitionsRequest(topics=rows, timeout_ms=timeout_ms), range(4)

    elected = ElectLeadersRequest.TopicPartitions(topic=name, partitions=[0])
    for partitions in ([], [elected], None):
        request = ElectLeadersRequest(topic_partitions=partitions, timeout_ms=timeout_ms)
        yield request, range(3)
    unknown = ElectLeadersRequest(
        election_type=9, topic_partitions=[elected], timeout_ms=timeout_ms
    )
    yield unknown, range(1, 3)

    row = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=[3])
    moved = AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=[row])
    for topics in ([], [moved]):
        yield AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms), range(2)

    # Kafka ignores these timeouts.
    yield ListPartitionReassignmentsRequest(topics=[], timeout_ms=timeout_ms), range(1)
    level = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="group.version", max_version_level=1, upgrade_type=1
    )
    yield UpdateFeaturesRequest(feature_updates=[level], timeout_ms=timeout_ms), range(3)


def followers_have_no_time(nodes: ScenarioNodes) -> None:
    """Produce and delete records with a timeout of 0 and below."""
    nodes.begin("without time")
    for timeout_ms in _TIMEOUTS_MS:
        for topic, replicas in (("followed", (1, 2, 3)), ("alone", (1,))):
            name = f"{topic}{timeout_ms}"
            nodes.create(name, replicas)
            nodes.produce(1, name, b"first")
            nodes.settle(name, 1, replicas)
            full_name, cluster = nodes.full_name(name), nodes.node(1)
            for acks in (1, -1):
                cluster.ask(produce(full_name, batch(b"x"), acks=acks, timeout_ms=timeout_ms), 10)
                nodes.settle(name, 1, replicas)
            if topic == "followed":
                continue  # a follower of Kafka sometimes deletes the records before the answer
            partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=2)
            row = DeleteRecordsRequest.DeleteRecordsTopic(name=full_name, partitions=[partition])
            cluster.ask(DeleteRecordsRequest(topics=[row], timeout_ms=timeout_ms), 2)
            for timestamp in (EARLIEST, LATEST):
                cluster.ask(list_offsets(full_name, timestamp=timestamp), 7)


SCENARIOS = (changes_have_no_time, followers_have_no_time)
