"""Adding partitions to existing topics; partitions cannot be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.creation import (
    MAX_PARTITIONS_PER_REQUEST,
    check_active_replicas,
    check_manual_assignment,
)
from kafkalite.metadata.placement import PlacementError, plan_replicas
from kafkalite.metadata.topics import partition_records
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.creation import Charge
    from kafkalite.metadata.topics import Topics, TopicState
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol._generated.records.partition import PartitionRecord


class NewPartitions(NamedTuple):
    """A topic, its new total number of partitions, and the replicas of each added one, if given."""

    topic: str
    partitions: int
    assignments: tuple[tuple[int, ...], ...] | None = None


def check_added_partitions(requested: Sequence[NewPartitions], topics: Topics) -> None:
    """Raise KafkaError POLICY_VIOLATION if topics get too many partitions together."""
    added = sum(
        max(0, each.partitions - len(topics.by_name[each.topic].partitions))
        for each in requested
        if each.topic in topics.by_name
    )
    if added > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The request adds {added} partitions, more than {MAX_PARTITIONS_PER_REQUEST}.",
        )


def plan_new_partitions(
    new_partitions: NewPartitions,
    topics: Topics,
    brokers: Brokers,
    entropy: Entropy,
    charge: Charge | None = None,
) -> list[PartitionRecord]:
    """Return the records of the new partitions; raises KafkaError if they cannot be added.

    `charge` is called with the number of new partitions.
    """
    topic = topics.by_name.get(new_partitions.topic)
    if topic is None:
        # Kafka sends the code without a message here.
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    current_count = len(topic.partitions)
    if new_partitions.partitions == current_count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, ErrorText.SAME_PARTITION_COUNT.format(count=current_count)
        )
    if new_partitions.partitions < current_count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            ErrorText.NO_INCREASE_OF_PARTITIONS.format(
                topic=new_partitions.topic, count=current_count, requested=new_partitions.partitions
            ),
        )
    added = new_partitions.partitions - current_count
    if added > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, ErrorText.TOO_MANY_PARTITIONS.template)
    assignments = _assignments(new_partitions, topic, added, brokers, entropy)
    if charge is not None:
        charge(added)
    return partition_records(topic.topic_id, current_count, assignments, brokers)


def _assignments(
    new_partitions: NewPartitions, topic: TopicState, added: int, brokers: Brokers, entropy: Entropy
) -> Sequence[tuple[int, ...]]:
    replication_factor = len(topic.partitions[0].replicas)
    if new_partitions.assignments is None:
        try:
            return plan_replicas(
                brokers.usable,
                partitions=added,
                replication_factor=replication_factor,
                start=entropy.integer(max(1, len(brokers.active))),
            )
        except PlacementError as error:
            raise KafkaError(error.code, error.reason) from None
    if len(new_partitions.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorText.ASSIGNMENTS_MISCOUNTED.format(
                added=added, assignments=len(new_partitions.assignments)
            ),
        )
    for index, replicas in enumerate(new_partitions.assignments, len(topic.partitions)):
        check_manual_assignment(replicas, replication_factor, brokers)
        check_active_replicas(replicas, index, brokers)
    return new_partitions.assignments
