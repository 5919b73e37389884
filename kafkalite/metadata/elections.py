"""Leader elections on request: preferred and unclean."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from kafkalite.metadata.image import NO_LEADER
from kafkalite.protocol._generated.records.partition_change import PartitionChangeRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.topics import Topics


class ElectionType(IntEnum):
    """Type of a leader election, numbered as in the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


def plan_election(
    topic_name: str, index: int, kind: ElectionType, topics: Topics, brokers: Brokers
) -> PartitionChangeRecord:
    """Return the record that elects a leader; raises KafkaError if there is no candidate."""
    topic = topics.by_name.get(topic_name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorText.NO_SUCH_TOPIC.format(topic=topic_name)
        )
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic_name}-{index}"
        )
    preferred = partition.replicas[0]
    is_unneeded = (
        partition.leader == preferred
        if kind is ElectionType.PREFERRED
        else partition.leader != NO_LEADER
    )
    if is_unneeded:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    candidates = [node_id for node_id in partition.replicas if node_id in brokers.registered]
    if kind is ElectionType.PREFERRED and preferred not in partition.isr:
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    if not candidates:
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        leader=preferred if kind is ElectionType.PREFERRED else candidates[0],
    )
