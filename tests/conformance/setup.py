"""Common preparations of scenarios, without entries in the transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.scenario_cluster import ScenarioCluster

LATEST = -1
EARLIEST = -2
UNKNOWN_ID = bytes(range(16))


def create_topic(
    cluster: ScenarioCluster,
    name: str,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
) -> bytes:
    """Create a topic and wait for its leader; return the topic id."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in (configs or {}).items()
        ],
    )
    response = cluster.probe(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    (created,) = response.topics
    assert created.error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}, created
    wait_for_leader(cluster, name, partitions)
    wait_for_metadata(cluster, name, partitions)
    # In a second run of a scenario the topic exists, and CreateTopics then returns no id.
    topic_id = (
        created.topic_id if created.error_code == ErrorCode.NONE else _topic_id(cluster, name)
    )
    cluster.name_topic(topic_id, name)
    return topic_id


def _topic_id(cluster: ScenarioCluster, name: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
    (topic,) = cluster.probe(request, 12).topics
    topic_id: bytes = topic.topic_id
    return topic_id


def wait_for_leader(cluster: ScenarioCluster, name: str, partitions: int = 1) -> None:
    """Wait until ListOffsets succeeds for every partition of a topic."""
    cluster.call_until(list_offsets(name, *range(partitions)), 7, _all_known, is_recorded=False)


def wait_for_metadata(cluster: ScenarioCluster, name: str, partitions: int = 1) -> None:
    """Wait until Metadata has a leader for every partition of a topic."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )

    def is_known(response: Any) -> bool:  # noqa: ANN401 - any response class
        (topic,) = response.topics
        leaders = [partition.leader_id for partition in topic.partitions]
        return len(leaders) == partitions and min(leaders, default=-1) >= 0

    cluster.call_until(request, 9, is_known, is_recorded=False)


def list_offsets(
    name: str, *partitions: int, timestamp: int = LATEST, leader_epoch: int = -1
) -> ListOffsetsRequest:
    """Ask for one kind of offset of partitions of one topic."""
    rows = [
        ListOffsetsRequest.ListOffsetsPartition(
            partition_index=index, timestamp=timestamp, current_leader_epoch=leader_epoch
        )
        for index in partitions or (0,)
    ]
    topic = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=rows)
    return ListOffsetsRequest(replica_id=-1, topics=[topic])


def _all_known(response: Any) -> bool:  # noqa: ANN401 - any response class
    return all(
        row.error_code == ErrorCode.NONE for topic in response.topics for row in topic.partitions
    )


def produce(
    name: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 5000,
    topic_id: bytes | None = None,
) -> ProduceRequest:
    """Ask to append bytes to a partition, by name or (v13) by id."""
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    topic = ProduceRequest.TopicProduceData(
        name=name, topic_id=topic_id or bytes(16), partition_data=[data]
    )
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


def fill(cluster: ScenarioCluster, name: str, *values: bytes, partition: int = 0) -> None:
    """Append a batch of values to a partition."""
    response = cluster.probe(produce(name, batch(*values), partition=partition), 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE, response


def wait_for_group_coordinator(cluster: ScenarioCluster, group: str) -> None:
    """Wait until the group's coordinator exists and has loaded."""
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    cluster.call_until(
        find,
        4,
        lambda response: response.coordinators[0].error_code == ErrorCode.NONE,
        is_recorded=False,
    )
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group)]
    )
    cluster.call_until(
        request,
        8,
        lambda response: response.groups[0].error_code == ErrorCode.NONE,
        is_recorded=False,
    )
    cluster.call_until(
        ListGroupsRequest(),
        4,
        lambda response: response.error_code == ErrorCode.NONE,
        is_recorded=False,
    )


def producer_id(cluster: ScenarioCluster) -> tuple[int, int]:
    """Get a producer id and its epoch."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    response = cluster.call_until(
        request, 4, lambda answer: answer.error_code == ErrorCode.NONE, is_recorded=False
    )
    return response.producer_id, response.producer_epoch
