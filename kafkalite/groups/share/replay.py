"""Replay: each kind of record of a share group, and what it makes true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.replaying import GroupReplay
from kafkalite.groups.share import records
from kafkalite.groups.share.group import ShareGroup
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
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.groups.directory import GroupDirectory


class ShareGroupReplay(GroupReplay[ShareGroup]):
    """Makes records of share groups true in a directory of groups."""

    __slots__ = ()

    def __init__(self, directory: GroupDirectory) -> None:
        super().__init__(directory, ShareGroup, ShareGroup)

    def replayers(self) -> Mapping[type, Callable[[Any, Any], None]]:
        """Return what to call for each class of key."""
        return {
            ShareGroupMetadataKey: self.replay_metadata,
            ShareGroupMemberMetadataKey: self.replay_member_metadata,
            ShareGroupTargetAssignmentMetadataKey: self.replay_target_metadata,
            ShareGroupTargetAssignmentMemberKey: self.replay_target_member,
            ShareGroupCurrentMemberAssignmentKey: self.replay_current_assignment,
            ShareGroupStatePartitionMetadataKey: self.replay_state_partitions,
        }

    def replay_metadata(
        self, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None
    ) -> None:
        """Move the group to an epoch; the tombstone ends it."""
        if value is None:
            self.replay_end(key.group_id)
        elif (group := self._group(key.group_id, exists=True)) is not None:
            group.replay_epoch(value.epoch, value.metadata_hash)

    def replay_member_metadata(
        self, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None
    ) -> None:
        """Make what a member says of itself true."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_member(key.member_id, None if value is None else records.member_of(value))

    def replay_target_member(
        self,
        key: ShareGroupTargetAssignmentMemberKey,
        value: ShareGroupTargetAssignmentMemberValue | None,
    ) -> None:
        """Say what a member should have."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_target(
                key.member_id, None if value is None else records.target_assignment_of(value)
            )

    def replay_current_assignment(
        self,
        key: ShareGroupCurrentMemberAssignmentKey,
        value: ShareGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        """Say what a member has."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_current(
                key.member_id, None if value is None else records.current_assignment_of(value)
            )

    def replay_state_partitions(
        self,
        key: ShareGroupStatePartitionMetadataKey,
        value: ShareGroupStatePartitionMetadataValue | None,
    ) -> None:
        """Say how far the share state of the group's partitions has come."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_partitions(None if value is None else records.partitions_of(value))
