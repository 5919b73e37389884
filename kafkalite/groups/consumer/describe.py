"""Descriptions of consumer groups for ConsumerGroupDescribe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.modern import describe as modern
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.group import MemberId
    from kafkalite.metadata.image import MetadataImage

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def describe_group(
    group: ConsumerGroup, image: MetadataImage, assignor: str
) -> ConsumerGroupDescribeResponse.DescribedGroup:
    """Describe a group and its members; deleted topics are omitted."""
    return modern.describe_group(
        ConsumerGroupDescribeResponse.DescribedGroup,
        group,
        group.state_name(),
        lambda member_id: describe_member(group, member_id, image),
        assignor_name=assignor,
    )


def describe_member(
    group: ConsumerGroup, member_id: MemberId, image: MetadataImage
) -> ConsumerGroupDescribeResponse.Member:
    """Describe a member with its partitions; deleted topics are omitted."""
    member, current = group.members[member_id], group.current_of(member_id)
    # Partitions that are pending revocation still belong to the member.
    held: dict[bytes, list[int]] = {}
    for owned in (current.assigned, current.pending_revocation):
        for topic_id, epochs in owned.items():
            held.setdefault(topic_id, []).extend(epochs)
    return ConsumerGroupDescribeResponse.Member(
        member_id=member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(held, image),
        target_assignment=_assignment(group.target.get(member_id, {}), image),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(
    partitions: Mapping[bytes, Iterable[int]], image: MetadataImage
) -> ConsumerGroupDescribeResponse.Assignment:
    return ConsumerGroupDescribeResponse.Assignment(
        topic_partitions=modern.describe_partitions(
            ConsumerGroupDescribeResponse.TopicPartitions, partitions, image
        )
    )
