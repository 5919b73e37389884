"""Records of consumer groups: encoding from state and decoding of values.

They are Kafka's record types 3 to 8 and 16 of `__consumer_offsets`. Sets are written as sorted
lists, so that the same state always gives the same bytes.
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
from kafkalite.groups.modern.offset_commit_fencing import revocation_of
from kafkalite.groups.modern.record_types import RecordTypes
from kafkalite.groups.modern.topics import partitions_by_topic
from kafkalite.protocol._generated.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kafkalite.protocol._generated.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kafkalite.protocol._generated.records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from kafkalite.protocol._generated.records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
)
from kafkalite.protocol._generated.records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kafkalite.protocol._generated.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kafkalite.protocol._generated.records.consumer_group_target_assignment_metadata import (
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


_MAX_CACHED, _MAX_CACHED_NAME_SETS = 1_024, 128
_MAX_SHARED_PARTITIONS, _MAX_SHARED_NAMES = 8, 1_000


TYPES = RecordTypes(
    group_key=ConsumerGroupMetadataKey,
    member_key=ConsumerGroupMemberMetadataKey,
    target_epoch_key=ConsumerGroupTargetAssignmentMetadataKey,
    target_epoch_value=ConsumerGroupTargetAssignmentMetadataValue,
    target_member_key=ConsumerGroupTargetAssignmentMemberKey,
    current_key=ConsumerGroupCurrentMemberAssignmentKey,
)
member_tombstones = TYPES.member_tombstones
target_epoch_record = TYPES.target_epoch_record


def group_epoch_record(group_id: GroupId, epoch: int, metadata_hash: int) -> Record:
    """Return the record of the group epoch and the metadata hash."""
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def partition_metadata_tombstone(group_id: GroupId) -> Record:
    """Return the tombstone of the record that Kafka 4.1 replaced by a hash (KIP-1101)."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_metadata_record(
    group_id: GroupId, member_id: MemberId, metadata: MemberMetadata
) -> Record:
    """Return the record of a member's metadata."""
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


def _shared_name_set(names: Sequence[str]) -> frozenset[str]:
    """Return the set of these names; members with the same topics share one set.

    Large sets are not cached, to save memory.
    """
    return _cached_name_set(tuple(names)) if len(names) <= _MAX_SHARED_NAMES else frozenset(names)


@lru_cache(_MAX_CACHED_NAME_SETS)
def _cached_name_set(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names)


def member_metadata_of(value: ConsumerGroupMemberMetadataValue) -> MemberMetadata:
    """Return the member metadata of a record value."""
    classic = value.classic_member_metadata
    return MemberMetadata(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=intern(value.client_id),
        client_host=intern(value.client_host),
        topic_names=_shared_name_set(value.subscribed_topic_names),
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


def target_assignment_record(group_id: GroupId, member_id: MemberId, target: Assignment) -> Record:
    """Return the record of a member's target assignment."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=partitions_by_topic(_Target, target),
        ),
    )


def target_assignment_of(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    """Return the target assignment of a record value."""
    return {
        _shared_id(topic.topic_id): _shared_partition_set(topic.partitions)
        for topic in value.topic_partitions
        if topic.partitions
    }


def current_assignment_record(
    group_id: GroupId, member_id: MemberId, current: CurrentAssignment
) -> Record:
    """Return the record of a member's current assignment."""
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
            is_join_confirmed=current.is_join_confirmed,
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
    """Return the current assignment of a record value."""
    # Coordinators before 4.3 wrote no assignment epochs. With the member epoch instead, their rule
    # still applies: a commit must have this epoch or a later one.
    default_epoch = max(0, value.member_epoch)
    return CurrentAssignment(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_owned_of(value.assigned_partitions, default_epoch),
        pending_revocation=_owned_of(value.partitions_pending_revocation, default_epoch),
        revocation=revocation_of(
            value.revocation_epoch, is_under_way=value.is_revocation_under_way
        ),
        is_join_confirmed=value.is_join_confirmed,
    )


def _owned_of(topics: Iterable[_Owned], default_epoch: int) -> OwnedPartitions:
    return {
        _shared_id(topic.topic_id): dict(
            zip(
                topic.partitions,
                topic.assignment_epochs or [default_epoch] * len(topic.partitions),
                strict=True,
            )
        )
        for topic in topics
        if topic.partitions
    }


@lru_cache(_MAX_CACHED)
def _shared_id(topic_id: bytes) -> bytes:
    """Return these bytes; all assignments with the topic share one object."""
    return topic_id


def _shared_partition_set(partitions: Sequence[int]) -> frozenset[int]:
    """Return the set of these partitions; small sets are shared, as they often repeat."""
    if len(partitions) <= _MAX_SHARED_PARTITIONS:
        return _cached_partition_set(tuple(partitions))
    return frozenset(partitions)


@lru_cache(_MAX_CACHED)
def _cached_partition_set(partitions: tuple[int, ...]) -> frozenset[int]:
    return frozenset(partitions)


def regex_record(group_id: GroupId, regex: str, resolved: ResolvedRegex) -> Record:
    """Return the record of a resolved regular expression."""
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics),
            version=resolved.version,
            timestamp=resolved.timestamp_ms,
        ),
    )


def regex_tombstone(group_id: GroupId, regex: str) -> Record:
    """Return the tombstone of a resolved regular expression."""
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None
    )
