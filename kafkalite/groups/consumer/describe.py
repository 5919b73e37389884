"""What ConsumerGroupDescribe tells of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.consumer.target import preferred_assignor
from kafkalite.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.group import MemberId
    from kafkalite.metadata.image import MetadataImage

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def describe_group(
    group: ConsumerGroup, image: MetadataImage, default_assignor: str
) -> ConsumerGroupDescribeResponse.DescribedGroup:
    """Describe a group and its members; topics that are no more are left out."""
    return ConsumerGroupDescribeResponse.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name(),
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group.members.values(), default_assignor),
        members=[_describe_member(group, member_id, image) for member_id in sorted(group.members)],
    )


def _describe_member(
    group: ConsumerGroup, member_id: MemberId, image: MetadataImage
) -> ConsumerGroupDescribeResponse.Member:
    member, current = group.members[member_id], group.current_of(member_id)
    # What a member is still to give up is still its own: it answers for it until it has.
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
    topics = image.topics_by_id
    return ConsumerGroupDescribeResponse.Assignment(
        topic_partitions=[
            ConsumerGroupDescribeResponse.TopicPartitions(
                topic_id=topic_id,
                topic_name=topics[topic_id].name,
                partitions=sorted(partitions[topic_id]),
            )
            for topic_id in sorted(partitions.keys() & topics.keys())
        ]
    )
