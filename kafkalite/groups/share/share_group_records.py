"""Records of share groups: encoding from state and decoding of values.

They are Kafka's record types 10 to 15 of `__consumer_offsets`. Sets are written as sorted lists, so
that the same state always gives the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.groups.modern.record_types import RecordTypes
from kafkalite.groups.modern.topics import partitions_by_topic
from kafkalite.groups.share.member import STABLE, ShareAssignment, ShareMember
from kafkalite.groups.share.share_partitions import NamedPartitions, SharePartitions
from kafkalite.protocol._generated.records.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol._generated.records.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kafkalite.protocol._generated.records.share_group_metadata import (
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from kafkalite.protocol._generated.records.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from kafkalite.protocol._generated.records.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
)
from kafkalite.protocol._generated.records.share_group_target_assignment_metadata import (
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


TYPES = RecordTypes(
    group_key=ShareGroupMetadataKey,
    member_key=ShareGroupMemberMetadataKey,
    target_epoch_key=ShareGroupTargetAssignmentMetadataKey,
    target_epoch_value=ShareGroupTargetAssignmentMetadataValue,
    target_member_key=ShareGroupTargetAssignmentMemberKey,
    current_key=ShareGroupCurrentMemberAssignmentKey,
)
member_tombstones = TYPES.member_tombstones
target_epoch_record = TYPES.target_epoch_record


def group_epoch_record(group_id: GroupId, epoch: int, metadata_hash: int) -> Record:
    """Return the record of the group epoch and the metadata hash."""
    return CoordinatorRecord(
        ShareGroupMetadataKey(group_id=group_id),
        ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_metadata_record(group_id: GroupId, member_id: MemberId, member: ShareMember) -> Record:
    """Return the record of a member's metadata."""
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
    """Return the member metadata of a record value."""
    return ShareMember(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
    )


def target_assignment_record(group_id: GroupId, member_id: MemberId, target: Assignment) -> Record:
    """Return the record of a member's target assignment."""
    return CoordinatorRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=partitions_by_topic(_Target, target),
        ),
    )


def target_assignment_of(value: ShareGroupTargetAssignmentMemberValue) -> Assignment:
    """Return the target assignment of a record value."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}


def current_assignment_record(
    group_id: GroupId, member_id: MemberId, current: ShareAssignment
) -> Record:
    """Return the record of a member's current assignment."""
    return CoordinatorRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=current.member_epoch,
            previous_member_epoch=current.previous_member_epoch,
            state=STABLE,
            assigned_partitions=partitions_by_topic(_Assigned, current.assigned),
        ),
    )


def current_assignment_of(value: ShareGroupCurrentMemberAssignmentValue) -> ShareAssignment:
    """Return the current assignment of a record value."""
    return ShareAssignment(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        assigned={
            topic.topic_id: frozenset(topic.partitions) for topic in value.assigned_partitions
        },
    )


def partitions_record(group_id: GroupId, partitions: SharePartitions) -> Record:
    """Return the record of the share state of a group's partitions."""
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
    """Return the share state of a record value."""
    return SharePartitions(
        initializing=_from_record(value.initializing_topics),
        initialized=_from_record(value.initialized_topics),
        deleting={topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _from_record(topics: list[_Partitions]) -> dict[bytes, NamedPartitions]:
    return {
        topic.topic_id: NamedPartitions(topic.topic_name, frozenset(topic.partitions))
        for topic in topics
    }


def partitions_tombstone(group_id: GroupId) -> Record:
    """Return the tombstone of the group's share state."""
    return CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
