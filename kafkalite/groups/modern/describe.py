"""Descriptions of modern groups for the describe APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.coordinator.java_order import in_timeline_order, string_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalite.groups.group import MemberId
    from kafkalite.groups.modern.group import ModernGroup
    from kafkalite.metadata.image import MetadataImage

D = TypeVar("D")
P = TypeVar("P")


def describe_group(
    make: Callable[..., D],
    group: ModernGroup[Any, Any, Any],
    state: str,
    describe_member: Callable[[MemberId], object],
    **type_fields: object,
) -> D:
    """Describe a group and its members, in Kafka's order; `type_fields` belong to its type."""
    members = in_timeline_order(group.members, string_hash)
    return make(
        group_id=group.group_id,
        group_state=state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        members=[describe_member(member_id) for member_id in members],
        **type_fields,
    )


def describe_partitions(
    make: Callable[..., P], partitions: Mapping[bytes, Iterable[int]], image: MetadataImage
) -> list[P]:
    """Describe partitions by topic; deleted topics are omitted."""
    topics = image.topics_by_id
    return [
        make(
            topic_id=topic_id,
            topic_name=topics[topic_id].name,
            partitions=sorted(partitions[topic_id]),
        )
        for topic_id in sorted(partitions.keys() & topics.keys())
    ]
