"""Requested reassignments: validation, begin and cancellation.

Decisions follow Kafka's ReplicationControlManager. A reassignment is completed by
`PartitionChange`, when all its replicas are in sync.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.creation import check_manual_assignment
from kafkalite.metadata.partition_change import Reassignment
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.image import PartitionImage
    from kafkalite.metadata.leadership import Leadership
    from kafkalite.metadata.topics import Topics
    from kafkalite.protocol._generated.records.partition_change import PartitionChangeRecord


class RequestedReassignment(NamedTuple):
    """A partition and its new replicas; without replicas, its reassignment is cancelled."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None = None


def is_reassigned(partition: PartitionImage) -> bool:
    """Return whether a reassignment of the partition is in progress."""
    return bool(partition.adding or partition.removing)


def plan_reassignment(
    requested: RequestedReassignment,
    topics: Topics,
    brokers: Brokers,
    leadership: Leadership,
    *,
    may_change_replication_factor: bool = True,
) -> list[PartitionChangeRecord]:
    """Return the record that begins, changes or cancels a reassignment; none if nothing changes.

    Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS for a cancellation
    without a reassignment, INVALID_REPLICA_ASSIGNMENT for replicas that are not distinct, known
    nodes, and INVALID_REPLICATION_FACTOR for another number of replicas, unless it may change.
    """
    topic = topics.by_name.get(requested.topic)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find a topic named {requested.topic}.",
        )
    partition = topic.partitions.get(requested.partition)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {requested.topic}:{requested.partition}.",
        )
    if requested.replicas is None:
        if not is_reassigned(partition):
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        return leadership.revert_reassignment(topic, partition)
    check_manual_assignment(requested.replicas, None, brokers)
    if not may_change_replication_factor:
        _check_replication_factor(partition, len(requested.replicas))
    target = Reassignment.between(partition.replicas, requested.replicas)
    # As in Kafka, a change of a reassignment that adds or removes no replica leaves the previous
    # added or removed ones unchanged.
    target = target._replace(
        adding=target.adding or partition.adding, removing=target.removing or partition.removing
    )
    return leadership.reassign(topic, partition, target)


def _check_replication_factor(partition: PartitionImage, requested: int) -> None:
    """Raise INVALID_REPLICATION_FACTOR unless the number of replicas remains the same.

    During a reassignment, the number at its end counts.
    """
    current = len({*partition.replicas} - {*partition.removing})
    if requested != current:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {current} to {requested}",
        )
