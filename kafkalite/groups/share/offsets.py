"""What administrators do to the offsets of a share group, as far as the group has a say in it.

The offsets themselves are kept with the share partitions, by another coordinator. So each wish
takes two decisions: one that checks it and notes that it is under way, and one when it was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.share import records
from kafkalite.groups.share.events import ready
from kafkalite.groups.share.intents import ShareStart
from kafkalite.groups.share.states import NamedPartitions
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkalite.groups.share.group import ShareGroup
    from kafkalite.groups.share.states import SharePartitions
    from kafkalite.metadata.image import MetadataImage

NOTHING: CoordinatorResult[None] = CoordinatorResult(response=None)


class Doomed(NamedTuple):
    """Share partitions whose state is to be deleted, and topics for which there is none to be."""

    partitions: Mapping[bytes, list[int]]
    refused: Mapping[str, tuple[ErrorCode, str]]
    """Topic name → why nothing is deleted for it."""


def alter(
    group: ShareGroup,
    wanted: Mapping[bytes, Mapping[int, int]],
    image: MetadataImage,
) -> CoordinatorResult[tuple[ShareStart, ...]]:
    """Note that partitions of existing topics are to start anew; topic id → partition → offset.

    KafkaError(NON_EMPTY_GROUP) while the group has members. A group that does not exist begins.
    """
    group.validate_delete()
    starting = {
        topic_id: NamedPartitions(image.topics_by_id[topic_id].name, frozenset(offsets))
        for topic_id, offsets in wanted.items()
    }
    starts = tuple(
        ShareStart(topic_id, partition, group.epoch, offset)
        for topic_id, offsets in wanted.items()
        for partition, offset in offsets.items()
    )
    if not starting:
        return CoordinatorResult(response=starts)
    partitions = group.share_partitions().begun(starting)
    return CoordinatorResult(
        response=starts, records=[records.partitions_record(group.group_id, partitions)]
    )


def initialized(
    group: ShareGroup, starts: Iterable[ShareStart], image: MetadataImage
) -> CoordinatorResult[None]:
    """Note that these partitions have their state; those of topics gone meanwhile have none."""
    made: dict[bytes, set[int]] = {}
    for start in starts:
        if start.topic_id in image.topics_by_id:
            made.setdefault(start.topic_id, set()).add(start.partition)
    if not made:
        return NOTHING
    named = {
        topic_id: NamedPartitions(image.topics_by_id[topic_id].name, frozenset(indexes))
        for topic_id, indexes in made.items()
    }
    return CoordinatorResult(
        response=None,
        records=[records.partitions_record(group.group_id, group.share_partitions().done(named))],
        events=[ready(group, named)],
    )


def begin_deleting(
    group: ShareGroup, topics: Iterable[str], image: MetadataImage
) -> CoordinatorResult[Doomed]:
    """Note that the offsets of these topics are to go; KafkaError(NON_EMPTY_GROUP)."""
    group.validate_delete()
    if group.partitions is None:
        # Kafka says nothing of any topic here.
        return CoordinatorResult(response=Doomed({}, {}))
    known = group.partitions
    partitions: dict[bytes, list[int]] = {}
    refused: dict[str, tuple[ErrorCode, str]] = {}
    names: dict[bytes, str] = {}
    for name in topics:
        topic = image.topics.get(name)
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused[name] = (code, code.message)
        elif topic.topic_id in known.initialized and topic.topic_id not in names:
            partitions[topic.topic_id] = sorted(known.initialized[topic.topic_id].partitions)
            names[topic.topic_id] = name
        elif topic.topic_id in known.deleting or topic.topic_id in names:
            partitions[topic.topic_id] = list(range(len(topic.partitions)))
        else:
            refused[name] = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "There are no offsets of this topic to delete.",
            )
    noted = known.giving_up(names)
    return CoordinatorResult(
        response=Doomed(partitions, refused),
        records=[records.partitions_record(group.group_id, noted)],
    )


def deleted(group: ShareGroup, topic_ids: Collection[bytes]) -> CoordinatorResult[None]:
    """Note that the state of these topics is gone."""
    if group.partitions is None:
        return NOTHING
    return _noted(group, group.partitions.given_up(topic_ids))


def begin_deleting_all(
    group: ShareGroup, image: MetadataImage
) -> CoordinatorResult[Mapping[bytes, list[int]]]:
    """Note that all the group has is to go; KafkaError(NON_EMPTY_GROUP)."""
    group.validate_delete()
    if group.partitions is None:
        return CoordinatorResult(response={})
    noted, partitions = group.partitions.giving_up_all(image)
    return CoordinatorResult(
        response=partitions, records=[records.partitions_record(group.group_id, noted)]
    )


def _noted(group: ShareGroup, partitions: SharePartitions) -> CoordinatorResult[None]:
    return CoordinatorResult(
        response=None, records=[records.partitions_record(group.group_id, partitions)]
    )
