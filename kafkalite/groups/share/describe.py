"""Descriptions of share groups for ShareGroupDescribe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.modern import describe as modern
from kafkalite.groups.share.simple_assignor import SIMPLE_ASSIGNOR
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeResponse

if TYPE_CHECKING:
    from kafkalite.groups.group import MemberId
    from kafkalite.groups.share.group import ShareGroup
    from kafkalite.metadata.image import MetadataImage


def describe_group(
    group: ShareGroup, image: MetadataImage
) -> ShareGroupDescribeResponse.DescribedGroup:
    """Describe a group and its members; deleted topics are omitted."""
    return modern.describe_group(
        ShareGroupDescribeResponse.DescribedGroup,
        group,
        group.state_name(),
        lambda member_id: describe_member(group, member_id, image),
        assignor_name=SIMPLE_ASSIGNOR,
    )


def describe_member(
    group: ShareGroup, member_id: MemberId, image: MetadataImage
) -> ShareGroupDescribeResponse.Member:
    """Describe a member with its partitions; deleted topics are omitted."""
    member, current = group.members[member_id], group.current_of(member_id)
    return ShareGroupDescribeResponse.Member(
        member_id=member_id,
        rack_id=member.rack_id,
        member_epoch=current.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=ShareGroupDescribeResponse.Assignment(
            topic_partitions=modern.describe_partitions(
                ShareGroupDescribeResponse.TopicPartitions, current.assigned, image
            )
        ),
    )
