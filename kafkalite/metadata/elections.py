"""Choosing leaders on request: the preferred replica, or any that is left."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from kafkalite.metadata.image import NO_LEADER
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.records.partition_change import PartitionChangeRecord

if TYPE_CHECKING:
    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.topics import Topics


class ElectionType(IntEnum):
    """What kind of leader is wanted, numbered as on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


def plan_election(
    topic_name: str, index: int, kind: ElectionType, topics: Topics, brokers: Brokers
) -> PartitionChangeRecord:
    """Return the record that gives a partition the leader wanted; KafkaError if there is none."""
    topic = topics.by_name.get(topic_name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic_name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic_name}-{index}"
        )
    preferred = partition.replicas[0]
    has_what_it_needs = {
        ElectionType.PREFERRED: partition.leader == preferred,
        ElectionType.UNCLEAN: partition.leader != NO_LEADER,
    }
    if has_what_it_needs[kind]:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    alive = [node_id for node_id in partition.replicas if node_id in brokers.registered]
    if kind is ElectionType.PREFERRED and preferred not in partition.isr:
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    if not alive:
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        leader=preferred if kind is ElectionType.PREFERRED else alive[0],
    )
