"""Replay: each kind of record of a consumer group, and what it makes true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.consumer import records
from kafkalite.groups.consumer.group import NEVER_ASSIGNED_MS, ConsumerGroup
from kafkalite.groups.consumer.regex import ResolvedRegex
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
    ConsumerGroupPartitionMetadataValue,
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
    from collections.abc import Callable, Mapping

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId

_NO_TARGET_EPOCH = -1


class ConsumerGroupReplay:
    """Makes records of consumer groups true in a directory of groups.

    A compacted log may show a tombstone whose group it no longer shows, and a member's parts in
    any order: each record stands for itself, and the group comes into being with the first.
    """

    __slots__ = ("_directory",)

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory

    def replayers(self) -> Mapping[type, Callable[[Any, Any], None]]:
        """Return what to call for each class of key."""
        return {
            ConsumerGroupMetadataKey: self.replay_metadata,
            ConsumerGroupPartitionMetadataKey: self.replay_partition_metadata,
            ConsumerGroupMemberMetadataKey: self.replay_member_metadata,
            ConsumerGroupTargetAssignmentMetadataKey: self.replay_target_metadata,
            ConsumerGroupTargetAssignmentMemberKey: self.replay_target_member,
            ConsumerGroupCurrentMemberAssignmentKey: self.replay_current_assignment,
            ConsumerGroupRegularExpressionKey: self.replay_regular_expression,
        }

    def _group(self, group_id: GroupId, *, exists: bool) -> ConsumerGroup | None:
        """Return the group, made if a record says that it exists; None: nothing to bury."""
        group = self._directory.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if not exists:
            return None
        made = ConsumerGroup(group_id)
        self._directory.groups[group_id] = made
        return made

    def replay_metadata(
        self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
    ) -> None:
        """Move the group to an epoch; the tombstone ends it."""
        group = self._group(key.group_id, exists=value is not None)
        if group is None:
            return
        if value is None:
            del self._directory.groups[key.group_id]
        else:
            group.replay_epoch(value.epoch, value.metadata_hash)

    def replay_partition_metadata(
        self,
        key: ConsumerGroupPartitionMetadataKey,
        value: ConsumerGroupPartitionMetadataValue | None,
    ) -> None:
        """Remember whether the record of old is there."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_partition_metadata(present=value is not None)

    def replay_member_metadata(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        """Make what a member says of itself true."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_member_metadata(
                key.member_id, None if value is None else records.member_metadata_of(value)
            )

    def replay_target_metadata(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        """Say for which epoch the assignor has run."""
        group = self._group(key.group_id, exists=value is not None)
        if group is None:
            return
        if value is None:
            group.replay_target_epoch(_NO_TARGET_EPOCH, NEVER_ASSIGNED_MS)
        else:
            group.replay_target_epoch(value.assignment_epoch, value.assignment_timestamp)

    def replay_target_member(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        """Say what a member should have."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_target(
                key.member_id, None if value is None else records.target_assignment_of(value)
            )

    def replay_current_assignment(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        """Say what a member has."""
        if (group := self._group(key.group_id, exists=value is not None)) is not None:
            group.replay_current(
                key.member_id, None if value is None else records.current_assignment_of(value)
            )

    def replay_regular_expression(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        """Say what an expression stands for."""
        if (group := self._group(key.group_id, exists=value is not None)) is None:
            return
        resolved = None
        if value is not None:
            resolved = ResolvedRegex(
                topics=frozenset(value.topics),
                version=value.version,
                timestamp_ms=value.timestamp,
            )
        group.replay_regex(key.regular_expression, resolved)
