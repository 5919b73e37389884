"""Decisions about altering and deleting offsets of share groups.

The share coordinator stores the offsets. So each request takes two decisions: the first one checks
the request and records that it has started, the second one records that it is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.share import share_group_records as records
from kafkalite.groups.share.events import share_state_initialized_event
from kafkalite.groups.share.intents import SharePartitionInitialization
from kafkalite.groups.share.share_partitions import NamedPartitions
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkalite.groups.share.group import ShareGroup
    from kafkalite.groups.share.share_partitions import SharePartitions
    from kafkalite.metadata.image import MetadataImage

NO_CHANGE: CoordinatorResult[None] = CoordinatorResult(response=None)


class StateDeletion(NamedTuple):
    """Share partitions whose state must be deleted, and refused topics."""

    partitions: Mapping[bytes, list[int]]
    refused: Mapping[str, tuple[ErrorCode, str]]
    """Topic name → error code and message."""


def alter(
    group: ShareGroup,
    requested: Mapping[bytes, Mapping[int, int]],
    image: MetadataImage,
) -> CoordinatorResult[tuple[SharePartitionInitialization, ...]]:
    """Start to alter offsets of existing topics: topic id → partition → offset.

    Raises KafkaError(NON_EMPTY_GROUP) if the group has members. A missing group is created.
    """
    group.validate_delete()
    started_partitions = {
        topic_id: NamedPartitions(image.topics_by_id[topic_id].name, frozenset(offsets))
        for topic_id, offsets in requested.items()
    }
    initializations = tuple(
        SharePartitionInitialization(topic_id, partition, group.epoch, offset)
        for topic_id, offsets in requested.items()
        for partition, offset in offsets.items()
    )
    if not started_partitions:
        return CoordinatorResult(response=initializations)
    partitions = group.share_partitions().with_initializing(started_partitions)
    return CoordinatorResult(
        response=initializations, records=[records.partitions_record(group.group_id, partitions)]
    )


def record_initialized(
    group: ShareGroup, initializations: Iterable[SharePartitionInitialization], image: MetadataImage
) -> CoordinatorResult[None]:
    """Record that these partitions are initialized, except those of deleted topics."""
    initialized_partitions: dict[bytes, set[int]] = {}
    for initialization in initializations:
        if initialization.topic_id in image.topics_by_id:
            initialized_partitions.setdefault(initialization.topic_id, set()).add(
                initialization.partition
            )
    if not initialized_partitions:
        return NO_CHANGE
    named = {
        topic_id: NamedPartitions(image.topics_by_id[topic_id].name, frozenset(indexes))
        for topic_id, indexes in initialized_partitions.items()
    }
    return CoordinatorResult(
        response=None,
        records=[
            records.partitions_record(
                group.group_id, group.share_partitions().with_initialized(named)
            )
        ],
        events=[share_state_initialized_event(group, named)],
    )


def begin_deleting(
    group: ShareGroup, topics: Iterable[str], image: MetadataImage
) -> CoordinatorResult[StateDeletion]:
    """Start to delete the offsets of these topics; raises KafkaError(NON_EMPTY_GROUP)."""
    group.validate_delete()
    if group.partitions is None:
        # Kafka's response has no topics in this case.
        return CoordinatorResult(response=StateDeletion({}, {}))
    stored = group.partitions
    partitions: dict[bytes, list[int]] = {}
    refused: dict[str, tuple[ErrorCode, str]] = {}
    names: dict[bytes, str] = {}
    for name in topics:
        topic = image.topics.get(name)
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused[name] = (code, code.message)
        elif topic.topic_id in stored.initialized and topic.topic_id not in names:
            partitions[topic.topic_id] = sorted(stored.initialized[topic.topic_id].partitions)
            names[topic.topic_id] = name
        elif topic.topic_id in stored.deleting or topic.topic_id in names:
            partitions[topic.topic_id] = list(range(len(topic.partitions)))
        else:
            refused[name] = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "There are no offsets of this topic to delete.",
            )
    changed = stored.with_deleting(names)
    return CoordinatorResult(
        response=StateDeletion(partitions, refused),
        records=[records.partitions_record(group.group_id, changed)],
    )


def record_deleted(group: ShareGroup, topic_ids: Collection[bytes]) -> CoordinatorResult[None]:
    """Record that the state of these topics was deleted."""
    if group.partitions is None:
        return NO_CHANGE
    return _partitions_result(group, group.partitions.with_deleted(topic_ids))


def begin_deleting_all(
    group: ShareGroup, image: MetadataImage
) -> CoordinatorResult[Mapping[bytes, list[int]]]:
    """Start to delete all share state of a group; raises KafkaError(NON_EMPTY_GROUP)."""
    group.validate_delete()
    if group.partitions is None:
        return CoordinatorResult(response={})
    changed, partitions = group.partitions.with_all_deleting(image)
    return CoordinatorResult(
        response=partitions, records=[records.partitions_record(group.group_id, changed)]
    )


def _partitions_result(group: ShareGroup, partitions: SharePartitions) -> CoordinatorResult[None]:
    return CoordinatorResult(
        response=None, records=[records.partitions_record(group.group_id, partitions)]
    )
