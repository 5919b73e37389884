"""Records of consumer groups: how each is made, and how its value is read back.

Kafka's formats, types 3 to 8 and 16 of `__consumer_offsets`. Lists that come from sets are
written sorted, so that the same state always gives the same bytes.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.groups.consumer.member import (
    ClassicProtocolMember,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
)
from kafkalite.groups.fencing import revocation_of
from kafkalite.protocol.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kafkalite.protocol.records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from kafkalite.protocol.records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
)
from kafkalite.protocol.records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kafkalite.protocol.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kafkalite.protocol.records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.groups.assignors.contract import Assignment
    from kafkalite.groups.consumer.member import OwnedPartitions
    from kafkalite.groups.consumer.regex import ResolvedRegex
    from kafkalite.groups.group import GroupId, MemberId, Record

_Owned = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
_Target = ConsumerGroupTargetAssignmentMemberValue.TopicPartition
_Classic = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
_Protocol = ConsumerGroupMemberMetadataValue.ClassicProtocol


_REMEMBERED, _REMEMBERED_NAMES = 1_024, 128
_FEW, _MOST_NAMES = 8, 1_000


def group_epoch_record(group_id: GroupId, epoch: int, metadata_hash: int) -> Record:
    """Say that the group has reached an epoch, looking at topics with this hash."""
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def group_epoch_tombstone(group_id: GroupId) -> Record:
    """Say that the group is gone."""
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), None)


def partition_metadata_tombstone(group_id: GroupId) -> Record:
    """Drop what coordinators before 4.1 kept instead of a metadata hash (KIP-1101)."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_metadata_record(
    group_id: GroupId, member_id: MemberId, metadata: MemberMetadata
) -> Record:
    """Say what a member says of itself."""
    classic = metadata.classic
    return CoordinatorRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            subscribed_topic_names=sorted(metadata.topic_names),
            subscribed_topic_regex=metadata.topic_regex,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            server_assignor=metadata.server_assignor,
            classic_member_metadata=None
            if classic is None
            else _Classic(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    _Protocol(name=name, metadata=body) for name, body in classic.protocols
                ],
            ),
        ),
    )


def _names_of(names: Sequence[str]) -> frozenset[str]:
    """Return the set of these names: one for all members that read the same topics.

    Of a hundred thousand names nothing is kept for others, for it would be kept for long.
    """
    return _shared_names(tuple(names)) if len(names) <= _MOST_NAMES else frozenset(names)


@lru_cache(_REMEMBERED_NAMES)
def _shared_names(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names)


def member_metadata_of(value: ConsumerGroupMemberMetadataValue) -> MemberMetadata:
    """Read a member's metadata back."""
    classic = value.classic_member_metadata
    return MemberMetadata(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=intern(value.client_id),
        client_host=intern(value.client_host),
        topic_names=_names_of(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicProtocolMember(
            session_timeout_ms=classic.session_timeout_ms,
            protocols=tuple((p.name, p.metadata) for p in classic.supported_protocols),
        ),
    )


def target_epoch_record(group_id: GroupId, epoch: int, timestamp_ms: int) -> Record:
    """Say for which group epoch the assignor has run, and when it was done."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def target_assignment_record(group_id: GroupId, member_id: MemberId, target: Assignment) -> Record:
    """Say which partitions a member should have."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                _Target(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(target.items())
            ]
        ),
    )


def target_assignment_of(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    """Read a member's target back."""
    return {
        _shared_id(topic.topic_id): _partitions_of(topic.partitions)
        for topic in value.topic_partitions
        if topic.partitions
    }


def current_assignment_record(
    group_id: GroupId, member_id: MemberId, current: CurrentAssignment
) -> Record:
    """Say which partitions a member has, and the epochs it has come to."""
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=current.member_epoch,
            previous_member_epoch=current.previous_member_epoch,
            state=int(current.state),
            assigned_partitions=_owned_to_record(current.assigned),
            partitions_pending_revocation=_owned_to_record(current.pending_revocation),
            revocation_epoch=current.revocation.epoch,
            is_revocation_under_way=current.revocation.is_under_way,
        ),
    )


def _owned_to_record(owned: OwnedPartitions) -> list[_Owned]:
    return [
        _Owned(
            topic_id=topic_id,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[partition] for partition in sorted(epochs)],
        )
        for topic_id, epochs in sorted(owned.items())
    ]


def current_assignment_of(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    """Read a member's assignment back."""
    # Coordinators before 4.3 wrote no assignment epochs. The member's own epoch is what keeps
    # their rule: a commit must come with that epoch, or a later one.
    fallback = max(0, value.member_epoch)
    return CurrentAssignment(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_owned_of(value.assigned_partitions, fallback),
        pending_revocation=_owned_of(value.partitions_pending_revocation, fallback),
        revocation=revocation_of(
            value.revocation_epoch, is_under_way=value.is_revocation_under_way
        ),
    )


def _owned_of(topics: Iterable[_Owned], fallback: int) -> OwnedPartitions:
    return {
        _shared_id(topic.topic_id): dict(
            zip(
                topic.partitions,
                topic.assignment_epochs or [fallback] * len(topic.partitions),
                strict=True,
            )
        )
        for topic in topics
        if topic.partitions
    }


@lru_cache(_REMEMBERED)
def _shared_id(topic_id: bytes) -> bytes:
    """Return these bytes: the same object for all that hold partitions of the topic."""
    return topic_id


def _partitions_of(partitions: Sequence[int]) -> frozenset[int]:
    """Return the set of these; few are often the same few, in groups that are small."""
    if len(partitions) <= _FEW:
        return _shared_partitions(tuple(partitions))
    return frozenset(partitions)


@lru_cache(_REMEMBERED)
def _shared_partitions(partitions: tuple[int, ...]) -> frozenset[int]:
    return frozenset(partitions)


def regex_record(group_id: GroupId, regex: str, resolved: ResolvedRegex) -> Record:
    """Say which topics a regular expression stands for."""
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics),
            version=resolved.version,
            timestamp=resolved.timestamp_ms,
        ),
    )


def regex_tombstone(group_id: GroupId, regex: str) -> Record:
    """Say that nobody subscribes to a regular expression any more."""
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None
    )


def member_tombstones(group_id: GroupId, member_id: MemberId) -> list[Record]:
    """Say that a member is gone, in the order that makes each state on the way a possible one."""
    return [
        current_assignment_tombstone(group_id, member_id),
        target_assignment_tombstone(group_id, member_id),
        member_metadata_tombstone(group_id, member_id),
    ]


def current_assignment_tombstone(group_id: GroupId, member_id: MemberId) -> Record:
    """Say that a member has nothing any more."""
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
    )


def target_assignment_tombstone(group_id: GroupId, member_id: MemberId) -> Record:
    """Say that a member is to have nothing any more."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
    )


def member_metadata_tombstone(group_id: GroupId, member_id: MemberId) -> Record:
    """Say that a member is not one any more."""
    return CoordinatorRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None
    )


def target_epoch_tombstone(group_id: GroupId) -> Record:
    """Say that the group has no target assignment any more."""
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
