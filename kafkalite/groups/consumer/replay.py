"""Replay: each kind of record of a consumer group, and what it makes true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.consumer import records
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.regex import ResolvedRegex
from kafkalite.groups.replaying import GroupReplay
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
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.groups.directory import GroupDirectory


class ConsumerGroupReplay(GroupReplay[ConsumerGroup]):
    """Makes records of consumer groups true in a directory of groups."""

    __slots__ = ()

    def __init__(self, directory: GroupDirectory) -> None:
        super().__init__(
            directory, ConsumerGroup, lambda group_id: ConsumerGroup(group_id, directory)
        )

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

    def replay_metadata(
        self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
    ) -> None:
        """Move the group to an epoch; the tombstone ends it."""
        if value is None:
            self.replay_end(key.group_id)
        elif (group := self._group(key.group_id, exists=True)) is not None:
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
