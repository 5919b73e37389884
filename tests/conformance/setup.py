"""Preparations that scenarios share; none of them leaves a word in the transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.messages.list_groups import ListGroupsRequest
from kafkalite.protocol.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.messages.produce import ProduceRequest
from tests.conformance.batches import batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.world import World

LATEST = -1
EARLIEST = -2
UNKNOWN_ID = bytes(range(16))


def create_topic(
    world: World, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> bytes:
    """Create a topic and wait until its leader answers for it; gives its id."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in (configs or {}).items()
        ],
    )
    response = world.probe(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    (made,) = response.topics
    assert made.error_code in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}, made
    wait_for_leader(world, name, partitions)
    wait_for_metadata(world, name, partitions)
    topic_id: bytes = made.topic_id
    world.name_topic(topic_id, name)
    return topic_id


def wait_for_leader(world: World, name: str, partitions: int = 1) -> None:
    """Wait until every partition of a topic answers with an offset."""
    world.settle(list_offsets(name, *range(partitions)), 7, _all_known, note=False)


def wait_for_metadata(world: World, name: str, partitions: int = 1) -> None:
    """Wait until Metadata tells a leader for every partition of a topic."""
    asked = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )

    def is_known(response: Any) -> bool:  # noqa: ANN401 - any response class
        (topic,) = response.topics
        leaders = [partition.leader_id for partition in topic.partitions]
        return len(leaders) == partitions and min(leaders, default=-1) >= 0

    world.settle(asked, 9, is_known, note=False)


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
    topic_id: bytes | None = None,
) -> ProduceRequest:
    """Ask to append bytes to a partition, by name or (v13) by id."""
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    topic = ProduceRequest.TopicProduceData(
        name=name, topic_id=topic_id or bytes(16), partition_data=[data]
    )
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[topic])


def fill(world: World, name: str, *values: bytes, partition: int = 0) -> None:
    """Append a batch of values to a partition."""
    response = world.probe(produce(name, batch(*values), partition=partition), 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE, response


def ready_group(world: World, group: str) -> None:
    """Wait until the group's coordinator exists and has loaded."""
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    world.settle(
        find, 4, lambda found: found.coordinators[0].error_code == ErrorCode.NONE, note=False
    )
    wanted = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group)])
    world.settle(wanted, 8, lambda found: found.groups[0].error_code == ErrorCode.NONE, note=False)
    world.settle(
        ListGroupsRequest(), 4, lambda found: found.error_code == ErrorCode.NONE, note=False
    )


def producer_id(world: World) -> tuple[int, int]:
    """Get a producer id and its epoch."""
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    found = world.settle(asked, 4, lambda answer: answer.error_code == ErrorCode.NONE, note=False)
    return found.producer_id, found.producer_epoch
