"""Adding partitions to topics that are there; a topic never gets fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.metadata.creation import MAX_PARTITIONS_PER_REQUEST, check_manual_assignment
from kafkalite.metadata.placement import plan_replicas
from kafkalite.metadata.topics import partition_records
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.topics import Topics, TopicState
    from kafkalite.ports.entropy import Entropy
    from kafkalite.protocol.records.partition import PartitionRecord


class Growth(NamedTuple):
    """A topic that shall have so many `partitions`; `assignments` places the new ones, if given."""

    topic: str
    partitions: int
    assignments: tuple[tuple[int, ...], ...] | None = None


def plan_growth(
    growth: Growth, topics: Topics, brokers: Brokers, entropy: Entropy
) -> list[PartitionRecord]:
    """Return the records of the new partitions; KafkaError when the topic cannot grow so."""
    topic = topics.by_name.get(growth.topic)
    if topic is None:
        # Kafka says no more than the code here.
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    have = len(topic.partitions)
    if growth.partitions == have:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if growth.partitions < have:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {growth.topic} currently has {have} partition(s); "
            f"{growth.partitions} would not be an increase.",
        )
    added = growth.partitions - have
    if added > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )
    return partition_records(
        topic.topic_id, have, _assignments(growth, topic, added, brokers, entropy), brokers
    )


def _assignments(
    growth: Growth, topic: TopicState, added: int, brokers: Brokers, entropy: Entropy
) -> Sequence[tuple[int, ...]]:
    replication_factor = len(topic.partitions[0].replicas)
    if growth.assignments is None:
        return plan_replicas(
            brokers.registered,
            partitions=added,
            replication_factor=replication_factor,
            start=entropy.integer(max(1, len(brokers.registered))),
        )
    if len(growth.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(growth.assignments)} assignment(s) were specified.",
        )
    for replicas in growth.assignments:
        check_manual_assignment(replicas, replication_factor, brokers)
    return growth.assignments
