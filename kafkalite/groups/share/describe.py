"""What ShareGroupDescribe tells of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.share.simple import SIMPLE
from kafkalite.protocol.messages.share_group_describe import ShareGroupDescribeResponse

if TYPE_CHECKING:
    from kafkalite.groups.group import MemberId
    from kafkalite.groups.share.group import ShareGroup
    from kafkalite.metadata.image import MetadataImage


def describe_group(
    group: ShareGroup, image: MetadataImage
) -> ShareGroupDescribeResponse.DescribedGroup:
    """Describe a group and its members; topics that are no more are left out."""
    return ShareGroupDescribeResponse.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name(),
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=SIMPLE,
        members=[_describe_member(group, member_id, image) for member_id in sorted(group.members)],
    )


def _describe_member(
    group: ShareGroup, member_id: MemberId, image: MetadataImage
) -> ShareGroupDescribeResponse.Member:
    member, current = group.members[member_id], group.current_of(member_id)
    topics = image.topics_by_id
    return ShareGroupDescribeResponse.Member(
        member_id=member_id,
        rack_id=member.rack_id,
        member_epoch=current.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=ShareGroupDescribeResponse.Assignment(
            topic_partitions=[
                ShareGroupDescribeResponse.TopicPartitions(
                    topic_id=topic_id,
                    topic_name=topics[topic_id].name,
                    partitions=sorted(current.assigned[topic_id]),
                )
                for topic_id in sorted(current.assigned.keys() & topics.keys())
            ]
        ),
    )
