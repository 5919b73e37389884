"""Records of committed offsets and classic groups in `__consumer_offsets`."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol._generated.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId, OffsetAndMetadata, Record

_NEVER = -1
"""`OffsetCommitValue.expire_timestamp` of an offset that has no expiry of its own."""

_WRITTEN_VERSIONS: dict[type, int] = {GroupMetadataValue: 3}
"""Versions of values that are not written in version 0; see also `written_version`."""


def written_version(value: object) -> int:
    """Return the version in which Kafka 4.4 writes this value of `__consumer_offsets`.

    An offset with an expiry of its own needs version 1: later versions have no such field.
    """
    if isinstance(value, OffsetCommitValue):
        return 4 if value.expire_timestamp == _NEVER else 1
    return _WRITTEN_VERSIONS.get(type(value), 0)


def offset_commit_record(
    group_id: GroupId, topic: str, partition: int, offset: OffsetAndMetadata
) -> Record:
    """Return the record of a committed offset.

    The version for offsets with an expiry of their own has no leader epoch, topic id or incarnation
    epoch. So these are omitted from the value as well, and replay now gives the same state as
    replay after a restart.
    """
    value = OffsetCommitValue(
        offset=offset.offset,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp_ms,
    )
    if offset.expire_timestamp_ms is None:
        value.leader_epoch = offset.leader_epoch
        value.topic_id = offset.topic_id
        value.incarnation_epoch = offset.incarnation_epoch
    else:
        value.expire_timestamp = offset.expire_timestamp_ms
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), value
    )


def offset_commit_tombstone(group_id: GroupId, topic: str, partition: int) -> Record:
    """Return the tombstone that deletes the group's offset of this partition."""
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), None
    )


def group_metadata_record(group_id: GroupId, value: GroupMetadataValue) -> Record:
    """Return the record of a classic group's generation."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value)


def intern_strings(value: GroupMetadataValue) -> GroupMetadataValue:
    """Return the value, with strings that many groups have in common interned."""
    value.protocol_type = intern(value.protocol_type)
    if value.protocol is not None:
        value.protocol = intern(value.protocol)
    for member in value.members:
        member.client_id = intern(member.client_id)
        member.client_host = intern(member.client_host)
        if member.member_id == value.leader:
            value.leader = member.member_id
    return value


def group_metadata_tombstone(group_id: GroupId) -> Record:
    """Return the tombstone that deletes a classic group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)
