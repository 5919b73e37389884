"""The records that classic groups and committed offsets put on `__consumer_offsets`."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkalite.protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId, Record
    from kafkalite.groups.offset import OffsetAndMetadata

_NEVER = -1
"""How OffsetCommitValue says that an offset has no expiry of its own."""

_WRITTEN_VERSIONS: dict[type, int] = {GroupMetadataValue: 3}
"""Values not written in version 0; OffsetCommitValue is a choice of its own."""


def written_version(value: object) -> int:
    """Return the version Kafka 4.3 writes a value of `__consumer_offsets` in.

    An offset with an expiry of its own needs version 1: later ones cannot carry it.
    """
    if isinstance(value, OffsetCommitValue):
        return 4 if value.expire_timestamp == _NEVER else 1
    return _WRITTEN_VERSIONS.get(type(value), 0)


def offset_commit_record(
    group_id: GroupId, topic: str, partition: int, offset: OffsetAndMetadata
) -> Record:
    """Say that the group has read up to this offset.

    One with an expiry of its own is written in a version that knows neither leader epoch nor topic
    id; they are left out here, so that replaying now and replaying after a restart agree.
    """
    value = OffsetCommitValue(
        offset=offset.offset,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp_ms,
    )
    if offset.expire_timestamp_ms is None:
        value.leader_epoch = offset.leader_epoch
        value.topic_id = offset.topic_id
    else:
        value.expire_timestamp = offset.expire_timestamp_ms
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), value
    )


def offset_commit_tombstone(group_id: GroupId, topic: str, partition: int) -> Record:
    """Say that the group has no offset for this partition any more."""
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), None
    )


def group_metadata_record(group_id: GroupId, value: GroupMetadataValue) -> Record:
    """Say what a classic group settled on."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value)


def with_shared_texts(value: GroupMetadataValue) -> GroupMetadataValue:
    """Return the value itself, with what many groups say alike kept once for all of them."""
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
    """Say that there is no such classic group any more."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)
