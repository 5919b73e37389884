"""Records of share groups: how each is made, and how its value is read back.

Kafka's formats, types 10 to 15 of `__consumer_offsets`. Lists that come from sets are written
sorted, so that the same state always gives the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.groups.share.member import STABLE, ShareAssignment, ShareMember
from kafkalite.groups.share.states import NamedPartitions, SharePartitions
from kafkalite.protocol.records.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol.records.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kafkalite.protocol.records.share_group_metadata import (
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from kafkalite.protocol.records.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from kafkalite.protocol.records.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
)
from kafkalite.protocol.records.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.group import GroupId, MemberId, Record

_Assigned = ShareGroupCurrentMemberAssignmentValue.TopicPartitions
_Target = ShareGroupTargetAssignmentMemberValue.TopicPartition
_Partitions = ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo
_Topic = ShareGroupStatePartitionMetadataValue.TopicInfo


def group_epoch_record(group_id: GroupId, epoch: int, metadata_hash: int) -> Record:
    """Say that the group has reached an epoch, looking at topics with this hash."""
    return CoordinatorRecord(
        ShareGroupMetadataKey(group_id=group_id),
        ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def group_epoch_tombstone(group_id: GroupId) -> Record:
    """Say that the group is gone."""
    return CoordinatorRecord(ShareGroupMetadataKey(group_id=group_id), None)


def member_metadata_record(group_id: GroupId, member_id: MemberId, member: ShareMember) -> Record:
    """Say what a member says of itself."""
    return CoordinatorRecord(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
        ),
    )


def member_of(value: ShareGroupMemberMetadataValue) -> ShareMember:
    """Read back what a member said of itself."""
    return ShareMember(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
    )


def member_metadata_tombstone(group_id: GroupId, member_id: MemberId) -> Record:
    """Say that a member is not one any more."""
    return CoordinatorRecord(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None
    )


def target_epoch_record(group_id: GroupId, epoch: int, timestamp_ms: int) -> Record:
    """Say for which group epoch the assignor has run, and when it was done."""
    return CoordinatorRecord(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def target_epoch_tombstone(group_id: GroupId) -> Record:
    """Say that the group has no target assignment any more."""
    return CoordinatorRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_assignment_record(group_id: GroupId, member_id: MemberId, target: Assignment) -> Record:
    """Say which partitions a member should have."""
    return CoordinatorRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                _Target(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(target.items())
            ]
        ),
    )


def target_assignment_of(value: ShareGroupTargetAssignmentMemberValue) -> Assignment:
    """Read a member's target back."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}


def target_assignment_tombstone(group_id: GroupId, member_id: MemberId) -> Record:
    """Say that a member is to have nothing any more."""
    return CoordinatorRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
    )


def current_assignment_record(
    group_id: GroupId, member_id: MemberId, current: ShareAssignment
) -> Record:
    """Say which partitions a member has, and the epochs it has come to."""
    return CoordinatorRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=current.member_epoch,
            previous_member_epoch=current.previous_member_epoch,
            state=STABLE,
            assigned_partitions=[
                _Assigned(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(current.assigned.items())
            ],
        ),
    )


def current_assignment_of(value: ShareGroupCurrentMemberAssignmentValue) -> ShareAssignment:
    """Read a member's assignment back."""
    return ShareAssignment(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        assigned={
            topic.topic_id: frozenset(topic.partitions) for topic in value.assigned_partitions
        },
    )


def current_assignment_tombstone(group_id: GroupId, member_id: MemberId) -> Record:
    """Say that a member has nothing any more."""
    return CoordinatorRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
    )


def partitions_record(group_id: GroupId, partitions: SharePartitions) -> Record:
    """Say how far the share state of the group's partitions has come."""
    return CoordinatorRecord(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_to_record(partitions.initializing),
            initialized_topics=_to_record(partitions.initialized),
            deleting_topics=[
                _Topic(topic_id=topic_id, topic_name=name)
                for topic_id, name in sorted(partitions.deleting.items())
            ],
        ),
    )


def _to_record(topics: Mapping[bytes, NamedPartitions]) -> list[_Partitions]:
    return [
        _Partitions(topic_id=topic_id, topic_name=named.name, partitions=sorted(named.partitions))
        for topic_id, named in sorted(topics.items())
    ]


def partitions_of(value: ShareGroupStatePartitionMetadataValue) -> SharePartitions:
    """Read back how far share state has come."""
    return SharePartitions(
        initializing=_of_record(value.initializing_topics),
        initialized=_of_record(value.initialized_topics),
        deleting={topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _of_record(topics: list[_Partitions]) -> dict[bytes, NamedPartitions]:
    return {
        topic.topic_id: NamedPartitions(topic.topic_name, frozenset(topic.partitions))
        for topic in topics
    }


def partitions_tombstone(group_id: GroupId) -> Record:
    """Say that the group has no share state any more."""
    return CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: GroupId, member_id: MemberId) -> list[Record]:
    """Say that a member is gone, in the order that makes each state on the way a possible one."""
    return [
        current_assignment_tombstone(group_id, member_id),
        target_assignment_tombstone(group_id, member_id),
        member_metadata_tombstone(group_id, member_id),
    ]
